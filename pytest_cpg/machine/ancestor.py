"""Ancestor: what the process that workers are forked from does before it loads what they need."""

from __future__ import annotations

import os
import sys

_PROCESS = os.getpid()

# Python looks first where it was started, and a user's secrets.py is none of Python's own.
if sys.path[:1] == [""]:
    del sys.path[0]


def _draw_anew() -> None:
    # Else noise from numpy's own stream would be the same in all forks, a user's own among them.
    if os.getppid() == _PROCESS and "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


os.register_at_fork(after_in_child=_draw_anew)

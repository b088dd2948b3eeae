"""Exits: no code under test ends a session of gates as if they had passed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

_REFUSED = "os._exit(0) would have ended the session as passed, with gates that did not report."


@contextmanager
def success_refused(show: Callable[[str], None]) -> Iterator[None]:
    """Fail the test that calls ``os._exit(0)`` in this process, which pytest cannot notice.

    A forked process may end as it likes, and any other status says by itself that something is
    wrong. In a thread that is not the main one, the process ends, with status 1.

    Parameters
    ----------
    show : callable
        Prints why the process ends.
    """
    end, process = os._exit, os.getpid()

    def exit_unless_success(status: int) -> NoReturn:
        __tracebackhide__ = True
        if status or os.getpid() != process:
            end(status)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(_REFUSED)
        show(_REFUSED)
        end(1)

    os._exit = exit_unless_success
    try:
        yield
    finally:
        os._exit = end

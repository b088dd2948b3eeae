"""Exits: while it lasts, no code under test ends a session of gates as if they had passed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import NoReturn

_REFUSED = "os._exit(0) would have ended the session as passed, with gates that did not report."


def refuse_success(applies: Callable[[], bool], show: Callable[[str], None]) -> Callable[[], None]:
    """Fail the test that calls ``os._exit(0)`` in this process, which pytest cannot notice.

    A forked process may end as it likes, and any other status says by itself that something is
    wrong. In a thread that is not the main one, the process ends, with status 1.

    Parameters
    ----------
    applies : callable
        Says whether there is anything to hide.
    show : callable
        Prints why the process ends.

    Returns
    -------
    callable
        Puts things back.
    """
    end, process = os._exit, os.getpid()

    def exit_unless_success(status: int) -> NoReturn:
        __tracebackhide__ = True
        # Whoever waits sees eight bits of it.
        if status & 0xFF or os.getpid() != process or not applies():
            end(status)
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(_REFUSED)
        show(_REFUSED)
        end(1)

    def put_back() -> None:
        os._exit = end

    os._exit = exit_unless_success
    return put_back

"""Exits: no code under test ends this process as if all had passed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import NoReturn

_HIDES = " would have ended the session as passed, before its gates were accounted for."
# `os` has it from the module of the system, where it may be called as well.
_MODULES = (os, sys.modules[os.name])


def refuse_success(
    hides: Callable[[], bool], show: Callable[[str], object]
) -> Callable[[int], None]:
    """Fail the test that ends this process with 0, unseen by pytest, while that ``hides`` anything.

    A forked process may end as it likes, and any other status says by itself that something is
    wrong. In a thread that is not the main one, the process ends, with status 1. Not seen here are
    native code and a function that was taken from `os` before. What is returned is given the
    session's exit code and puts things back; ``os._exit(0)`` ends the process with that code.
    """
    # What a failed session left behind is over when the next one begins.
    end: Callable[[int], NoReturn] = getattr(os._exit, "__wrapped__", os._exit)
    process, codes = os.getpid(), list[int]()

    def exit_unless_success(status: int) -> NoReturn:
        # Any test may end here, one without a gate, too.
        __tracebackhide__ = True
        # Whoever waits sees eight bits of it.
        if status & 0xFF or os.getpid() != process:
            end(status)
        if not codes and hides():
            if threading.current_thread() is threading.main_thread():
                raise SystemExit(f"os._exit(0){_HIDES}")
            show(f"os._exit(0){_HIDES}")
            end(1)
        end(codes[0] if codes else 0)

    def put_back(code: int) -> None:
        codes.append(code)
        _set(wraps(end)(exit_unless_success) if code else end)

    _set(exit_unless_success)
    return put_back


def is_refused(error: SystemExit) -> bool:
    """Say whether an exit is one of ours, in place of what would have ended the process."""
    return isinstance(error.code, str) and error.code.endswith(_HIDES)


def is_success(error: SystemExit) -> bool:
    """Say whether an exit says that all is well, or would have said so had it not been refused."""
    code = 0 if error.code is None else error.code
    return is_refused(error) or (isinstance(code, int) and not code & 0xFF)


def left_by(error: SystemExit) -> str:
    """Return what an exit while files are imported would hide, and where it is."""
    from traceback import walk_tb

    own = (globals(), vars(os))
    places = [
        f"{frame.f_code.co_filename}:{line}"
        for frame, line in walk_tb(error.__traceback__)
        if all(frame.f_globals is not names for names in own)
    ]
    told = error.code if is_refused(error) else f"SystemExit{_HIDES}"
    return f"{told}\n  {places[-1]}"


def _set(function: Callable[[int], NoReturn]) -> None:
    for module in _MODULES:
        vars(module)["_exit"] = function

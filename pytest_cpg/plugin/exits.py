"""Exits: no code under test ends a session of gates as if they had passed."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, NoReturn

_HIDES = " would have ended the session as passed, before its gates were accounted for."
# `os` has them from the module of the system, where they may be called as well.
_MODULES = (os, sys.modules[os.name])

if TYPE_CHECKING:
    from typing import TypeAlias

    _Functions: TypeAlias = Mapping[str, Callable[..., NoReturn]]


def refuse_success(
    hides: Callable[[], bool], is_replaced: Callable[[], bool], show: Callable[[str], None]
) -> Callable[[int], None]:
    """Fail the test that ends this process with 0, or becomes another program: unseen by pytest.

    A forked process may end as it likes, and any other status says by itself that something is
    wrong. In a thread that is not the main one, the process ends, with status 1. Native code that
    ends the process is not seen here, nor is a function that was taken from `os` before.

    ``is_replaced`` says whether there is a session that another program would take the place of:
    before, that is often pytest again, in another environment. What is returned is given the
    session's exit code and puts things back; ``os._exit(0)`` ends the process with that code.
    """
    # What a failed session left behind is over when the next one begins.
    end: Callable[[int], NoReturn] = getattr(os._exit, "__wrapped__", os._exit)
    before: _Functions = {"_exit": end, "execv": os.execv, "execve": os.execve}
    process = os.getpid()
    codes: list[int] = []

    def refuse(call: str) -> None:
        # Any test may end here, one without a gate, too.
        __tracebackhide__ = True
        if codes or os.getpid() != process or not hides():
            return
        if threading.current_thread() is threading.main_thread():
            raise SystemExit(call + _HIDES)
        show(call + _HIDES)
        end(1)

    def exit_unless_success(status: int) -> NoReturn:
        __tracebackhide__ = True
        # Whoever waits sees eight bits of it.
        if not status & 0xFF:
            refuse("os._exit(0)")
            status = codes[0] if codes and os.getpid() == process else 0
        end(status)

    # Named as those of `os`, which takes them by name, too.
    def execv(path: str, argv: list[str]) -> NoReturn:
        __tracebackhide__ = True
        if is_replaced():
            refuse("os.execv")
        before["execv"](path, argv)

    def execve(path: str, argv: list[str], env: dict[str, str]) -> NoReturn:
        __tracebackhide__ = True
        if is_replaced():
            refuse("os.execve")
        before["execve"](path, argv, env)

    def put_back(code: int) -> None:
        codes.append(code)
        _set(before)
        if code:
            _set({"_exit": wraps(end)(exit_unless_success)})

    _set({"_exit": exit_unless_success, "execv": execv, "execve": execve})
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


def _set(functions: _Functions) -> None:
    for module in _MODULES:
        for name, function in functions.items():
            setattr(module, name, function)

"""Clock: what MuJoCo times itself with, stopped while it simulates."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import mujoco


class Clock:
    """MuJoCo's C global ``mjcb_time``, which ``mujoco.set_mjcb_time(None)`` does not clear.

    Its Python package installs one that takes nearly half of a small model's step.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._saved: int | None = None
        # Looking through the bindings finds the library that they use; there may be others.
        library = "mujoco.dll" if sys.platform == "win32" else mujoco._functions.__file__
        try:
            self._pointer = ctypes.c_void_p.in_dll(ctypes.CDLL(library), "mjcb_time")
        except (OSError, ValueError):
            self._pointer = ctypes.c_void_p()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Switch the clock off, in the whole process, while the context lasts.

        Nothing else changes. Contexts may be nested; a clock that cannot be found stays on.
        """
        with self._lock:
            if not self._users:
                self._saved, self._pointer.value = self._pointer.value, None
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._pointer.value = self._saved


CLOCK = Clock()

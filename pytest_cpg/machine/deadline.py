"""Deadline: how long a comparison may take before it is broken off."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from pytest_cpg.contracts import IncompleteError

# A model that answers at all is broken off between two plans, where it can be said how far it got.
_GRACE_SECONDS = 1.0
# What is raised inside a model every second may be caught there every time.
_LAST_SECONDS = 30.0
_GIVEN_UP = (
    "the model does not answer {seconds:g} s after its time was over ({reason}), and catches what "
    "interrupts it. The session ends here, with exit code 1 and without reports. --cpg-workers=2 "
    "ends a model that hangs, and goes on."
)


class Deadline:
    """Breaks off a comparison after so many seconds from now on, infinite for no limit.

    ``give_up`` ends the process, and says why, where nothing interrupts a model.
    """

    def __init__(self, seconds: float, reason: str, give_up: Callable[[str], None]) -> None:
        self._begun = time.monotonic()
        self._seconds, self._reason, self._give_up = seconds, reason, give_up

    def check(self) -> None:
        """Raise IncompleteError if the time has run out."""
        if time.monotonic() - self._begun >= self._seconds:
            self._break_off("")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Interrupt also a model that does not answer, from the main thread where there are alarms.

        Where that is of no avail, the process ends, unless the model keeps all threads waiting.
        """
        self.check()
        if math.isinf(self._seconds) or not _is_alarm_free():
            yield
            return

        why = ", in the middle of a call"
        before = signal.signal(signal.SIGALRM, lambda *_: self._break_off(why))
        # Once more every second: what is raised inside a model may be caught there.
        left = self._seconds - (time.monotonic() - self._begun)
        signal.setitimer(signal.ITIMER_REAL, max(left, 0) + _GRACE_SECONDS, _GRACE_SECONDS)
        text = _GIVEN_UP.format(seconds=_LAST_SECONDS, reason=self._reason)
        last = threading.Timer(left + _LAST_SECONDS, self._give_up, [text])
        last.daemon = True
        last.start()
        try:
            yield
        finally:
            last.cancel()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def _break_off(self, why: str) -> NoReturn:
        spent = time.monotonic() - self._begun
        raise IncompleteError(f"INCOMPLETE after {spent:.0f} s ({self._reason}){why}")


def _is_alarm_free() -> bool:
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    )

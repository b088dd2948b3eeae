"""Deadline: how long a comparison may take before it is broken off."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from pytest_cpg.contracts import IncompleteError

# A model that answers at all is broken off between two plans, where it can be said how far it got.
_GRACE_SECONDS = 1.0


class Deadline:
    """Breaks off a comparison when its time has run out.

    Parameters
    ----------
    seconds : float
        From now on; infinite for no limit, not above 0 when there is none left.
    reason : str
        What set the limit, for the message.
    """

    def __init__(self, seconds: float, reason: str) -> None:
        self._begun = time.monotonic()
        self._seconds, self._reason = seconds, reason

    def check(self) -> None:
        """Raise IncompleteError if the time has run out."""
        if time.monotonic() - self._begun >= self._seconds:
            self._break_off("")

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Interrupt also a model that does not answer.

        In the main thread and where the operating system has alarms, unless somebody else has set
        one. Code that never returns to Python cannot be interrupted.
        """
        self.check()
        if math.isinf(self._seconds) or not _is_alarm_free():
            yield
            return

        why = ", in the middle of a plan"
        before = signal.signal(signal.SIGALRM, lambda *_: self._break_off(why))
        # Once more every second: what is raised inside a model may be caught there.
        signal.setitimer(signal.ITIMER_REAL, self._seconds + _GRACE_SECONDS, _GRACE_SECONDS)
        try:
            yield
        finally:
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

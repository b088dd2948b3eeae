"""Deadline: what it watches twice has no more time than what it watches once."""

import signal
from types import SimpleNamespace

import pytest

from pytest_cpg.machine import deadline


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarms here")
def test_the_second_guard_has_the_time_that_the_first_one_left(monkeypatch):
    begun = deadline.time.monotonic()
    limit = deadline.Deadline(5000.0, "timeout=5000", lambda _: None)
    later = SimpleNamespace(monotonic=lambda: begun + 4000.0)
    monkeypatch.setattr(deadline, "time", later)
    with limit.guard():
        left, _ = signal.getitimer(signal.ITIMER_REAL)
    assert 0 < left < 1010.0

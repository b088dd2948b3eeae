"""One row of the benchmark table, and the clock it is measured with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was measured, on both sides, and the bar it must clear."""

    what: str
    ours: str
    other: str
    result: str
    bar: str


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of all threads while ``work`` runs."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def wall_seconds(work: Callable[[], object]) -> float:
    """Return how long ``work`` takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun

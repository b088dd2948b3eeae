"""An arm: what one kind of dynamics achieved on the starts of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.stats import Interval, wilson_interval


@dataclass(frozen=True, slots=True)
class Latency:
    """Time of one planning decision, in milliseconds.

    Episodes are planned together; a round's time is divided by the episodes it planned for.
    """

    median: float
    p95: float

    @classmethod
    def of(cls, milliseconds: FloatArray) -> Latency:
        """Summarise decisions [rounds]; zero decisions took zero time."""
        if not len(milliseconds):
            return cls(0.0, 0.0)
        return cls(float(np.median(milliseconds)), float(np.percentile(milliseconds, 95)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arm:
    """Outcomes and cost of ``N`` episodes planned with one kind of dynamics.

    Attributes
    ----------
    name : str
        ``"oracle"``, ``"learned"`` or ``"chance"``.
    successes : array [N], bool
        Whether each episode succeeded within its budget, in the order of the episodes' indices.
    steps : array [N], int
        Steps taken: to success, or the whole budget.
    level : float
        Coverage of `interval`, in (0, 1).
    decisions : int
        Plans made, over all episodes.
    rollout_steps : float
        Model steps imagined per decision.
    latency_ms, cpu_ms : Latency
        Wall and processor time (all threads) per decision.
    seconds : float
        Wall time of the whole arm.
    """

    name: str
    successes: BoolArray
    steps: IntArray
    level: float
    decisions: int
    rollout_steps: float
    latency_ms: Latency
    cpu_ms: Latency
    seconds: float

    def __post_init__(self) -> None:
        for field, dtype in (("successes", np.bool_), ("steps", np.int64)):
            values = np.array(getattr(self, field), dtype=dtype)
            values.flags.writeable = False
            object.__setattr__(self, field, values)
        if self.successes.ndim != 1 or self.successes.shape != self.steps.shape:
            raise ValueError(
                f"need one success and one step count per episode, got shapes "
                f"{self.successes.shape} and {self.steps.shape}"
            )

    def __repr__(self) -> str:
        return f"Arm({self.name}: {self.success_count}/{self.episodes} episodes succeeded)"

    @property
    def episodes(self) -> int:
        """Number of episodes, ``N``."""
        return len(self.successes)

    @property
    def success_count(self) -> int:
        """Number of episodes that succeeded."""
        return int(self.successes.sum())

    @property
    def success_rate(self) -> float:
        """Share of episodes that succeeded, in [0, 1]."""
        return self.success_count / self.episodes

    @property
    def interval(self) -> Interval:
        """Wilson interval of `success_rate`."""
        return wilson_interval(self.success_count, self.episodes, level=self.level)

    @property
    def mean_steps_to_success(self) -> float | None:
        """Mean steps of the episodes that succeeded; None when none did."""
        return float(self.steps[self.successes].mean()) if self.success_count else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers for JSON."""
        return {
            "name": self.name,
            "successes": [int(success) for success in self.successes],
            "steps": self.steps.tolist(),
            "level": self.level,
            "decisions": self.decisions,
            "rollout_steps": self.rollout_steps,
            "latency_ms": [self.latency_ms.median, self.latency_ms.p95],
            "cpu_ms": [self.cpu_ms.median, self.cpu_ms.p95],
            "seconds": self.seconds,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Arm:
        """Rebuild an arm from `to_dict`."""
        return cls(
            **{
                **values,
                "latency_ms": Latency(*values["latency_ms"]),
                "cpu_ms": Latency(*values["cpu_ms"]),
            }
        )

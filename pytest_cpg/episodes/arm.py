"""An arm: what one kind of dynamics achieved on the starts of a gate."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.contracts.codec import UNWRITTEN
from pytest_cpg.stats import Interval, SelectiveRisk, aurc, wilson_interval

# What the gap of a gate is of.
Metric: TypeAlias = Literal["success", "return"]


class Latency(NamedTuple):
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


# Successes first: their number is what the others are held to.
_PER_EPISODE = {
    "successes": np.bool_,
    "steps": np.int64,
    "indices": np.int64,
    "returns": np.float64,
    "confidences": np.float64,
    "perturbed": np.bool_,
}


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
    indices : array [N], int
        Which episode of the gate each one is: equal indices began at the same start.
    returns : array [N]
        Sum of the task's rewards over the whole budget, in reward units. Where an episode ends at
        its success, the reward it succeeded with counts for every step that was left.
    confidences : array [N] or None
        What the planner said of each episode, if it says anything: the mean over its plans, higher
        is surer.
    perturbed : array [N], bool, or None
        Whether the perturbation took effect before each episode had succeeded; None without one.
    actions : tuple of array [T, A]
        What was executed in each episode, in the simulator's own units. Empty where it was read
        from a report, which does not hold it.
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
    indices: IntArray
    returns: FloatArray
    confidences: FloatArray | None = None
    perturbed: BoolArray | None = None
    level: float
    decisions: int
    rollout_steps: float
    latency_ms: Latency
    cpu_ms: Latency
    seconds: float
    actions: tuple[FloatArray, ...] = field(default=(), metadata=UNWRITTEN)

    def __post_init__(self) -> None:
        for name, dtype in _PER_EPISODE.items():
            if getattr(self, name) is None:
                continue
            values: npt.NDArray[Any] = np.array(getattr(self, name), dtype=dtype)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
            if values.shape != (self.successes.size,):
                raise ValueError(
                    f"need one of {name} for each of {self.successes.size} episodes, got shape "
                    f"{values.shape}"
                )
            if not np.isfinite(values).all():
                raise ValueError(f"need finite {name}, got {values[~np.isfinite(values)][0]}")
        if not 0 < self.level < 1:
            raise ValueError(f"need a level between 0 and 1, got {self.level!r}")
        if len(self.actions) not in (0, self.episodes):
            raise ValueError(
                f"need actions of all {self.episodes} episodes or none, got {len(self.actions)}"
            )

    def __repr__(self) -> str:
        return f"Arm({self.name}: {self.success_count}/{self.episodes} episodes succeeded)"

    def first(self, count: int) -> Arm:
        """Return the first episodes; costs stay the costs of all."""
        columns = {name: getattr(self, name) for name in (*_PER_EPISODE, "actions")}
        return replace(
            self, **{name: values[:count] for name, values in columns.items() if values is not None}
        )

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

    def success_within(self, steps: int) -> Interval:
        """Wilson interval of the rate of episodes that succeeded within so many steps.

        It is counted in the run as it was: a planner that looks at the steps that are left may do
        otherwise where there are fewer.
        """
        successes = int((self.successes & (self.steps <= steps)).sum())
        return wilson_interval(successes, self.episodes, level=self.level)

    @property
    def mean_steps_to_success(self) -> float | None:
        """Mean steps of the episodes that succeeded; None when none did."""
        return float(self.steps[self.successes].mean()) if self.success_count else None

    @property
    def recovery(self) -> Interval | None:
        """Wilson interval of the rate of success among perturbed episodes; None without any."""
        if self.perturbed is None or not self.perturbed.any():
            return None
        recovered = int((self.successes & self.perturbed).sum())
        return wilson_interval(recovered, int(self.perturbed.sum()), level=self.level)

    @property
    def selective_risk(self) -> SelectiveRisk | None:
        """How well the planner's confidences tell its failures; None when it reports none."""
        if self.confidences is None:
            return None
        return aurc(self.confidences, ~self.successes)

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Fill in what arms of schema 1 did not have: indices and returns."""
        successes = values.get("successes")
        if not isinstance(successes, list):
            return values
        episodes = len(successes)
        return {"indices": list(range(episodes)), "returns": [0.0] * episodes, **values}

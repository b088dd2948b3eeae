"""A gate's result: the verdict, what it rests on, and its JSON form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from pytest_cpg.metrics import Arm
from pytest_cpg.stats import Interval, Verdict

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """How the two arms did on the same starts, counted in episodes."""

    both: int
    oracle_only: int
    learned_only: int
    neither: int

    @classmethod
    def of(cls, oracle: Arm, learned: Arm) -> Pairs:
        """Count two arms whose episodes began at the same starts."""
        both = int((oracle.successes & learned.successes).sum())
        either = int((oracle.successes | learned.successes).sum())
        return cls(
            both=both,
            oracle_only=oracle.success_count - both,
            learned_only=learned.success_count - both,
            neither=oracle.episodes - either,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GateResult:
    """What one gate measured, and its verdict.

    Attributes
    ----------
    verdict : Verdict
    interval, paired_interval : Interval
        Of the gap, in [-1, 1]: the one the verdict is judged by (Agresti-Caffo, independent arms),
        and one that uses that both arms share their starts (Bonett-Price).
    oracle, learned, chance : Arm
        Episode ``i`` of each began at the same start.
    task, planner, starts : str
        What was run: the task's name, the planner with all its settings, "sampled" or "fixed".
    budget, horizon : int
        Steps an episode may take, and steps a plan looks ahead.
    control_period : float
        Seconds of simulated time per step.
    level, tolerance : float
        Coverage of the intervals in (0, 1); how near to 0 or 1 a rate counts as such, [0, 0.5].
    min_oracle : float or None
        Oracle success rate below which the verdict is PLANNER BOTTLENECK.
    seed, starts_skipped : int
        The seed of starts and planner noise; starts replaced because they were solved already.
    start_seeds : tuple of int
        What the task was reset with in each episode.
    swapped : tuple of str
        What the learned arm replaced: ``("dynamics",)`` unless the model brings more.
    versions : mapping
        Package name to version.
    notes : tuple of str
        What a reader must know before trusting the verdict.
    faults : tuple of str
        What is wrong with the model itself; a gate with a fault fails whatever its verdict.
    """

    verdict: Verdict
    interval: Interval
    paired_interval: Interval
    oracle: Arm
    learned: Arm
    chance: Arm
    task: str
    planner: str
    starts: str
    budget: int
    horizon: int
    control_period: float
    level: float
    tolerance: float
    min_oracle: float | None
    seed: int
    starts_skipped: int
    start_seeds: tuple[int, ...]
    swapped: tuple[str, ...]
    versions: Mapping[str, str]
    notes: tuple[str, ...]
    faults: tuple[str, ...]

    def __repr__(self) -> str:
        return (
            f"GateResult({self.verdict}, gap {self.gap:+.2f} [{self.interval.low:+.2f}, "
            f"{self.interval.high:+.2f}], {self.oracle!r}, {self.learned!r})"
        )

    @property
    def gap(self) -> float:
        """Counterfactual Planning Gap: oracle minus learned success rate, in [-1, 1]."""
        return self.interval.estimate

    @property
    def normalised_gap(self) -> float | None:
        """The gap as a share of what the oracle adds to chance; None when it adds nothing."""
        headroom = self.oracle.success_rate - self.chance.success_rate
        return self.gap / headroom if headroom > 0 else None

    @property
    def pairs(self) -> Pairs:
        """The paired table of the two arms."""
        return Pairs.of(self.oracle, self.learned)

    @property
    def is_oracle_too_weak(self) -> bool:
        """Whether the oracle solves less than ``min_oracle`` asks for."""
        return self.min_oracle is not None and self.oracle.success_rate < self.min_oracle

    @property
    def lost_episodes(self) -> tuple[int, ...]:
        """Indices of the episodes that the oracle solved and the learned model did not."""
        lost = np.flatnonzero(self.oracle.successes & ~self.learned.successes)
        return tuple(int(episode) for episode in lost)

    def to_json(self) -> str:
        """Return one line of JSON that `from_json` reads back."""
        values: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("oracle", "learned", "chance"):
            values[name] = values[name].to_dict()
        for name in ("interval", "paired_interval"):
            values[name] = asdict(values[name])
        values["verdict"] = self.verdict.value
        values["versions"] = dict(self.versions)
        values["gap"] = self.gap
        return json.dumps({"schema": SCHEMA, **values}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> GateResult:
        """Rebuild a result from `to_json`.

        Raises
        ------
        ValueError
            When the text was written by a newer pytest-cpg.
        """
        values = json.loads(text)
        schema = values.pop("schema", None)
        if schema != SCHEMA:
            raise ValueError(
                f"this result has schema {schema!r}, and this pytest-cpg reads {SCHEMA}. "
                f"Read it with the pytest-cpg that wrote it, or upgrade: pip install -U pytest-cpg"
            )
        del values["gap"]
        for name in ("oracle", "learned", "chance"):
            values[name] = Arm.from_dict(values[name])
        for name in ("interval", "paired_interval"):
            values[name] = Interval(**values[name])
        values["verdict"] = Verdict(values["verdict"])
        for name in ("start_seeds", "swapped", "notes", "faults"):
            values[name] = tuple(values[name])
        return cls(**values)

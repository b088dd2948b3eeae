"""An arm: what one kind of dynamics achieved on the starts of a gate, and what stores it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.contracts.codec import UNWRITTEN, encode
from pytest_cpg.stats import Interval, SelectiveRisk, aurc, risk_at_coverage, wilson_interval

# What the gap of a gate is of.
Metric: TypeAlias = Literal["success", "return"]


class Latency(NamedTuple):
    """Milliseconds of one planning decision: a round's, divided by the episodes it planned for."""

    median: float
    p95: float

    @classmethod
    def of(cls, milliseconds: FloatArray) -> Latency:
        """Summarise decisions [rounds]; zero decisions took zero time."""
        if not len(milliseconds):
            return cls(0.0, 0.0)
        return cls(float(np.median(milliseconds)), float(np.percentile(milliseconds, 95)))


def median_interval(milliseconds: FloatArray) -> tuple[float, float] | None:
    """Return the 95 % interval of a median by its order statistics; None of fewer than 6 decisions.

    Without any distribution: so many of [rounds] lie below a median as heads fall (Conover,
    Practical Nonparametric Statistics, 1999, section 3.2).
    """
    from scipy.special import bdtrik

    # The largest rank of which less than 2.5 % is left below; of 5 and fewer there is none.
    rank = math.ceil(float(bdtrik(0.025, len(milliseconds), 0.5))) if len(milliseconds) > 5 else 0
    ordered = np.sort(milliseconds)
    return (float(ordered[rank - 1]), float(ordered[-rank])) if rank else None


# What a run counts beside the outcomes of each episode.
COUNTS = ("plans", "model_steps", "starts")
# Successes first: their number is what the others are held to.
_PER_EPISODE = {
    "successes": np.bool_,
    "steps": np.int64,
    "indices": np.int64,
    "returns": np.float64,
    "confidences": np.float64,
    "perturbed": np.bool_,
}
_COLUMNS = _PER_EPISODE | dict.fromkeys(COUNTS, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arm:
    """Outcomes and cost of ``N`` episodes planned with one kind of dynamics."""

    #: "oracle", "learned", "chance" or "rescored".
    name: str
    #: [N]: Whether each episode succeeded within its budget, in the order of their indices.
    successes: BoolArray
    #: [N]: Steps taken: to success, or the whole budget.
    steps: IntArray
    #: [N]: Which episode of the gate each one is: equal indices began at the same start.
    indices: IntArray
    #: [N]: Sum of the task's rewards over the whole budget. Where an episode ends at its success,
    #: the reward it succeeded with counts for every step that was left.
    returns: FloatArray
    #: [N]: What the planner said of each episode, if anything: the mean over its plans, higher is
    #: surer.
    confidences: FloatArray | None = None
    #: [N]: Whether the perturbation took effect before each episode had succeeded.
    perturbed: BoolArray | None = None
    #: Coverage of `interval`, in (0, 1).
    level: float
    #: Plans made, over all episodes, and model steps imagined for each.
    decisions: int
    rollout_steps: float
    #: Wall and processor time (all threads) per decision; of the whole arm wall time.
    latency_ms: Latency
    cpu_ms: Latency
    seconds: float
    #: Model steps imagined for each executed action, as published; a plan may serve several.
    compute: float | None = None
    #: Ends of the 95 % interval of the median latency, in milliseconds.
    latency_interval: tuple[float, float] | None = None
    #: [T, A] of each episode: what was executed, in the simulator's own units. A report holds
    #: neither this nor what follows.
    actions: tuple[FloatArray, ...] = field(default=(), metadata=UNWRITTEN)
    #: [N]: Plans made, steps imagined, and the `start_digests` of where each episode began.
    plans: IntArray | None = field(default=None, metadata=UNWRITTEN)
    model_steps: IntArray | None = field(default=None, metadata=UNWRITTEN)
    starts: IntArray | None = field(default=None, metadata=UNWRITTEN)
    #: Frames that were drawn for the episodes, wherever these were run.
    frames: int = field(default=0, metadata=UNWRITTEN)

    def __post_init__(self) -> None:
        for name, dtype in _COLUMNS.items():
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
        if self.plans is not None and (self.plans < 1).any():
            raise ValueError(f"need a plan in every episode, got {self.plans}")

    def __repr__(self) -> str:
        return f"Arm({self.name}: {self.success_count}/{self.episodes} episodes succeeded)"

    def first(self, count: int) -> Arm:
        """Return the first episodes; costs stay the costs of all."""
        columns = {name: getattr(self, name) for name in (*_COLUMNS, "actions")}
        return replace(
            self, **{name: values[:count] for name, values in columns.items() if values is not None}
        )

    def as_run(self, count: int, *, level: float) -> Arm:
        """Return the first 1 to ``N`` episodes as a run of so many, which counts, would have ended.

        Latencies are of all decisions, seconds in proportion to the episodes.
        """
        if not 1 <= count <= self.episodes:
            raise ValueError(f"need 1 to {self.episodes} episodes, got {count}")
        decisions, imagined = (int(getattr(self, name)[:count].sum()) for name in COUNTS[:2])
        first = self.first(count)
        executed = sum(map(len, first.actions)) or int(first.steps.sum())
        return replace(
            first,
            level=level,
            compute=imagined / executed if executed else None,
            decisions=decisions,
            rollout_steps=imagined / decisions,
            seconds=self.seconds * count / self.episodes,
        )

    def begins_at(self, states: FloatArray) -> bool:
        """Say whether the episodes began at these starts [M, S], as far as both go."""
        digests = start_digests(states[: self.episodes])
        return self.starts is not None and np.array_equal(self.starts[: len(digests)], digests)

    def followed_by(self, more: Arm) -> Arm:
        """Return these episodes and the next ones, or raise ValueError if ``more`` are others.

        Latencies are those of the part with more episodes.
        """
        arms = self, more
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(arm, name) for arm in arms])
            for name in _COLUMNS
            if getattr(self, name) is not None
        }
        if (np.diff(columns["indices"]) != 1).any():
            raise ValueError(f"need consecutive episodes, got {columns['indices']}")
        has_actions = all(arm.actions for arm in arms)
        columns["actions"] = (*self.actions, *more.actions) if has_actions else ()
        longer = max(arms, key=lambda arm: arm.episodes)
        seconds, frames = (
            sum(getattr(arm, name) for arm in arms) for name in ("seconds", "frames")
        )
        joined = replace(longer, **columns, seconds=seconds, frames=frames)
        # The decisions are still those of one part.
        return joined.as_run(joined.episodes, level=self.level)

    @property
    def episodes(self) -> int:
        """Number of episodes, ``N``."""
        return len(self.successes)

    @property
    def success_count(self) -> int:
        """Number of episodes that succeeded."""
        return int(self.successes.sum())

    @property
    def solved(self) -> tuple[int, int]:
        """Number of episodes that succeeded, and of all."""
        return self.success_count, self.episodes

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

    @property
    def recovery(self) -> Interval | None:
        """Wilson interval of the rate of success among perturbed episodes; None of none."""
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

    def risk_at(self, coverage: float) -> float | None:
        """Return the share of failures among the surest episodes; None without confidences."""
        if self.confidences is None:
            return None
        return risk_at_coverage(self.confidences, ~self.successes, coverage)

    @classmethod
    def from_plain(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Fill in what arms of schema 1 did not have: indices and returns."""
        successes = values.get("successes")
        if not isinstance(successes, list):
            return values
        episodes = len(successes)
        return {"indices": list(range(episodes)), "returns": [0.0] * episodes, **values}


def spot_check(arm: Arm, *, rng: np.random.Generator, run: Callable[[IntArray], Arm]) -> str | None:
    """Check two episodes; say in one line what differs from a stored arm, None if nothing.

    ``run`` maps one or two of its rows, rising, to an arm of these episodes alone, as they go now.
    """
    rows = np.sort(rng.choice(arm.episodes, size=min(2, arm.episodes), replace=False))
    again = run(rows)
    before, now = encode(arm), encode(again)
    for place, row in enumerate(rows):
        for name in ("indices", *_PER_EPISODE):
            old, new = before[name] and before[name][row], now[name] and now[name][place]
            if old != new:
                return (
                    f"the stored {arm.name} arm could not be repeated: {name} of episode "
                    f"{arm.indices[row]} was {old!r} and is now {new!r}"
                )
        if arm.actions and not np.array_equal(arm.actions[row], again.actions[place]):
            return (
                f"the stored {arm.name} arm could not be repeated: episode {arm.indices[row]} ends "
                f"as it did, by other actions"
            )
    return None


def start_digests(states: FloatArray) -> IntArray:
    """Return a number [N] for each start [N, S], of its exact bits."""
    rows = np.asarray(states, dtype=np.float64)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=7).digest() for row in rows]
    return np.array([int.from_bytes(digest) for digest in digests], dtype=np.int64)

"""Comparing: what has changed since the last accepted plans of the same gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.contracts.codec import UNWRITTEN, decode
from pytest_cpg.episodes.design import DesignRecord
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.plan_quality.result import Pairs, PlanQualityResult
from pytest_cpg.gates.plan_quality.spec import FEWEST_EPISODES
from pytest_cpg.stats import Interval
from pytest_cpg.stats.returns import paired_mean_interval


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptPlans:
    """The scores that were accepted last.

    Attributes
    ----------
    design : DesignRecord
    seed, k : int
    neighbours : str
        How they are found.
    worlds, plans : Pairs
        As of the result.
    commit : str
        Where they were accepted; empty when not known.
    """

    design: DesignRecord
    seed: int
    k: int
    neighbours: str
    worlds: Pairs
    plans: Pairs
    commit: str = field(default="", metadata=UNWRITTEN)

    @classmethod
    def of(cls, result: PlanQualityResult) -> KeptPlans:
        """Return what is kept of a result."""
        return cls(
            design=result.design,
            seed=result.seed,
            k=result.criteria.k,
            neighbours=result.criteria.neighbours,
            worlds=result.worlds,
            plans=result.plans,
        )

    @classmethod
    def read(cls, values: Mapping[str, Any], *, commit: str) -> KeptPlans:
        """Return what a file holds, or raise ValueError."""
        return replace(decode(cls, dict(values)), commit=commit)

    @property
    def exploitation(self) -> FloatArray:
        """Of each episode."""
        return self.worlds.first - self.worlds.second


def compare(accepted: KeptPlans | None, result: PlanQualityResult) -> Drift:
    """Compare a result with the one that was accepted, on their common episodes.

    - NEW: there is none.
    - INCOMPARABLE: other episodes were planned, in another way, or other neighbours drawn.
    - UNCHANGED: the same scores.
    - REGRESSED, IMPROVED: exploitation, or the score in truth, differs by more than chance
      explains; each is tested at half of ``1 - level``, and worse in one of them is worse.
    - UNRESOLVED: there is a difference, and chance explains it.
    """
    if accepted is None:
        return Drift.new(now=_mean(KeptPlans.of(result)))
    now = KeptPlans.of(result)
    differs = tuple(_differences(accepted, now))
    level = 1 - (1 - result.criteria.level) / 2
    more = _change(
        accepted.worlds.episodes,
        accepted.exploitation,
        now.worlds.episodes,
        now.exploitation,
        level,
    )
    less = _change(
        now.plans.episodes, now.plans.first, accepted.plans.episodes, accepted.plans.first, level
    )
    if differs or more is None or less is None:
        why = ", ".join(differs) or "fewer than two common episodes"
        return Drift(
            label=Label.INCOMPARABLE,
            text=f"{_from_to(accepted, now)}; {why}",
            commit=accepted.commit,
            was=_mean(accepted),
            now=_mean(now),
            differs=differs,
        )
    is_same = _is_same(accepted.worlds, now.worlds) and _is_same(accepted.plans, now.plans)
    low, high = max(more.low, less.low), min(more.high, less.high)
    return Drift(
        label=Label.of(low, high, is_same=is_same),
        text=f"{_from_to(accepted, now)}, on common episodes {_told(more)}, score in truth "
        f"{_told(less, sign=-1)}",
        commit=accepted.commit,
        was=_mean(accepted),
        now=_mean(now),
        then={"exploitation": float(accepted.exploitation.mean())},
        interval=more,
    )


def _change(
    then_at: IntArray, then: FloatArray, now_at: IntArray, now: FloatArray, level: float
) -> Interval | None:
    """Bound the mean of now minus then over common episodes; None of fewer than two."""
    _, old, new = np.intersect1d(then_at, now_at, return_indices=True)
    if len(old) < FEWEST_EPISODES:
        return None
    return paired_mean_interval(now[new], then[old], level=level)


def _is_same(then: Pairs, now: Pairs) -> bool:
    """Say whether the scores of common episodes are equal."""
    _, old, new = np.intersect1d(then.episodes, now.episodes, return_indices=True)
    return all(
        np.array_equal(getattr(then, one)[old], getattr(now, one)[new])
        for one in ("first", "second")
    )


def _mean(kept: KeptPlans) -> str:
    """Return the mean exploitation, as a table has it."""
    return f"{kept.exploitation.mean():.2f}" if len(kept.worlds) else "-"


def _from_to(then: KeptPlans, now: KeptPlans) -> str:
    return f"exploitation {_mean(then)} -> {_mean(now)}"


def _told(found: Interval, *, sign: int = 1) -> str:
    # What is added makes a negative zero a zero.
    low, high = sorted((sign * found.low + 0.0, sign * found.high + 0.0))
    return f"{sign * found.estimate + 0.0:+.2f} [{low:+.2f}, {high:+.2f}]"


def _differences(then: KeptPlans, now: KeptPlans) -> Iterator[str]:
    yield from then.design.changes(now.design)
    for name in ("seed", "k", "neighbours"):
        before, after = getattr(then, name), getattr(now, name)
        if before != after:
            yield f"{name} {before} -> {after}"

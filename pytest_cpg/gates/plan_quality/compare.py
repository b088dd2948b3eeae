"""Comparing: what has changed since the last accepted plans of the same gate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.episodes.design import DesignRecord
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.plan_quality.result import Pairs, PlanQualityResult, Scores
from pytest_cpg.gates.plan_quality.spec import FEWEST_EPISODES
from pytest_cpg.stats import Interval
from pytest_cpg.stats.returns import paired_mean_interval
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeptPlans:
    """The scores that were accepted last, each as the result has it.

    Earlier ones had no plan of the truth among their neighbours, and bear another name of them.
    """

    design: DesignRecord
    seed: int
    k: int
    neighbours: str
    worlds: Pairs
    truth: Scores

    @classmethod
    def of(cls, result: PlanQualityResult) -> KeptPlans:
        """Return what is kept of a result."""
        return cls(
            design=result.design,
            seed=result.seed,
            k=result.criteria.k,
            neighbours=f"{result.criteria.neighbours} and the truth's",
            worlds=result.worlds,
            truth=result.truth,
        )

    @property
    def exploitation(self) -> Scores:
        """Of each episode: in the model beyond that in truth."""
        return self.worlds.differences


def compare(accepted: KeptPlans | None, result: PlanQualityResult) -> Drift:
    """Compare a result with the one that was accepted, on their common episodes.

    - NEW: there is none.
    - INCOMPARABLE: other episodes were planned, in another way, or other neighbours drawn.
    - UNCHANGED: the same scores.
    - REGRESSED, IMPROVED: exploitation, or the score in truth, differs by more than chance
      explains; each is tested at half of ``1 - level``, and worse in one of them is worse.
    - UNRESOLVED: there is a difference, and chance explains it, or fewer than 10 episodes tell.
    """
    if accepted is None:
        return Drift.new(now=_mean(KeptPlans.of(result)))
    now = KeptPlans.of(result)
    differs = tuple(_differences(accepted, now))
    level = 1 - (1 - result.criteria.level) / 2
    more = _change(accepted.exploitation, now.exploitation, level)
    less = _change(now.truth, accepted.truth, level)
    if differs or more is None or less is None:
        why = ", ".join(differs) or "fewer than two common episodes"
        return Drift(
            label=Label.INCOMPARABLE,
            text=f"{_from_to(accepted, now)}; {why}",
            was=_mean(accepted),
            now=_mean(now),
            differs=differs,
        )
    pairs = ((accepted.exploitation, now.exploitation), (accepted.truth, now.truth))
    common = [_common(*pair) for pair in pairs]
    is_same = all(np.array_equal(*pair) for pair in common)
    low, high = max(more.low, less.low), min(more.high, less.high)
    too_few = ""
    if min(len(old) for old, _ in common) < FEWEST_EPISODES_TO_CALL_ALIKE:
        low, high, too_few = -inf, inf, f" (below {FEWEST_EPISODES_TO_CALL_ALIKE}, too few)"
    return Drift(
        label=Label.of(low, high, is_same=is_same),
        text=f"{_from_to(accepted, now)}, on common episodes{too_few} {_told(more)}, score in "
        f"truth {_told(less, sign=-1)}",
        was=_mean(accepted),
        now=_mean(now),
        then={"exploitation": float(accepted.exploitation.values.mean())},
        interval=more,
    )


def _change(then: Scores, now: Scores, level: float) -> Interval | None:
    """Bound the mean of now minus then over common episodes; None of fewer than two."""
    old, new = _common(then, now)
    if len(old) < FEWEST_EPISODES:
        return None
    return paired_mean_interval(new, old, level=level)


def _common(then: Scores, now: Scores) -> tuple[FloatArray, FloatArray]:
    """Return the values of common episodes, in one order."""
    _, old, new = np.intersect1d(then.episodes, now.episodes, return_indices=True)
    return then.values[old], now.values[new]


def _mean(kept: KeptPlans) -> str:
    """Return the mean exploitation, as a table has it."""
    return f"{kept.exploitation.values.mean():.2f}" if len(kept.worlds) else "-"


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

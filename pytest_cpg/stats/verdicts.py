"""Verdicts: what a planning gap says about the model, the planner and the gate."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from itertools import takewhile
from typing import NamedTuple

from pytest_cpg.stats.intervals import (
    Interval,
    check_arm,
    check_count,
    check_fraction,
    check_margin,
    real_or_nan,
    wilson_interval,
)
from pytest_cpg.stats.power import agresti_caffo_interval

# Below this many episodes per arm no two rates may be called alike: the rule of the paper that
# introduced the Counterfactual Planning Gap (v0.15, the five-branch verdict).
FEWEST_EPISODES_TO_CALL_ALIKE = 10


class Verdict(StrEnum):
    """What a gate says. Compare by `severity`: ``<`` on a string is about the alphabet."""

    MODEL_AS_GOOD_AS_ORACLE = "MODEL AS GOOD AS ORACLE"
    LEARNED_OUTPERFORMS_ORACLE = "LEARNED OUTPERFORMS ORACLE"
    INCONCLUSIVE = "INCONCLUSIVE"
    PLANNER_BOTTLENECK = "PLANNER BOTTLENECK"
    MODEL_BOTTLENECK = "MODEL BOTTLENECK"

    @property
    def severity(self) -> int:
        """Rank from 0, best, to 3, worst; the two best share rank 0."""
        return _SEVERITY[self]


# PLANNER BOTTLENECK is worse than INCONCLUSIVE: a gate that cannot see the model must not pass
# unnoticed.
_SEVERITY = {
    Verdict.MODEL_AS_GOOD_AS_ORACLE: 0,
    Verdict.LEARNED_OUTPERFORMS_ORACLE: 0,
    Verdict.INCONCLUSIVE: 1,
    Verdict.PLANNER_BOTTLENECK: 2,
    Verdict.MODEL_BOTTLENECK: 3,
}


class Weighed(NamedTuple):
    """A verdict, and which evidence it rests on: one clause that fits behind "judged by".

    It is weak where it rests on raw rates, and so few episodes do not rule out that they hide twice
    the tolerance: a drop of 0.1, or an oracle that solves 0.1, at a tolerance of 0.05.
    """

    verdict: Verdict
    evidence: str
    is_weak: bool = False


def judge_gap(
    oracle_successes: int,
    oracle_episodes: int,
    learned_successes: int,
    learned_episodes: int,
    *,
    level: float = 0.95,
    tolerance: float = 0.05,
) -> Verdict:
    """Return the verdict on two arms by the Agresti-Caffo interval; see `weigh_gap`.

    >>> print(judge_gap(40, 150, 0, 150), "|", judge_gap(3, 10, 0, 10))
    MODEL BOTTLENECK | INCONCLUSIVE

    Parameters
    ----------
    tolerance : float
        How near to 0 or 1 a rate counts as such, in [0, 0.5]; at 0.05, 19 of 20 is near enough.
    """
    arms = oracle_successes, oracle_episodes, learned_successes, learned_episodes
    interval = agresti_caffo_interval(*arms, level=level)
    return weigh_gap(interval, arms[:2], arms[2:], tolerance=tolerance).verdict


def weigh_gap(
    interval: Interval,
    oracle: tuple[int, int],
    learned: tuple[int, int],
    *,
    tolerance: float = 0.05,
    margin: float | None = None,
) -> Weighed:
    """Return the verdict on a gap of success rates: the first of these that holds.

    Without a margin (the rule of the paper that introduced the gap):

    - MODEL BOTTLENECK: the interval lies above 0.
    - LEARNED OUTPERFORMS ORACLE: it lies below 0.
    - INCONCLUSIVE: an arm has fewer than 10 episodes.
    - PLANNER BOTTLENECK: both raw rates are at most ``tolerance``, in [0, 0.5].
    - MODEL AS GOOD AS ORACLE: both raw rates are at least ``1 - tolerance``.
    - INCONCLUSIVE: otherwise.

    With a margin in (0, 1), the largest gap that is no loss, every verdict is proven by an
    interval:

    - LEARNED OUTPERFORMS ORACLE: the interval lies below 0.
    - PLANNER BOTTLENECK: the Wilson bound above the oracle's rate is at most the margin or the
      tolerance, whichever is larger, and the interval does not lie above the margin.
    - MODEL AS GOOD AS ORACLE: the interval ends below the margin, and the Wilson bound below the
      oracle's rate is above it, so that a model without any success would have been seen.
    - MODEL BOTTLENECK: the interval lies above 0.
    - INCONCLUSIVE: otherwise.
    """
    oracle, learned = check_arm(*oracle, prefix="oracle_"), check_arm(*learned, prefix="learned_")
    edge = real_or_nan(tolerance)
    if not 0 <= edge <= 0.5:
        raise ValueError(f"need a tolerance from 0 to 0.5, such as 0.05, got {tolerance!r}")
    if margin is None:
        return _sided(interval) or _near(interval, oracle, learned, edge)
    check_margin(margin)
    bound = wilson_interval(*oracle, level=interval.level)
    sided = _sided(interval)
    if sided is not None and sided.verdict is Verdict.LEARNED_OUTPERFORMS_ORACLE:
        return sided
    if bound.high <= max(margin, edge) and interval.low <= margin:
        return Weighed(
            Verdict.PLANNER_BOTTLENECK,
            f"the oracle's rate, at most {bound.high:.2f}: less than the margin could be lost",
        )
    if interval.high < margin and bound.low > margin:
        return Weighed(
            Verdict.MODEL_AS_GOOD_AS_ORACLE,
            f"the interval, which ends at {interval.high:+.3f}, below the margin {margin:g}",
        )
    if sided is not None:
        return sided
    if interval.high < margin:
        return Weighed(
            Verdict.INCONCLUSIVE,
            f"the oracle's rate, possibly {bound.low:.2f}: losing all of it could go unseen at a "
            f"margin of {margin:g}",
        )
    return Weighed(
        Verdict.INCONCLUSIVE, f"the interval, which contains 0 and the margin {margin:g}"
    )


def weigh_returns(
    interval: Interval, *, starts: int, possible: float, margin: float | None = None
) -> Weighed:
    """Return the verdict on a gap of mean returns: the first of these that holds.

    - MODEL AS GOOD AS ORACLE: with a margin, the interval and ``possible``, the largest gap that
      starts like none of those that were run leave open, are below it, of at least 10 starts.
    - INCONCLUSIVE: with a margin, the interval is below it, and that is all.
    - MODEL BOTTLENECK: the interval lies above 0.
    - LEARNED OUTPERFORMS ORACLE: it lies below 0.
    - INCONCLUSIVE: otherwise.
    """
    if margin is None or not interval.high < _check_return_margin(margin):
        return _sided(interval) or Weighed(Verdict.INCONCLUSIVE, "the interval, which contains 0")
    if starts < FEWEST_EPISODES_TO_CALL_ALIKE:
        fewest = FEWEST_EPISODES_TO_CALL_ALIKE
        return Weighed(Verdict.INCONCLUSIVE, f"nothing: below {fewest} starts no margin is proven")
    if possible >= margin:
        return Weighed(
            Verdict.INCONCLUSIVE,
            f"what starts like none of these could lose, {possible:.4g} in the mean: the margin is "
            f"{margin:g}",
        )
    return Weighed(
        Verdict.MODEL_AS_GOOD_AS_ORACLE,
        f"the interval, which ends at {interval.high:.4g}, below the margin {margin:g}",
    )


def _check_return_margin(margin: float) -> float:
    if not real_or_nan(margin) > 0:
        raise ValueError(f"need a margin above 0, in units of return, got {margin!r}")
    return margin


def _at_most(count: int, episodes: int, share: float) -> bool:
    """Compare ``count / episodes`` with the fraction that ``share`` was typed as."""
    return Fraction(count, episodes) <= Fraction(share).limit_denominator(10**9)


def _sided(interval: Interval) -> Weighed | None:
    if interval.low > 0:
        return Weighed(Verdict.MODEL_BOTTLENECK, "the interval, which lies above 0")
    if interval.high < 0:
        return Weighed(Verdict.LEARNED_OUTPERFORMS_ORACLE, "the interval, which lies below 0")
    return None


def _near(
    interval: Interval, oracle: tuple[int, int], learned: tuple[int, int], edge: float
) -> Weighed:
    """Rule by raw rates that are both near 0 or both near 1, and say when that is weak."""
    if min(oracle[1], learned[1]) < FEWEST_EPISODES_TO_CALL_ALIKE:
        fewest = FEWEST_EPISODES_TO_CALL_ALIKE
        return Weighed(Verdict.INCONCLUSIVE, f"nothing: below {fewest} episodes no rates are alike")
    if all(_at_most(successes, episodes, edge) for successes, episodes in (oracle, learned)):
        possible = wilson_interval(*oracle, level=interval.level).high
        weak = f" (weak: the oracle's may be {possible:.2f})" if possible >= 2 * edge else ""
        return Weighed(Verdict.PLANNER_BOTTLENECK, f"raw rates near 0{weak}", bool(weak))
    if all(_at_most(n - s, n, edge) for s, n in (oracle, learned)):
        possible = interval.high
        weak = f" (weak: a drop of {possible:.2f} is possible)" if possible >= 2 * edge else ""
        return Weighed(Verdict.MODEL_AS_GOOD_AS_ORACLE, f"raw rates near 1{weak}", bool(weak))
    return Weighed(Verdict.INCONCLUSIVE, "the interval, which contains 0")


def holm(p_values: Mapping[str, float], *, alpha: float, family_size: int) -> tuple[str, ...]:
    """Return the gates whose null hypothesis Holm's procedure rejects, smallest p-value first.

    The chance to reject any true one is at most ``alpha``, however the gates depend on each other
    (Holm, Scandinavian Journal of Statistics 6:65-70, 1979), if the p-values are right in their
    far tails (docs/statistics.md). Gates that were not observed count as not rejected: observing
    them can only add rejections.

    >>> holm({"walker": 0.011, "hopper": 0.004, "reacher": 0.4}, alpha=0.025, family_size=3)
    ('hopper', 'walker')
    """
    most = check_fraction("an alpha", alpha, such_as=0.025)
    for name, p in p_values.items():
        if not 0 <= real_or_nan(p) <= 1:
            raise ValueError(f"need a p-value from 0 to 1 for {name!r}, got {p!r}")
    size = check_count("family_size", family_size, least=1)
    if size < len(p_values):
        raise ValueError(
            f"need a family_size of at least the {len(p_values)} gates observed, got {size}"
        )
    names = sorted(p_values, key=lambda name: float(p_values[name]))
    # A step is only taken when all before it were.
    taken = takewhile(
        lambda step: min(1.0, (size - step) * float(p_values[names[step]])) <= most,
        range(len(names)),
    )
    return tuple(names[step] for step in taken)

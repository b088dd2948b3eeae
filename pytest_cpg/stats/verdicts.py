"""Verdicts: what a planning gap says about the model, the planner and the gate."""

from __future__ import annotations

from enum import StrEnum

from pytest_cpg.stats.counts import check_arm, real_or_nan
from pytest_cpg.stats.intervals import agresti_caffo_interval

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


def judge_gap(
    oracle_successes: int,
    oracle_episodes: int,
    learned_successes: int,
    learned_episodes: int,
    *,
    level: float = 0.95,
    tolerance: float = 0.05,
) -> Verdict:
    """Return the verdict on two arms: the first of these that holds.

    - MODEL BOTTLENECK: the Agresti-Caffo interval lies above 0.
    - LEARNED OUTPERFORMS ORACLE: it lies below 0.
    - INCONCLUSIVE: an arm has fewer than 10 episodes.
    - PLANNER BOTTLENECK: both raw rates are at most ``tolerance``.
    - MODEL AS GOOD AS ORACLE: both raw rates are at least ``1 - tolerance``.
    - INCONCLUSIVE: otherwise.

    Parameters
    ----------
    level : float
        Coverage of the interval, in (0, 1).
    tolerance : float
        How near to 0 or 1 a rate counts as such, in [0, 0.5]; at 0.05, 19 of 20 is near enough.

    Raises
    ------
    ValueError
        When the counts, the level or the tolerance are impossible.

    Examples
    --------
    >>> print(judge_gap(40, 150, 0, 150), "|", judge_gap(3, 10, 0, 10))
    MODEL BOTTLENECK | INCONCLUSIVE
    """
    oracle = check_arm(oracle_successes, oracle_episodes, prefix="oracle_")
    learned = check_arm(learned_successes, learned_episodes, prefix="learned_")
    edge = real_or_nan(tolerance)
    if not 0 <= edge <= 0.5:
        raise ValueError(f"need a tolerance from 0 to 0.5, such as 0.05, got {tolerance!r}")
    interval = agresti_caffo_interval(*oracle, *learned, level=level)
    if interval.low > 0:
        return Verdict.MODEL_BOTTLENECK
    if interval.high < 0:
        return Verdict.LEARNED_OUTPERFORMS_ORACLE
    if min(oracle[1], learned[1]) < FEWEST_EPISODES_TO_CALL_ALIKE:
        return Verdict.INCONCLUSIVE
    if all(_at_most(successes, episodes, edge) for successes, episodes in (oracle, learned)):
        return Verdict.PLANNER_BOTTLENECK
    if all(_at_most(n - s, n, edge) for s, n in (oracle, learned)):
        return Verdict.MODEL_AS_GOOD_AS_ORACLE
    return Verdict.INCONCLUSIVE


def parse_verdict(name: str) -> Verdict:
    """Return the verdict of this name, in any case, with ``-`` or ``_`` for blanks.

    Raises
    ------
    ValueError
        When there is no such verdict; the message names the nearest one.

    Examples
    --------
    >>> parse_verdict("planner-bottleneck")
    <Verdict.PLANNER_BOTTLENECK: 'PLANNER BOTTLENECK'>
    """
    wanted = " ".join(str(name).upper().replace("-", " ").replace("_", " ").split())
    if wanted in _SEVERITY:
        return Verdict(wanted)
    from difflib import get_close_matches

    close = get_close_matches(wanted, list(Verdict), n=1)
    fix = f"Did you mean {str(close[0])!r}?" if close else f"Known: {', '.join(Verdict)}."
    raise ValueError(f"no verdict named {name!r}. {fix}")


def _at_most(count: int, episodes: int, share: float) -> bool:
    """Compare ``count / episodes`` with the fraction that ``share`` was typed as.

    As floats ``1 - 0.95 <= 0.05`` is false, and so is ``3 / 20 <= 0.15`` in exact arithmetic on
    the float 0.15. A billion tells all counts of a gate apart and undoes the rounding of ``share``.
    """
    from fractions import Fraction

    return Fraction(count, episodes) <= Fraction(share).limit_denominator(10**9)

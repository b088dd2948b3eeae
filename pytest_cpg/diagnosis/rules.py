"""Rules: which cause the measures name, if any; docs/diagnosis.md says why they are as they are.

Every rule asks that an interval lies beyond its threshold, not its middle.
"""

from __future__ import annotations

from collections.abc import Callable

from pytest_cpg.diagnosis.evidence import Headroom, Memory
from pytest_cpg.diagnosis.measures import STEP_ERROR, Measures
from pytest_cpg.diagnosis.result import Cause
from pytest_cpg.stats import Interval, Verdict

# Of what a random plan loses. A loss that small is no reason for a gap that was proven.
LEAST_REGRET = 0.1
# Kendall's tau that an error as large as what is to be told apart leaves of normal scores.
MOST_CONFUSED = 0.5
# Of the true effect of actions: below it a planner searches in vain whatever it does.
MOST_BLIND = 0.1
# Where plans end: as in measures.py, a correlation of 0.89 is left.
HORIZON_ERROR = 0.5
# Of states; of new ones from the training distribution 1 % lie outside.
LEAST_OUTSIDE = 0.1
# Of single steps: with fewer, what goes wrong is not where plans usually lead.
LEAST_BAD = 0.05
# With more, most are.
MOST_BAD = 0.5
# How often bad steps begin farther from the data than good ones where distance does not matter.
BY_CHANCE = 0.5
# With more than this there may be nothing inside to compare with.
MOSTLY_OUTSIDE = 0.5
# Deviations of random plans, by which the chosen plan breaks its promise more than they do.
LEAST_EXCESS = 0.5
# One-sided, of an exact binomial test.
ALPHA = 0.025


def cause_of(
    measures: Measures,
    *,
    verdict: Verdict,
    headroom: Headroom | None,
    oracle_high: float,
    scoring_loss: Interval | None,
    memory: Memory,
) -> Cause:
    """Return the first cause whose rule holds, or NONE.

    Parameters
    ----------
    verdict : Verdict
    headroom : Headroom or None
    oracle_high : float
        Upper end of the interval of the oracle's success rate.
    scoring_loss : Interval or None
        What the oracle's success rate loses by the model's rating; None where that was not run.
    memory : "none", "decoded" or "opaque"
        As of `Evidence`.
    """
    if has_headroom(headroom, oracle_high) and verdict != Verdict.MODEL_BOTTLENECK:
        return Cause.PLANNER
    if verdict != Verdict.MODEL_BOTTLENECK:
        return Cause.NONE
    # Effects of actions that are much too small are ranked as the true ones, and searched in vain.
    if not (misleads(measures) or _is_action_blind(measures)):
        return Cause.NONE
    # Rewards need not prefer what the task's score prefers, and may lead to the goal all the same.
    is_harmless = scoring_loss is not None and not _is_above(scoring_loss, 0)
    # What is rated is what the memory holds: that has to be right first.
    is_in_doubt = memory == "opaque" or (
        memory == "decoded" and not _is_below(measures.step_error, STEP_ERROR)
    )
    excluded = Cause.SCORE_HEAD if is_harmless or is_in_doubt else None
    causes = (cause for cause, holds in _RULES if cause != excluded and holds(measures))
    return next(causes, Cause.NONE)


def misleads(found: Measures) -> bool:
    """Say whether the model is shown to choose worse plans, or to rank them badly."""
    return _is_above(found.regret, LEAST_REGRET) or _is_below(found.ranking, MOST_CONFUSED)


def has_headroom(headroom: Headroom | None, oracle_high: float) -> bool:
    """Say whether four times the search solves more of the failed starts than the oracle does.

    Starts that were failed are no easier than others, so that a search that is no better solves
    at most the oracle's rate of them: an exact binomial test against that rate's upper end.
    """
    if headroom is None or not headroom.solved:
        return False
    from scipy.special import bdtrc

    return float(bdtrc(headroom.solved - 1, headroom.tried, oracle_high)) <= ALPHA


def _is_above(interval: Interval | None, threshold: float) -> bool:
    return interval is not None and interval.low > threshold


def _is_below(interval: Interval | None, threshold: float) -> bool:
    return interval is not None and interval.high < threshold


def _is_action_blind(found: Measures) -> bool:
    return _is_below(found.response, MOST_BLIND)


def _is_noisy(found: Measures) -> bool:
    return _is_above(found.regret, LEAST_REGRET) and _is_above(found.noise_blame, 0)


def _is_score_head(found: Measures) -> bool:
    return _is_above(found.score_regret, LEAST_REGRET) and _is_above(found.blame, 0)


def _is_uncovered(found: Measures) -> bool:
    if not _is_above(found.outside, LEAST_OUTSIDE):
        return False
    if found.inside_error is None:
        # Nothing inside to compare with.
        return _is_above(found.outside, MOSTLY_OUTSIDE) and _is_above(found.step_error, STEP_ERROR)
    return _is_below(found.inside_error, STEP_ERROR) and _is_above(found.farther, BY_CHANCE)


def _is_biased(found: Measures) -> bool:
    return _is_above(found.step_error, STEP_ERROR)


def _is_local(found: Measures) -> bool:
    return _is_above(found.bad_steps, LEAST_BAD) and _is_below(found.bad_steps, MOST_BAD)


def _is_exploited(found: Measures) -> bool:
    # Of plans in general the model is right.
    is_good_at_last = _is_below(found.horizon_error, HORIZON_ERROR)
    return is_good_at_last and _is_above(found.excess_optimism, LEAST_EXCESS)


def _is_compounding(found: Measures) -> bool:
    is_good_at_first = _is_below(found.step_error, STEP_ERROR)
    is_bad_at_last = _is_above(found.horizon_error, HORIZON_ERROR)
    return is_good_at_first and is_bad_at_last and _is_above(found.fading, 0)


# In this order: what is further up would also be seen by the rules below it.
_RULES: tuple[tuple[Cause, Callable[[Measures], bool]], ...] = (
    (Cause.ACTION_BLIND, _is_action_blind),
    (Cause.NOISE, _is_noisy),
    (Cause.SCORE_HEAD, _is_score_head),
    (Cause.COVERAGE, _is_uncovered),
    (Cause.DYNAMICS_BIAS, _is_biased),
    (Cause.LOCAL_ERROR, _is_local),
    (Cause.EXPLOITATION, _is_exploited),
    (Cause.COMPOUNDING_ERROR, _is_compounding),
)

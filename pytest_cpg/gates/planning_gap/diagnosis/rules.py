"""Rules: which causes the measures name, if any; docs/diagnosis.md says why they are as they are.

A cause is named if its repair is shown to win back most of what the model's choices lose. Every
rule asks that an interval lies beyond its threshold, not its middle.
"""

from __future__ import annotations

from pytest_cpg.gates.planning_gap.cause import Cause
from pytest_cpg.gates.planning_gap.diagnosis.evidence import Headroom, Memory, OneStep
from pytest_cpg.gates.planning_gap.diagnosis.measures import CONTRAST, Measures
from pytest_cpg.gates.planning_gap.diagnosis.repairs import MOST, WINDOW_ERROR, WonBack
from pytest_cpg.stats import Interval

# Of states; of new ones from the training distribution 1 % lie outside.
LEAST_OUTSIDE = 0.1
# With more than this there may be nothing inside to compare with.
MOSTLY_OUTSIDE = 0.5
# Of the error outside: as much inside would be the model's, and not its data's.
LEAST_INSIDE = 1 / 3
# Of the error on the training data beside it: what is more was learned by heart.
MOST_TIMES = 2.5
# Some places are wrong, and not all: the others are a quarter of all or more, or random plans are
# right in a fifth of the places that decisions lead to.
MOST_BAD, LEAST_RIGHT = 0.75, 0.2
# Of decisions: with fewer, the model is blind in some places.
MOSTLY_BLIND = 0.75
# One-sided, of an exact binomial test.
ALPHA = 0.025


def causes_of(
    measures: Measures,
    *,
    scoring_share: Interval | None,
    memory: Memory,
    by_task: Measures | None,
) -> tuple[Cause, ...]:
    """Return the cause of a model's gap; two where both have to be mended, none where in doubt.

    ``scoring_share`` is the share of the gap that is lost with the true dynamics and the model's
    rating, ``by_task`` what the task's score shows of what a model with another decodes.
    """
    shares = {} if measures.won is None else measures.won.shares
    # Rewards need not prefer what the task's score prefers, and may lead to the goal all the same.
    is_harmless = scoring_share is not None and not is_above(scoring_share, 0)
    # Among a few plans, what else is wrong can hide it.
    is_misled = is_below(shares.get("dynamics"), MOST)
    # What is rated is what the memory holds: that has to be right first.
    misleads_afresh = is_below(shares.get("afresh"), MOST)
    is_right = is_below(measures.memory_error, WINDOW_ERROR) or (
        misleads_afresh and is_above(shares.get("afresh, by task"), MOST)
    )
    is_in_doubt = memory == "opaque" or (memory == "decoded" and not is_right)
    is_at_fault = is_above(scoring_share, MOST) or (is_misled and not is_harmless)
    if is_at_fault and not is_in_doubt:
        others = () if by_task is None else _of_dynamics(by_task)
        return (Cause.SCORE_HEAD, *others[:1])
    return _of_dynamics(measures)


def has_headroom(headroom: Headroom | None, oracle_high: float) -> bool:
    """Say whether four times the search solves more of the failed starts than the oracle does."""
    if headroom is None or not headroom.solved:
        return False
    from scipy.special import bdtrc

    # Failed starts are no easier than others: a search that is no better solves at most the
    # oracle's rate of them, by an exact binomial test against that rate's upper end.
    return float(bdtrc(headroom.solved - 1, headroom.tried, oracle_high)) <= ALPHA


def is_above(interval: Interval | None, threshold: float) -> bool:
    """Say whether all of an interval lies above a threshold."""
    return interval is not None and interval.low > threshold


def is_below(interval: Interval | None, threshold: float) -> bool:
    """Say whether all of an interval lies below a threshold."""
    return interval is not None and interval.high < threshold


def _of_dynamics(measures: Measures) -> tuple[Cause, ...]:
    won = measures.won
    if won is None:
        return ()
    # Steps that are wrong do not compound: they are wrong. With the truth in all of these, restarts
    # win back more only by what grows in the others.
    is_growth = won.shares["restarts"].low > won.shares["places"].high
    grows = is_growth or is_below(measures.window_error, WINDOW_ERROR)
    causes = {
        "noise": Cause.NOISE,
        "places": _of_places(measures, won),
        "restarts": Cause.COMPOUNDING_ERROR if grows else None,
    }
    for name, cause in causes.items():
        if cause is not None and is_above(won.shares[name], MOST):
            return (cause,)
    causes["promises"] = Cause.EXPLOITATION if has_contrast(measures) else None
    if not {"promises", "places"}.isdisjoint(won.needed):
        # Beside the truth in places that are wrong, restarts mend what grows in the others.
        causes["restarts"] = Cause.COMPOUNDING_ERROR
    pair = tuple(cause for name in won.needed if (cause := causes[name]) is not None)
    if won.needed and len(pair) == len(won.needed):
        return pair
    if not is_above(won.shares["places"], MOST):
        return ()
    # Where they lie is not shown, but there they are.
    is_everywhere = is_above(measures.bad_windows, MOST)
    return (_of_steps(measures.one_step) if is_everywhere else Cause.LOCAL_ERROR,)


def _of_places(measures: Measures, won: WonBack) -> Cause | None:
    """Return what is wrong with the places that the truth answers, by where they lie."""
    are_some = has_contrast(measures)
    if are_some and is_above(won.shares["promises"], MOST):
        return Cause.EXPLOITATION
    if _is_uncovered(measures):
        return Cause.COVERAGE
    if are_some:
        return Cause.LOCAL_ERROR
    if is_above(measures.blind, MOSTLY_BLIND):
        return Cause.ACTION_BLIND
    return _of_steps(measures.one_step) if is_above(measures.window_error, WINDOW_ERROR) else None


def _of_steps(one_step: OneStep | None) -> Cause:
    """Return why steps are wrong everywhere, as far as that can be measured."""
    if one_step is None:
        return Cause.ONE_STEP_ERROR
    if one_step.term is not None:
        return Cause.DYNAMICS_BIAS
    if one_step.right > LEAST_RIGHT:
        return Cause.LOCAL_ERROR
    if one_step.ratio is None:
        return Cause.ONE_STEP_ERROR
    # One of the two it is: the nearer one is told, as the first thing to try.
    is_overfit = one_step.ratio.estimate > MOST_TIMES
    return Cause.TOO_LITTLE_DATA if is_overfit else Cause.UNDERFIT


def has_contrast(measures: Measures) -> bool:
    """Say whether some places are wrong and others right: an episode keeps to these or those."""
    bad = measures.bad_windows
    is_contrast = measures.won is not None and measures.other_error < measures.won.limit / CONTRAST
    are_few = bad is not None and bad.estimate < MOST_BAD
    return (is_contrast and are_few) or measures.right_places > LEAST_RIGHT


def _is_uncovered(measures: Measures) -> bool:
    if not is_above(measures.outside, LEAST_OUTSIDE):
        return False
    if measures.inside_ratio is not None:
        return is_below(measures.inside_ratio, LEAST_INSIDE)
    # Nothing inside to compare with.
    is_mostly_outside = measures.inside_error is None and is_above(measures.outside, MOSTLY_OUTSIDE)
    return is_mostly_outside and is_above(measures.window_error, WINDOW_ERROR)

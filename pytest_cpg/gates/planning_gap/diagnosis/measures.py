"""Measures: what evidence comes to, and the causes that it names (docs/diagnosis.md says why).

A cause is named if its repair is shown to win back most of what the model's choices lose. Every
rule asks that an interval lies beyond its threshold, not its middle.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray
from pytest_cpg.gates.planning_gap.cause import Cause, Profile
from pytest_cpg.gates.planning_gap.diagnosis import losses
from pytest_cpg.gates.planning_gap.diagnosis.evidence import (
    CHOSEN,
    FIRST_RANDOM,
    LEARNED,
    ORACLE,
    Coverage,
    Evidence,
    Headroom,
    Memory,
    OneStep,
)
from pytest_cpg.stats import Interval
from pytest_cpg.stats.returns import fieller_interval

# What is right is off by so many times less than what is wrong.
CONTRAST = 10.0
# Of the true effect of actions: a planner searches in vain whatever it does.
MOST_BLIND = 0.1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measures:
    """What is known of a model's decisions; None where there is nothing to measure by."""

    #: How much worse the plan is that the model likes best, as a share of what a random plan loses:
    #: 0 for the best of the candidates, 1 for chance.
    regret: Interval | None
    ranking: Interval | None
    #: See `losses.value_errors`.
    value_error: Interval | None
    #: Of the regret where that is shown to be bad, else of what the ranking lacks, where that is.
    won: losses.WonBack | None
    #: How far off the score is within a window that begins at a true state, as a multiple of what
    #: plans change, and the share of windows that are off by more than the limit.
    window_error: Interval | None
    bad_windows: Interval | None
    #: The median error of the others.
    other_error: float
    #: Share of windows of a decision in which three random plans of four are off by less than a
    #: tenth of `WINDOW_ERROR`.
    right_places: float
    #: The error of windows of chosen plans within the training data, of those outside of it, and
    #: the first per second, where that is shown to be above 0.
    inside_error: Interval | None
    outside_error: Interval | None
    inside_ratio: Interval | None
    #: Share of visited or imagined states that lie outside the training data.
    outside: Interval | None
    #: How far apart random plans lead in the score as predicted, as a multiple of the truth, and
    #: the share of decisions where that is below `MOST_BLIND` at every step of a plan.
    response: Interval | None
    blind: Interval | None
    #: As `window_error`, of what a memory decodes where it is not planned with.
    memory_error: Interval | None
    one_step: OneStep | None
    #: First of the steps from which on plans are not shown to be ranked better than by chance.
    lost_at: int | None
    profile: Profile


def measures_of(evidence: Evidence) -> Measures:
    """Return all that these decisions tell."""
    episodes, rows = evidence.episodes, losses.judged(evidence)
    # Where nothing is done, what actions do is right by chance.
    sizes = np.where(evidence.is_idle, np.nan, np.abs(losses.window_errors(evidence)))
    # Of the random plans of each decision, cut after each step [N, H].
    cut = (evidence.predicted[..., :step] for step in range(1, evidence.actual.shape[2] + 1))
    along = np.stack([losses.tau(evidence, scores) for scores in cut], axis=1)
    by_step = [losses.over_episodes(losses.per_episode(tau, episodes)) for tau in along.T]
    ranked = [step for step, tau in enumerate(by_step, 1) if tau is not None and tau.low > 0]
    lost_at = max(ranked, default=0) + 1
    regret = losses.over_episodes(losses.regrets(evidence, evidence.predicted)[rows])
    ranking = losses.over_episodes(1 - losses.confusion(evidence, evidence.predicted)[rows])
    loss = losses.loss_of(regret, ranking)
    won = losses.won_back(evidence, loss) if loss else None
    limit = won.limit if won else losses.WINDOW_ERROR
    ratios = losses.ratio(_spread(evidence.expected), _spread(evidence.kept))
    responses = losses.without_nan(np.nanmax, ratios, 1)
    bad = _marked(sizes > limit, sizes)
    # Half of the plans may be right by chance: two moves may lead equally far from the goal.
    typical = losses.upper_quartile(sizes[:, FIRST_RANDOM:])
    coverage, by_task = evidence.coverage, by_the_task(evidence)
    outside = memory_error = None
    if isinstance(coverage, Coverage):
        is_outside = coverage.is_outside.astype(float)
        outside = losses.over_episodes(
            losses.per_episode(is_outside, coverage.episodes, by_mean=True)
        )
    if by_task is not None and evidence.memory != "none":
        of_memory = np.abs(losses.window_errors(by_task))[:, :, 0]
        memory_error = losses.over_episodes(losses.per_episode(of_memory, episodes))
    return Measures(
        regret=regret,
        ranking=ranking,
        value_error=losses.over_episodes(losses.value_errors(evidence)),
        won=won,
        window_error=losses.over_episodes(losses.per_episode(sizes, episodes)),
        bad_windows=losses.over_episodes(losses.per_episode(bad, episodes, by_mean=True)),
        other_error=float(losses.median(np.where(sizes > limit, np.nan, sizes))),
        right_places=float(losses.mean(_marked(typical < losses.WINDOW_ERROR / CONTRAST, typical))),
        **_by_distance(sizes[:, CHOSEN], evidence),
        outside=outside,
        response=losses.over_episodes(losses.per_episode(responses, episodes)),
        blind=losses.over_episodes(
            losses.per_episode(_marked(responses < MOST_BLIND, responses), episodes, by_mean=True)
        ),
        memory_error=memory_error,
        one_step=evidence.one_step,
        lost_at=lost_at if lost_at <= len(by_step) else None,
        profile=_profile_of(evidence, losses.mean(along, axis=0)),
    )


def by_the_task(evidence: Evidence) -> Evidence | None:
    """Return what a model with a score of its own would say by the task's; None if not known."""
    if evidence.observed is None:
        return None
    return replace(
        evidence, resumed=evidence.observed, drawn=None, rescored=None, observed=None, afresh=None
    )


def _profile_of(evidence: Evidence, ranking: FloatArray) -> Profile:
    with np.errstate(invalid="ignore"):
        off = np.abs(evidence.expected[:, ORACLE] - evidence.kept[:, ORACLE])
    off = losses.ratio(np.where(np.isfinite(off), off, np.nan), _spread(evidence.kept))
    bins: Iterable[Iterable[float]] = ((), (), ())
    if isinstance(evidence.coverage, Coverage):
        bins = evidence.coverage.histogram()
    promised, kept = _promises(evidence)
    is_known = np.isfinite(promised) & np.isfinite(kept)
    values = {
        "ranking": takewhile(math.isfinite, ranking),
        "open_loop": takewhile(math.isfinite, losses.median(off, axis=0)),
        **dict(zip(("bins", "trained", "planned"), bins, strict=True)),
        "predicted": promised[is_known],
        "actual": kept[is_known],
    }
    # Rounded to what a figure shows: hundreds of these are in a report.
    return Profile(
        **{name: tuple(float(f"{x:.4g}") for x in part) for name, part in values.items()}
    )


def _promises(evidence: Evidence) -> tuple[FloatArray, FloatArray]:
    """Return promised and kept scores [N] of what the learned arm's planner chose."""
    promised, kept = evidence.predicted[:, LEARNED], evidence.kept[:, LEARNED]
    if evidence.objective == "best":
        at = promised.argmin(axis=1)[:, None]
        return np.take_along_axis(promised, at, 1)[:, 0], np.take_along_axis(kept, at, 1)[:, 0]
    return losses.of_plans(promised[:, None], evidence)[:, 0], losses.of_plans(
        kept[:, None], evidence
    )[:, 0]


def _spread(scores: FloatArray) -> FloatArray:
    """Return how far random plans lie apart in scores [N, C, H] after each step [N, H]."""
    random = scores[:, FIRST_RANDOM:]
    return losses.without_nan(np.nanstd, np.where(np.isfinite(random), random, np.nan), 1)


def _by_distance(sizes: FloatArray, evidence: Evidence) -> dict[str, Interval | None]:
    """Return the errors inside and outside of the training data, of sizes [N, 2, J]."""
    if evidence.distances is None:
        return dict.fromkeys(("inside_error", "outside_error", "inside_ratio"))
    is_inside = evidence.distances <= 1
    inside, outside = (
        losses.per_episode(np.where(mask, sizes, np.nan), evidence.episodes)
        for mask in (is_inside, ~is_inside)
    )
    both = np.isfinite(inside) & np.isfinite(outside)
    beyond = losses.over_episodes(np.where(both, outside, np.nan))
    quotient = None
    if beyond is not None and beyond.low > 0:
        quotient = fieller_interval(inside[both], outside[both], level=losses.LEVEL)
    return {
        "inside_error": losses.over_episodes(inside),
        "outside_error": losses.over_episodes(outside),
        "inside_ratio": quotient,
    }


def _marked(holds: BoolArray, values: FloatArray) -> FloatArray:
    """Return 1 where something holds, 0 where not; nan where the value is not known."""
    return np.where(np.isnan(values), np.nan, holds)


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
    measures: Measures, *, scoring_share: Interval | None, memory: Memory, by_task: Measures | None
) -> tuple[Cause, ...]:
    """Return the cause of a model's gap; two where both have to be mended, none where in doubt.

    ``scoring_share`` is the share of the gap that is lost with the true dynamics and the model's
    rating, ``by_task`` what the task's score shows of what a model with another decodes.
    """
    shares = {} if measures.won is None else measures.won.shares
    # Rewards need not prefer what the task's score prefers, and may lead to the goal all the same.
    is_harmless = scoring_share is not None and not is_above(scoring_share, 0)
    # Among a few plans, what else is wrong can hide it.
    is_misled = is_below(shares.get("dynamics"), losses.MOST)
    # What is rated is what the memory holds: that has to be right first.
    misleads_afresh = is_below(shares.get("afresh"), losses.MOST)
    is_right = is_below(measures.memory_error, losses.WINDOW_ERROR) or (
        misleads_afresh and is_above(shares.get("afresh, by task"), losses.MOST)
    )
    is_in_doubt = memory == "opaque" or (memory == "decoded" and not is_right)
    is_at_fault = is_above(scoring_share, losses.MOST) or (is_misled and not is_harmless)
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
    grows = is_growth or is_below(measures.window_error, losses.WINDOW_ERROR)
    causes = {
        "noise": Cause.NOISE,
        "places": _of_places(measures, won),
        "restarts": Cause.COMPOUNDING_ERROR if grows else None,
    }
    for name, cause in causes.items():
        if cause is not None and is_above(won.shares[name], losses.MOST):
            return (cause,)
    causes["promises"] = Cause.EXPLOITATION if has_contrast(measures) else None
    if not {"promises", "places"}.isdisjoint(won.needed):
        # Beside the truth in places that are wrong, restarts mend what grows in the others.
        causes["restarts"] = Cause.COMPOUNDING_ERROR
    pair = tuple(cause for name in won.needed if (cause := causes[name]) is not None)
    if won.needed and len(pair) == len(won.needed):
        return pair
    if not is_above(won.shares["places"], losses.MOST):
        return ()
    # Where they lie is not shown, but there they are.
    is_everywhere = is_above(measures.bad_windows, losses.MOST)
    return (_of_steps(measures.one_step) if is_everywhere else Cause.LOCAL_ERROR,)


def _of_places(measures: Measures, won: losses.WonBack) -> Cause | None:
    """Return what is wrong with the places that the truth answers, by where they lie."""
    are_some = has_contrast(measures)
    are_off = is_above(measures.window_error, losses.WINDOW_ERROR)
    if are_some and is_above(won.shares["promises"], losses.MOST):
        return Cause.EXPLOITATION
    is_uncovered = is_below(measures.inside_ratio, LEAST_INSIDE)
    if measures.inside_ratio is None:
        # Nothing inside to compare with.
        is_uncovered = are_off and measures.inside_error is None
        is_uncovered &= is_above(measures.outside, MOSTLY_OUTSIDE)
    if is_uncovered and is_above(measures.outside, LEAST_OUTSIDE):
        return Cause.COVERAGE
    if are_some:
        return Cause.LOCAL_ERROR
    if is_above(measures.blind, MOSTLY_BLIND):
        return Cause.ACTION_BLIND
    return _of_steps(measures.one_step) if are_off else None


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

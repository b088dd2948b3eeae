"""Measures: what evidence comes to, in numbers that a perfect model leaves at their best.

Every decision gives a number of its own. The decisions of an episode are alike, so they are drawn
together to one number for each episode first, and Student's interval is over episodes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.diagnosis.evidence import FIRST_RANDOM, LEARNED, ORACLE, Evidence
from pytest_cpg.planners.objective import rate
from pytest_cpg.stats import Interval
from pytest_cpg.stats.student import student_critical_value

LEVEL = 0.95
# With two, Student's interval is 13 standard errors wide and tells nothing.
FEWEST_EPISODES = 3
# Of one step: an error r times as large as what is to be told apart leaves a correlation of
# 1 / sqrt(1 + r**2), which is 0.97 here.
STEP_ERROR = 0.25


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Measures:
    """What is known of a model's decisions; None where there is nothing to measure by.

    Attributes
    ----------
    regret : Interval
        How much worse the plan is that the model likes best, as a share of what a random plan
        loses: 0 for the best of the candidates, 1 for chance.
    score_regret, blame : Interval
        Regret of the model's own score on true outcomes, and what it is above half of `regret`.
    mean_regret, noise_blame : Interval
        Regret of a model that draws noise if it drew none, and what half of `regret` is above it.
    response : Interval
        How far apart random plans lead as the model predicts, as a multiple of the truth.
    step_error : Interval
        Error of one step, as a multiple of what the action changes in it.
    bad_steps : Interval
        Share of steps that are off by more than `STEP_ERROR`.
    inside_error, outside_error : Interval
        The error of one step within the training data, and outside of it.
    farther : Interval
        How often a step that is off by more than `STEP_ERROR` begins farther from the training
        data than one that is not: 0.5 where distance does not matter.
    gain : Interval
        Predicted effect of an action per true effect.
    horizon_error : Interval
        Error at the end of random plans, as a multiple of how far plans spread.
    fading : Interval
        How much lower Kendall's tau is for whole plans than for their first step.
    ranking : Interval
        Kendall's tau of whole plans.
    lost_at : int or None
        First of the steps from which on plans are not shown to be ranked better than by chance.
    optimism, excess_optimism : Interval
        By how many deviations of random plans the chosen plan promises more than it keeps, and by
        how many more than random plans do.
    outside : Interval
        Share of visited or imagined states that lie outside the training data.
    ranking_by_step, error_by_step : array [H]
        Means over the episodes, the latter along the oracle's plans; nan where there are none.
    promised, kept : array [N]
        What the chosen plans cost; of those chosen for their best step, where they promise most.
    """

    regret: Interval | None
    score_regret: Interval | None
    blame: Interval | None
    mean_regret: Interval | None
    noise_blame: Interval | None
    response: Interval | None
    step_error: Interval | None
    bad_steps: Interval | None
    inside_error: Interval | None
    outside_error: Interval | None
    farther: Interval | None
    gain: Interval | None
    horizon_error: Interval | None
    fading: Interval | None
    ranking: Interval | None
    lost_at: int | None
    optimism: Interval | None
    excess_optimism: Interval | None
    outside: Interval | None
    ranking_by_step: FloatArray
    error_by_step: FloatArray
    promised: FloatArray
    kept: FloatArray


def measures_of(evidence: Evidence) -> Measures:
    """Return all that these decisions tell."""
    episodes, is_random = evidence.episodes, slice(FIRST_RANDOM, None)
    actual = _of_plans(evidence.actual, evidence)
    predicted = _of_plans(evidence.predicted, evidence)
    regret = _relative_regret(predicted, actual, episodes)
    by_score = None
    if evidence.rescored is not None:
        by_score = _relative_regret(_of_plans(evidence.rescored, evidence), actual, episodes)
    by_mean = None
    if evidence.expected is not None:
        by_mean = _relative_regret(_of_plans(evidence.expected, evidence), actual, episodes)
    one_step = _ratio(evidence.probe_errors, evidence.probe_spreads)
    inside, outside, farther = _by_coverage(one_step, evidence.probe_distances, episodes)
    taus = _taus(evidence)
    by_step = [over_episodes(per_episode(tau, episodes)) for tau in taus.T]
    promised, kept, optimism, excess_optimism = _optimism(evidence)
    random_errors = _median(evidence.errors[:, is_random], axis=1)
    coverage = evidence.coverage
    return Measures(
        regret=over_episodes(regret),
        score_regret=None if by_score is None else over_episodes(by_score),
        blame=None if by_score is None else over_episodes(by_score - regret / 2),
        mean_regret=None if by_mean is None else over_episodes(by_mean),
        noise_blame=None if by_mean is None else over_episodes(regret / 2 - by_mean),
        response=over_episodes(
            per_episode(_ratio(evidence.responses, evidence.spreads).max(axis=1), episodes)
        ),
        step_error=over_episodes(per_episode(one_step, episodes)),
        bad_steps=over_episodes(per_episode(_are_bad(one_step), episodes, by_mean=True)),
        inside_error=over_episodes(inside),
        outside_error=over_episodes(outside),
        farther=over_episodes(farther),
        gain=over_episodes(per_episode(evidence.probe_gains, episodes)),
        horizon_error=over_episodes(
            per_episode(_ratio(random_errors, evidence.spreads)[:, -1], episodes)
        ),
        fading=over_episodes(per_episode(taus[:, 0] - taus[:, -1], episodes, by_mean=True)),
        ranking=over_episodes(per_episode(taus[:, -1], episodes, by_mean=True)),
        lost_at=_lost_at(by_step),
        optimism=over_episodes(per_episode(optimism, episodes)),
        excess_optimism=over_episodes(per_episode(excess_optimism, episodes)),
        outside=None
        if isinstance(coverage, str)
        else over_episodes(
            per_episode(coverage.is_outside.astype(float), coverage.episodes, by_mean=True)
        ),
        ranking_by_step=_mean(taus, axis=0),
        error_by_step=_median(_ratio(evidence.errors[:, ORACLE], evidence.spreads), axis=0),
        promised=promised,
        kept=kept,
    )


def over_episodes(values: FloatArray) -> Interval | None:
    """Bound the mean of one number for each episode.

    None if fewer than three have one, or if they are so large that nothing finite bounds them.
    """
    known = values[np.isfinite(values)]
    n = len(known)
    if n < FEWEST_EPISODES:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(known.mean())
        error = float(known.std(ddof=1)) / math.sqrt(n)
    half = student_critical_value(LEVEL, freedom=n - 1) * error
    # A report is JSON, which has no word for infinity.
    if not (math.isfinite(mean - half) and math.isfinite(mean + half)):
        return None
    return Interval(
        estimate=mean,
        low=mean - half,
        high=mean + half,
        level=LEVEL,
        method="Student 1908, over episodes",
    )


def per_episode(values: FloatArray, episodes: IntArray, *, by_mean: bool = False) -> FloatArray:
    """Return one number for each episode: the median of its own, or their mean."""
    of = _mean if by_mean else _median
    return np.array([of(values[episodes == one].ravel()) for one in np.unique(episodes)])


def kendall_taus(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return Kendall's tau-b of each row of two tables [N, K]; nan where one of them is all ties.

    >>> kendall_taus(np.array([[1.0, 2.0, 3.0]]), np.array([[1.0, 3.0, 2.0]])).round(3)
    array([0.333])
    """
    signs = []
    for values in (first, second):
        # Compared, not subtracted: two infinities are equal.
        above = values[:, :, None] > values[:, None, :]
        signs.append(above.astype(np.float64) - above.transpose(0, 2, 1))
    concordance = (signs[0] * signs[1]).sum(axis=(1, 2))
    sizes = [np.abs(sign).sum(axis=(1, 2)) for sign in signs]
    product = np.sqrt(sizes[0] * sizes[1])
    return _ratio(concordance, product)


def _of_plans(scores: FloatArray, evidence: Evidence) -> FloatArray:
    """Return what plans cost the planner [N, C], of the scores along them [N, C, H]."""
    return rate(scores, evidence.remaining, objective=evidence.objective)[0]


def _taus(evidence: Evidence) -> FloatArray:
    """Return tau of the random plans of each decision, cut after each step: [N, H]."""
    columns = []
    for step in range(1, evidence.actual.shape[2] + 1):
        model = _of_plans(evidence.predicted[:, FIRST_RANDOM:, :step], evidence)
        truth = _of_plans(evidence.actual[:, FIRST_RANDOM:, :step], evidence)
        tau = kendall_taus(model, truth)
        # To call plans alike that are not is to rank them by chance; with true ties there is no
        # ranking to be had.
        differs = (truth != truth[:, :1]).any(axis=1)
        columns.append(np.where(np.isnan(tau) & differs, 0.0, tau))
    return np.stack(columns, axis=1)


def _lost_at(by_step: Sequence[Interval | None]) -> int | None:
    """Return the step behind the last one whose interval lies above 0, if there is one."""
    above = [step for step, tau in enumerate(by_step, 1) if tau is not None and tau.low > 0]
    last = max(above, default=0)
    return last + 1 if last < len(by_step) else None


def _relative_regret(liked: FloatArray, actual: FloatArray, episodes: IntArray) -> FloatArray:
    """Return for each episode what the liked plan [N, C] loses, per loss of a random one."""
    # A plan that diverges is as bad as the worst that does not.
    finite = np.where(np.isfinite(actual), actual, np.nan)
    worst = np.where(np.isnan(finite), -np.inf, finite).max(axis=1, keepdims=True)
    values = np.where(np.isnan(finite), np.where(np.isfinite(worst), worst, 0.0), finite)
    # Of plans that a model cannot tell apart, one at random would be taken.
    is_best = liked == liked.min(axis=1, keepdims=True)
    chosen = (values * is_best).sum(axis=1) / is_best.sum(axis=1)
    best = values.min(axis=1)
    found = []
    for one in np.unique(episodes):
        rows = episodes == one
        loss, chance = (chosen - best)[rows].sum(), (values.mean(axis=1) - best)[rows].sum()
        found.append(loss / chance if chance > 0 else np.nan)
    return np.array(found)


def _optimism(
    evidence: Evidence,
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return promised and kept scores of chosen plans [N], their optimism and its excess [N].

    Both scores are the model's own where it has one. Optimism is in deviations of random plans.
    """
    truth = evidence.actual if evidence.rescored is None else evidence.rescored
    at = evidence.predicted.argmin(axis=2)[:, :, None]
    promised, kept = (
        np.take_along_axis(scores, at, axis=2)[:, :, 0]
        if evidence.objective == "best"
        else _of_plans(scores, evidence)
        for scores in (evidence.predicted, truth)
    )
    both = np.where(np.isfinite(promised) & np.isfinite(kept), kept - promised, np.nan)
    values = _of_plans(truth[:, FIRST_RANDOM:], evidence)
    deviation = _deviation(np.where(np.isfinite(values), values, np.nan))
    relative = _ratio(both, deviation[:, None])
    typical = _median(relative[:, FIRST_RANDOM:], axis=1)
    return (
        promised[:, LEARNED],
        kept[:, LEARNED],
        relative[:, LEARNED],
        (relative[:, LEARNED] - typical),
    )


def _by_coverage(
    one_step: FloatArray, distances: FloatArray | None, episodes: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return for each episode the error inside and outside, and how often bad steps lie farther."""
    if distances is None:
        unknown = np.full(len(np.unique(episodes)), np.nan)
        return unknown, unknown, unknown
    inside, outside = (
        per_episode(np.where(mask, one_step, np.nan), episodes)
        for mask in (distances <= 1, distances > 1)
    )
    farther = []
    for one in np.unique(episodes):
        rows = episodes == one
        bad = distances[rows][one_step[rows] > STEP_ERROR]
        good = distances[rows][one_step[rows] <= STEP_ERROR]
        farther.append(_share_above(bad, good))
    return inside, outside, np.array(farther)


def _are_bad(one_step: FloatArray) -> FloatArray:
    """Return 1 where a step is off by more than `STEP_ERROR`, 0 where not; nan stays."""
    return np.where(np.isnan(one_step), np.nan, one_step > STEP_ERROR)


def _share_above(first: FloatArray, second: FloatArray) -> float:
    """Return how often one of the first is above one of the second; a tie counts half."""
    if not first.size or not second.size:
        return math.nan
    differences = first[:, None] - second
    return float(((differences > 0) + 0.5 * (differences == 0)).mean())


def _ratio(values: FloatArray, units: FloatArray) -> FloatArray:
    """Divide; nan where the unit is zero or no number."""
    shape = np.broadcast_shapes(values.shape, units.shape)
    quotients: FloatArray = np.full(shape, np.nan)
    np.divide(values, units, out=quotients, where=units > 0)
    return quotients


def _median(values: FloatArray, axis: int | None = None) -> FloatArray:
    return _without_nan(np.nanmedian, values, axis)


def _mean(values: FloatArray, axis: int | None = None) -> FloatArray:
    return _without_nan(np.nanmean, values, axis)


def _deviation(values: FloatArray) -> FloatArray:
    return _without_nan(np.nanstd, values, 1)


def _without_nan(
    reduce: Callable[..., FloatArray], values: FloatArray, axis: int | None
) -> FloatArray:
    """Reduce what is known; nan where nothing is."""
    with warnings.catch_warnings():
        # numpy warns of what is all nan, which is an answer here.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(reduce(values, axis=axis))

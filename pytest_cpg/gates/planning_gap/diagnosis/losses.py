"""Losses: what it costs to choose plans by some scores, for each episode.

Every decision gives a number of its own. The decisions of an episode are alike, so they are drawn
together to one number for each episode first, and intervals are over episodes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.gates.planning_gap.diagnosis.evidence import FIRST_RANDOM, Evidence
from pytest_cpg.planners.search import rate
from pytest_cpg.stats import Interval
from pytest_cpg.stats.intervals import student_critical_value

LEVEL = 0.95
# With two, Student's interval is 13 standard errors wide and tells nothing.
FEWEST_EPISODES = 3
# Of what random plans lose. A loss that small is no reason for a gap that was proven.
LEAST_REGRET = 0.1
# Kendall's tau that an error as large as what is to be told apart leaves of normal scores.
MOST_CONFUSED = 0.5

# Maps evidence and scores [N, C, H] to what choices by them lose in each episode [E].
Loss: TypeAlias = Callable[[Evidence, FloatArray], FloatArray]


def judged(evidence: Evidence) -> BoolArray:
    """Return which episodes a loss is measured in [E]: the lost ones, if they bound anything."""
    is_lost = np.isin(np.unique(evidence.episodes), evidence.lost)
    return is_lost if is_lost.sum() >= FEWEST_EPISODES else np.ones_like(is_lost)


def loss_of(regret: Interval | None, ranking: Interval | None) -> Loss | None:
    """Return what is shown to be lost: by the best plan, or by the order of all."""
    if regret is not None and regret.low > LEAST_REGRET:
        return regrets
    if ranking is not None and ranking.high < MOST_CONFUSED:
        return confusion
    return None


def confusion(evidence: Evidence, scores: FloatArray) -> FloatArray:
    """Return for each episode what tau lacks of 1."""
    return 1 - per_episode(tau(evidence, scores), evidence.episodes, by_mean=True)


def regrets(evidence: Evidence, scores: FloatArray) -> FloatArray:
    """Return for each episode what the plan that scores best loses, per loss of a random one."""
    liked, actual = of_plans(scores, evidence), of_plans(evidence.actual, evidence)
    episodes = evidence.episodes
    # A plan that diverges is as bad as the worst that does not.
    finite = np.where(np.isfinite(actual), actual, np.nan)
    worst = np.where(np.isnan(finite), -np.inf, finite).max(axis=1, keepdims=True)
    values = np.where(np.isnan(finite), np.where(np.isfinite(worst), worst, 0.0), finite)
    # Of plans that a model cannot tell apart, one at random would be taken.
    is_best = liked == liked.min(axis=1, keepdims=True)
    chosen = (values * is_best).sum(axis=1) / is_best.sum(axis=1)
    best = values.min(axis=1)
    shares = []
    for episode in np.unique(episodes):
        rows = episodes == episode
        loss, chance = (chosen - best)[rows].sum(), (values.mean(axis=1) - best)[rows].sum()
        shares.append(loss / chance if chance > 0 else np.nan)
    return np.array(shares)


def of_plans(scores: FloatArray, evidence: Evidence) -> FloatArray:
    """Return what plans cost the planner [N, C], of the scores along them [N, C, H]."""
    return rate(scores, evidence.remaining, objective=evidence.objective)[0]


def taus(evidence: Evidence, scores: FloatArray) -> FloatArray:
    """Return tau of the random plans of each decision, cut after each step: [N, H]."""
    steps = range(1, evidence.actual.shape[2] + 1)
    return np.stack([tau(evidence, scores[..., :step]) for step in steps], axis=1)


def tau(evidence: Evidence, scores: FloatArray) -> FloatArray:
    """Return tau of the random plans of each decision [N], as far as scores [N, C, H'] go."""
    random = slice(FIRST_RANDOM, None)
    model = of_plans(scores[:, random], evidence)
    truth = of_plans(evidence.actual[:, random, : scores.shape[2]], evidence)
    tau = kendall_taus(model, truth)
    # To call plans alike that are not is to rank them by chance; with true ties there is no
    # ranking to be had.
    differs = (truth != truth[:, :1]).any(axis=1)
    return np.where(np.isnan(tau) & differs, 0.0, tau)


def over_episodes(values: FloatArray) -> Interval | None:
    """Bound the mean of one number for each episode.

    None if fewer than three have one, or if they are so large that nothing finite bounds them.
    """
    finite = values[np.isfinite(values)]
    n = len(finite)
    if n < FEWEST_EPISODES:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(finite.mean())
        error = float(finite.std(ddof=1)) / math.sqrt(n)
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
    of = mean if by_mean else median
    return np.array([of(values[episodes == episode].ravel()) for episode in np.unique(episodes)])


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
    return ratio(concordance, product)


def ratio(values: FloatArray, units: FloatArray) -> FloatArray:
    """Divide; nan where the unit is zero or no number."""
    shape = np.broadcast_shapes(values.shape, units.shape)
    quotients: FloatArray = np.full(shape, np.nan)
    np.divide(values, units, out=quotients, where=units > 0)
    return quotients


def median(values: FloatArray, axis: int | None = None) -> FloatArray:
    """Return the median of what is known."""
    return without_nan(np.nanmedian, values, axis)


def mean(values: FloatArray, axis: int | None = None) -> FloatArray:
    """Return the mean of what is known."""
    return without_nan(np.nanmean, values, axis)


def upper_quartile(values: FloatArray) -> FloatArray:
    """Return the upper quartile [N, J] of what is known in values [N, K, J].

    >>> upper_quartile(np.array([[[1.0], [2.0], [3.0], [np.nan]]]))
    array([[2.5]])
    """
    quartiles = without_nan(partial(np.percentile, q=75), values, 1)
    # Only what has holes: numpy takes row by row where it looks for them.
    holes, rows = np.isnan(quartiles), values.transpose(0, 2, 1)
    quartiles[holes] = without_nan(partial(np.nanpercentile, q=75), rows[holes], 1)
    return quartiles


def without_nan(
    reduce: Callable[..., FloatArray], values: FloatArray, axis: int | None
) -> FloatArray:
    """Reduce what is known; nan where nothing is."""
    with warnings.catch_warnings():
        # numpy warns of what is all nan, which is an answer here.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(reduce(values, axis=axis))

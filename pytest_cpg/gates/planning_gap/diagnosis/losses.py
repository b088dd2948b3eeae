"""Losses: what it costs to choose plans by some scores, and what a repair of them would save.

Every decision gives a number of its own. The decisions of an episode are alike, so they are drawn
together to one number for each episode first, and intervals are over episodes. A repair makes the
scores that plans are chosen by anew, from what the evidence holds: no model is asked again.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.gates.planning_gap.diagnosis.evidence import FIRST_RANDOM, WINDOW, Evidence
from pytest_cpg.planners.search import rate
from pytest_cpg.stats import Interval
from pytest_cpg.stats.intervals import student_critical_value
from pytest_cpg.stats.returns import fieller_interval

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


def value_errors(evidence: Evidence) -> FloatArray:
    """Return for each episode by how much the model misjudges random plans, per true spread.

    The right side of the published bound on the gap, ``|CPG| <= C E|Q* - Q|`` (the paper that
    introduced the gap, v0.18, section 3.6, eq. ve-bound): the mean over decisions and candidate
    plans of how far the planner's score-to-go by the learned dynamics is from that by the true
    ones, both rated as the model is planned with. The paper leaves C open, which is to absorb how
    far plans lie apart: here they are divided by the standard deviation of the true scores-to-go at
    a decision, and the constant that is left is without unit. It states the bound as a heuristic.
    """
    random = slice(FIRST_RANDOM, None)
    learned, true = (
        of_plans(scores[:, random], evidence) for scores in (evidence.predicted, evidence.kept)
    )
    # Of a plan that diverges there is no distance.
    is_known = np.isfinite(learned) & np.isfinite(true)
    learned, true = (np.where(is_known, values, np.nan) for values in (learned, true))
    off = mean(np.abs(learned - true), axis=1)
    spread = without_nan(np.nanstd, true, 1)
    rows = (evidence.episodes == episode for episode in np.unique(evidence.episodes))
    pairs = np.array([[np.nansum(off[row]), np.nansum(spread[row])] for row in rows])
    return ratio(pairs[:, 0], pairs[:, 1])


def of_plans(scores: FloatArray, evidence: Evidence) -> FloatArray:
    """Return what plans cost the planner [N, C], of the scores along them [N, C, H]."""
    return rate(scores, evidence.remaining, objective=evidence.objective)[0]


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


# Of a score itself: what changes it less is rounding.
_ROUNDING = 1e-9
# Of a loss: a repair that wins back less leaves more than it mends.
MOST = 0.5
# Of what plans change in a window: an error r times that leaves a correlation of
# 1 / sqrt(1 + r**2), which is 0.97 here.
WINDOW_ERROR = 0.25
# Errors beyond which places are answered by the truth: as few of them as win back most.
_LIMITS = (WINDOW_ERROR, 0.5, 1.0, 2.0, 4.0)
# Repairs that are tried together; what promises most is among the worst places, and not their pair.
_PAIRS = (
    ("noise", "promises"),
    ("noise", "places"),
    ("noise", "restarts"),
    ("promises", "restarts"),
    ("places", "restarts"),
)


def mended(
    evidence: Evidence,
    *,
    places: BoolArray | None = None,
    restarts: bool = False,
    noise: bool = False,
) -> FloatArray:
    """Return the scores [N, C, H] that plans would be chosen by after a repair.

    The truth answers windows in ``places`` [N, C, J], and the model goes on from the true state
    behind them; with ``restarts`` it does at the beginning of every window; with ``noise`` none is
    drawn.
    """
    truth, numbers = evidence.kept, np.arange(evidence.resumed.shape[1])
    of_step = np.arange(truth.shape[2]) // WINDOW
    are_true = np.zeros((*truth.shape[:2], len(numbers)), dtype=bool) if places is None else places
    # The window from whose true beginning the model goes on.
    behind = np.pad(np.where(are_true, numbers + 1, 0)[..., :-1], ((0, 0), (0, 0), (1, 0)))
    resumed = np.maximum.accumulate(behind, axis=2)
    if restarts:
        resumed = np.broadcast_to(numbers, are_true.shape)
    from_there = np.moveaxis(evidence.resumed, 1, 3)
    scores = np.take_along_axis(from_there, resumed[..., of_step, None], axis=3)[..., 0]
    scores = np.where(are_true[..., of_step], truth, scores)
    if evidence.drawn is None or noise:
        return scores
    with np.errstate(invalid="ignore"):
        drawn = evidence.drawn - evidence.expected
    return scores + np.where(np.isfinite(drawn), drawn, 0.0)


def window_errors(evidence: Evidence) -> FloatArray:
    """Return how far scores are off at most within each window [N, C, J]; below 0 they flatter.

    The model begins each window at the true state. Errors are multiples of what plans change in
    the score by then, per window up to it. They are nan where there is nothing to be off in: past
    the budget, and where plans change next to nothing and the model knows it.
    """
    truth, numbers = evidence.kept, np.arange(evidence.resumed.shape[1])
    last = np.minimum((numbers + 1) * WINDOW, truth.shape[2]) - 1
    ends = truth[:, FIRST_RANDOM:, last]
    ends = np.where(np.isfinite(ends).all(axis=1, keepdims=True), ends, 0.0)
    # What random plans change: a plan has had so many windows to come that far.
    changes = np.asarray(ends.std(axis=1) / (numbers + 1))
    least = (_ROUNDING * np.abs(ends).max(axis=1))[:, None]
    with np.errstate(invalid="ignore"):
        off = mended(evidence, restarts=True, noise=True) - truth
    # Two infinities are alike.
    off = np.where(np.isnan(off), 0.0, off)
    missing = len(numbers) * WINDOW - truth.shape[2]
    off = np.pad(off, ((0, 0), (0, 0), (0, missing))).reshape(*truth.shape[:2], -1, WINDOW)
    most = np.abs(off).argmax(axis=3)[..., None]
    errors = np.take_along_axis(off, most, axis=3)[..., 0]
    is_asked = WINDOW * numbers < evidence.remaining[:, None]
    is_flat = (changes[:, None] <= least) & (np.abs(errors) <= least)
    units = np.maximum(changes[:, None], least)
    sizes = np.full(errors.shape, np.nan)
    np.divide(errors, units, out=sizes, where=is_asked[:, None] & ~is_flat & (units > 0))
    return sizes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WonBack:
    """What repairs win back of a loss."""

    #: By what is the truth: ``"noise"`` (none is drawn), ``"places"`` (the worst windows, off by
    #: more than the limit), ``"promises"`` (windows that flatter by more than the last limit),
    #: ``"restarts"`` (the beginning of every window), ``"dynamics"`` (all but the model's score);
    #: of a model with memory also ``"afresh"`` (that, and no memory) and ``"afresh, by task"``.
    shares: Mapping[str, Interval]
    #: The largest at which the worst places win back most; the least where none does.
    limit: float
    #: Two of them that win back most together, and neither alone.
    needed: tuple[str, ...] = ()


def won_back(evidence: Evidence, loss: Loss) -> WonBack:
    """Return what repairs win back of a loss that is shown to be there."""
    lost = loss(evidence, evidence.predicted)
    rows = judged(evidence) & np.isfinite(lost)

    def saved(scores: FloatArray, before: FloatArray = lost) -> Interval:
        return fieller_interval((before - loss(evidence, scores))[rows], lost[rows], level=LEVEL)

    errors = window_errors(evidence)
    # From most truth to least, up to the first that fails: tests in a fixed order need no
    # correction for their number (Maurer, Hothorn and Lehmacher 1995).
    tried = [np.abs(errors) > limit for limit in _LIMITS]
    wins_most = (saved(mended(evidence, places=places)).low > MOST for places in tried)
    last = max(0, sum(1 for _ in takewhile(bool, wins_most)) - 1)
    limit, places = _LIMITS[last], tried[last]
    repairs: dict[str, dict[str, Any]] = {
        "noise": {"noise": True},
        "promises": {"places": errors < -_LIMITS[-1]},
        "places": {"places": places},
        "restarts": {"restarts": True},
    }
    scores = {name: mended(evidence, **repair) for name, repair in repairs.items()}
    shares = {name: saved(repaired) for name, repaired in scores.items()}

    def are_needed(pair: tuple[str, ...]) -> bool:
        both = mended(evidence, **repairs[pair[0]], **repairs[pair[1]])
        adds = (saved(both, loss(evidence, scores[name])).low > 0 for name in pair)
        return saved(both).low > MOST and all(adds)

    needed: tuple[str, ...] = ()
    if all(share.low <= MOST for share in shares.values()):
        needed = next(filter(are_needed, _PAIRS), ())
    shares["dynamics"] = saved(evidence.kept)
    if evidence.afresh is not None:
        shares["afresh"], shares["afresh, by task"] = map(saved, np.moveaxis(evidence.afresh, 1, 0))
    return WonBack(shares=shares, limit=limit, needed=needed)

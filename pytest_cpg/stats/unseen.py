"""Unseen: a mean of scores, and how far episodes that were not run could move it."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.intervals import Interval
from pytest_cpg.stats.returns import paired_mean_interval, paired_mean_p_value

METHOD = "Student 1908 and Gaffke 2005"


def mean_interval(scores: ArrayLike, *, unseen: float, level: float = 0.95) -> Interval:
    """Bound the mean of a score [N] that each episode has.

    The wider, at each end, of Student's interval (Biometrika 6:1-25, 1908) and Gaffke's (Math.
    Meth. Stat. 14:451-467, 2005). Few episodes often show none of a few that are far from the
    others; Gaffke's adds the score ``unseen`` to those that were seen and weighs all at random,
    uniformly of the weights that add up to 1; it ends at a quantile of these means. That it misses
    no mean more often than it says is conjectured, and only where no score is worse than
    ``unseen``.

    >>> ci = mean_interval([0.4, 0.5, 0.45, 0.5, 0.4], unseen=0)
    >>> f"{ci.estimate:.2f} [{ci.low:.2f}, {ci.high:.2f}]"
    '0.45 [0.21, 0.51]'
    """
    student = paired_mean_interval(scores, np.zeros(np.shape(scores)), level=level)
    tail = (1 - student.level) / 2
    return Interval(
        estimate=student.estimate,
        low=min(student.low, _quantile(tuple(_knots(scores, unseen)), tail)),
        high=max(student.high, -_quantile(tuple(_knots(np.negative(scores), -unseen)), tail)),
        level=student.level,
        method=METHOD,
    )


def mean_p_value(scores: ArrayLike, *, limit: float, unseen: float) -> float:
    """Return the one-sided p-value of a mean above a limit that goes with `mean_interval`."""
    student = paired_mean_p_value(scores, np.full(np.shape(scores), limit))
    return max(student, float(share_below(_knots(scores, unseen), limit)))


def _knots(scores: ArrayLike, unseen: float) -> NDArray[np.float64]:
    """Return scores [..., N] in rising order behind the worst that there may be: [..., 1 + N]."""
    rising = np.sort(np.asarray(scores, dtype=np.float64))
    worst = np.minimum(rising[..., :1], unseen)
    return np.concatenate([worst, rising], axis=-1)


# Every line of a report asks for the same again.
@lru_cache
def _quantile(knots: tuple[float, ...], share: float) -> float:
    """Return what a share of the randomly weighted means of rising numbers lies below."""
    from scipy.optimize import brentq

    low, high = knots[0], knots[-1]
    if low == high:
        return low
    rising = np.array(knots)
    return float(brentq(lambda mean: share_below(rising, mean) - share, low, high, xtol=1e-12))


def share_below(
    knots: NDArray[np.float64], mean: float | NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the share of the randomly weighted means of rising numbers [..., K] up to one mean.

    The density of these means is a B-spline (Curry and Schoenberg, J. Anal. Math. 17:71-107, 1966),
    evaluated as de Boor does, so that rounding loses nothing.
    """
    shares = (knots <= mean).astype(np.float64)
    for width in range(1, knots.shape[-1]):
        first, last = knots[..., :-width], knots[..., width:]
        is_inside = (first <= mean) & (mean < last)
        span = np.where(is_inside, last - first, 1.0)
        mixed = ((last - mean) * shares[..., 1:] + (mean - first) * shares[..., :-1]) / span
        shares = np.where(is_inside, mixed, shares[..., :-1])
    # Rounded, a mean of ones may lie above 1.
    return np.minimum(shares[..., 0], 1.0)

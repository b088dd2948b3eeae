"""Means: gaps in returns, scores and ratios, and how far episodes that were not run reach."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.intervals import FloatArray, Interval, critical_value, student_critical_value

# Below this size squares and their sums stay finite.
LARGEST_RETURN = 1e100


def paired_mean_interval(oracle: ArrayLike, learned: ArrayLike, *, level: float = 0.95) -> Interval:
    """Bound the difference of mean returns [N], oracle minus learned, by Student's paired interval.

    Starts whose differences are all equal give an interval of no width, and what no start shows is
    not in it: where a model collapses in 1 start of 20, that of 10 starts held the true gap in 45 %
    of simulated runs, and that of 50 starts in 92 % (docs/statistics.md).

    >>> ci = paired_mean_interval([310, 420, 390, 505], [250, 400, 310, 415])
    >>> f"{ci.estimate:+.1f} [{ci.low:+.1f}, {ci.high:+.1f}]"
    '+62.5 [+13.2, +111.8]'
    """
    mean, error, n = paired_mean(oracle, learned)
    half = student_critical_value(level, freedom=n - 1) * error
    return Interval(
        estimate=mean,
        low=mean - half,
        high=mean + half,
        level=float(level),
        method="Student 1908, paired",
    )


def paired_mean_p_value(oracle: ArrayLike, learned: ArrayLike) -> float:
    """Return the one-sided p-value that goes with `paired_mean_interval`, in (0, 1]."""
    from scipy.special import stdtr

    mean, error, n = paired_mean(oracle, learned)
    if mean == 0:
        return 0.5
    t = mean / error if error else math.copysign(math.inf, mean)
    return max(float(stdtr(n - 1, -t)), sys.float_info.min)


def fieller_return_interval(
    oracle: ArrayLike, learned: ArrayLike, chance: ArrayLike, *, level: float = 0.95
) -> Interval | None:
    """Bound the gap in mean returns as a share of what the oracle adds to chance, of returns [N].

    ``(oracle - learned) / (oracle - chance)``: 0 for a model as good as the oracle, 1 for one no
    better than random actions. The interval holds the ratios that Student's test on ``oracle -
    learned - ratio * (oracle - chance)`` does not reject (Fieller, JRSS B 16:175-185, 1954). None
    where these have no end: where Student's interval does not show that the oracle adds anything.
    """
    top, reached, bottom = _check_returns(oracle=oracle, learned=learned, chance=chance)
    critical_value(level)  # refuses an impossible level
    n, gain = len(top), float((top - bottom).mean())
    # A gain that rounding could have made is none.
    if n == 1 or gain <= sys.float_info.epsilon * np.abs([top, reached, bottom]).max():
        return None
    # In units of the gain the denominator is 1, and squares of large returns stay finite.
    gaps, gains = (top - reached) / gain, (top - bottom) / gain
    t = student_critical_value(level, freedom=n - 1)
    (of_gaps, of_both), (_, of_gains) = t**2 * np.cov(gaps, gains) / n
    ratio = float(gaps.mean())
    curvature = 1 - of_gains
    if not curvature > 0:
        return None
    centre = (ratio - of_both) / curvature
    # Both roots of curvature * x**2 - 2 * (ratio - of_both) * x + ratio**2 - of_gaps = 0.
    half = math.sqrt(max(0.0, centre**2 - (ratio**2 - of_gaps) / curvature))
    return Interval(
        estimate=ratio,
        low=float(centre - half),
        high=float(centre + half),
        level=float(level),
        method="Fieller 1954, paired",
    )


def fieller_interval(
    numerators: NDArray[np.floating[Any]],
    denominators: NDArray[np.floating[Any]],
    *,
    level: float = 0.95,
) -> Interval:
    """Bound the ratio of two means, of pairs [N], by Fieller's theorem (JRSS B 16:175-185, 1954).

    It holds each ratio for which Student's interval on the mean of numerator minus ratio times
    denominator holds zero. Raises ValueError when Student's interval on the mean denominator is not
    above zero: no ratio is excluded.
    """
    count = len(numerators)
    if count < 2 or len(denominators) != count:
        raise ValueError(f"need pairs, at least two, got {count} and {len(denominators)}")
    above, below = float(numerators.mean()), float(denominators.mean())
    (var_above, covariance), (_, var_below) = np.cov(numerators, denominators) / count
    squared = student_critical_value(level, freedom=count - 1) ** 2
    # The roots r of (above - r * below)**2 = squared * Var(numerator - r * denominator) / n.
    first = below**2 - squared * var_below
    second = above * below - squared * covariance
    third = above**2 - squared * var_above
    if first <= 0 or below <= 0:
        raise ValueError(f"need denominators whose mean is shown to be above 0, got {below:g}")
    half = math.sqrt(max(0.0, second**2 - first * third))
    return Interval(
        estimate=above / below,
        # They bound it, whatever rounds.
        low=min(above / below, float((second - half) / first)),
        high=max(above / below, float((second + half) / first)),
        level=level,
        method="Fieller 1954",
    )


def _check_returns(**arms: ArrayLike) -> tuple[FloatArray, ...]:
    columns = []
    for name, returns in arms.items():
        column = np.asarray(returns)
        if column.ndim != 1 or column.dtype.kind not in "iuf" or not len(column):
            raise ValueError(f"need one {name} return for each start, got {returns!r}")
        # NaN fails the comparison too.
        unfit = np.flatnonzero(~(np.abs(column.astype(np.float64)) <= LARGEST_RETURN))
        if len(unfit):
            raise ValueError(
                f"need finite {name} returns of at most {LARGEST_RETURN:g} in size, got "
                f"{column[unfit[0]]} at {unfit[0]}"
            )
        columns.append(column.astype(np.float64))
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{len(c)} {name}" for name, c in zip(arms, columns, strict=True))
        raise ValueError(f"need returns from the same starts, got {lengths}")
    return tuple(columns)


def paired_mean(oracle: ArrayLike, learned: ArrayLike) -> tuple[float, float, int]:
    """Return the mean difference, its standard error and the number of starts."""
    first, second = _check_returns(oracle=oracle, learned=learned)
    n = len(first)
    if n < 2:
        raise ValueError(f"need at least two starts to bound a mean return, got {n}")
    differences = first - second
    if (differences == differences[0]).all():
        # The mean of equal numbers may round to another, and leave a width of rounding errors.
        return float(differences[0]), 0.0, n
    return float(differences.mean()), float(differences.std(ddof=1)) / math.sqrt(n), n


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


def _knots(scores: ArrayLike, unseen: float) -> FloatArray:
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


def share_below(knots: FloatArray, mean: float | FloatArray) -> FloatArray:
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

"""Ratios: an interval on the ratio of two means that are measured on the same episodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_cpg.stats.intervals import Interval
from pytest_cpg.stats.student import student_critical_value


def fieller_interval(
    numerators: NDArray[np.floating[Any]],
    denominators: NDArray[np.floating[Any]],
    *,
    level: float = 0.95,
) -> Interval:
    """Bound the ratio of two means by Fieller's theorem (JRSS B 16:175-185, 1954).

    It holds each ratio for which Student's interval on the mean of numerator minus ratio times
    denominator holds zero. Raises ValueError when Student's interval on the mean denominator is not
    above zero: no ratio is excluded.

    >>> ratio = fieller_interval(np.array([1.0, 2.0, 4.0]), np.array([2.0, 3.0, 4.0]), level=0.8)
    >>> round(ratio.estimate, 3), round(ratio.low, 3), round(ratio.high, 3)
    (0.778, 0.346, 0.99)

    Parameters
    ----------
    numerators, denominators : array [N]
        Pairs, at least two.
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

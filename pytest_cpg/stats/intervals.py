"""Intervals: what bounds a rate, a gap or a correlation, and the normal distribution behind it."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.counts import check_count, check_fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval on a success rate, on a difference, or on a correlation.

    Attributes
    ----------
    estimate : float
        Raw rate in [0, 1], raw difference of rates or correlation in [-1, 1], or difference of mean
        returns in their own units.
    low, high : float
        Bounds, in the range of ``estimate`` but not centred on it. A difference may lie outside
        them when ``level`` is far below 0.9.
    method : str
        As printed in every report: ``"Agresti-Caffo 2000"``.
    """

    estimate: float
    low: float
    high: float
    level: float
    method: str


def critical_value(level: float) -> float:
    """Return the two-sided normal quantile ``z`` of a coverage level; ValueError outside (0, 1)."""
    coverage = check_fraction("a level", level, such_as=0.95)
    # The lower tail keeps its digits at levels so near to 1 that (1 + level) / 2 rounds to 1.
    return abs(NormalDist().inv_cdf((1 - coverage) / 2))


def student_critical_value(level: float, *, freedom: int) -> float:
    """Return the two-sided quantile ``t`` of a level (Student, Biometrika 6:1-25, 1908)."""
    # scipy.stats has the same number, and takes a second to import.
    from scipy.special import stdtrit

    critical_value(level)  # refuses an impossible level
    degrees = check_count("freedom", freedom, least=1)
    return abs(float(stdtrit(degrees, (1 - float(level)) / 2)))


def upper_tail(z: float) -> float:
    """Return the chance that a standard normal number exceeds ``z``; never 0."""
    return max(math.erfc(z / math.sqrt(2)) / 2, sys.float_info.min)


def wald_bounds(gap: float, variance: float, z: float) -> tuple[float, float]:
    """Return the bounds of Wald's interval on a gap of rates, cut at [-1, 1]."""
    half = z * math.sqrt(variance)
    return max(-1.0, gap - half), min(1.0, gap + half)


def exceeds(excess: NDArray[np.float64], squared: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return where ``excess`` is above the positive root of ``squared``."""
    above: NDArray[np.bool_] = (excess > 0) & (excess**2 > squared)
    return above


def as_floats(*counts: ArrayLike) -> list[NDArray[np.float64]]:
    """Return counts, which need not be whole, as arrays."""
    return [np.asarray(count, dtype=np.float64) for count in counts]

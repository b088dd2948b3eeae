"""Intervals: what bounds a rate, a gap or a correlation, and the normal distribution behind it."""

from __future__ import annotations

import math
import operator
import sys
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval on a success rate, on a difference, or on a correlation.

    The estimate is a raw rate in [0, 1], a raw difference of rates or a correlation in [-1, 1], or
    a difference of mean returns in their own units. Bounds are in its range but not centred on it;
    a difference may lie outside them when ``level`` is far below 0.9. The method is as printed in
    every report: ``"Agresti-Caffo 2000"``.
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


def exceeds(excess: FloatArray, squared: FloatArray) -> BoolArray:
    """Return where ``excess`` is above the positive root of ``squared``."""
    above: BoolArray = (excess > 0) & (excess**2 > squared)
    return above


def as_floats(*counts: ArrayLike) -> list[FloatArray]:
    """Return counts, which need not be whole, as arrays."""
    return [np.asarray(count, dtype=np.float64) for count in counts]


def check_count(name: str, value: SupportsIndex, *, least: int = 0) -> int:
    """Return a whole number of at least ``least`` as an int, or raise ValueError."""
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or isinstance(value, bool) or count < least:
        raise ValueError(f"need {name} to be a whole number of at least {least}, got {value!r}")
    return count


def check_arm(
    successes: SupportsIndex, episodes: SupportsIndex, *, prefix: str = ""
) -> tuple[int, int]:
    """Return an arm's successes and episodes as ints, or raise ValueError for impossible ones."""
    n = check_count(f"{prefix}episodes", episodes, least=1)
    s = check_count(f"{prefix}successes", successes)
    if s > n:
        raise ValueError(f"need {prefix}successes <= {prefix}episodes, got {s} of {n}")
    return s, n


def real_or_nan(value: object) -> float:
    """Return a real number as a float, and NaN, which fails every comparison, for anything else."""
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan


def check_fraction(what: str, value: object, *, such_as: float) -> float:
    """Return a number in (0, 1) as a float, or raise ValueError that proposes ``such_as``."""
    share = real_or_nan(value)
    if not 0 < share < 1:
        raise ValueError(f"need {what} between 0 and 1, such as {such_as}, got {value!r}")
    return share


def check_margin(margin: object) -> float:
    """Return the largest gap that is no loss, in (0, 1), or raise ValueError."""
    return check_fraction("a margin", margin, such_as=0.1)


def smallest(holds: Callable[[int], bool], *, most: int) -> int:
    """Return the smallest number from 1 to ``most`` that ``holds``, as all above it must."""
    return 1 + bisect_left(range(1, most), x=True, key=holds)


def smallest_from(least: int, holds: Callable[[int], bool], *, step: int) -> int:
    """Return the smallest number from ``least`` on that ``holds``, as all above it must."""
    most = least
    while not holds(most):
        least, most = most + 1, most + step
    return least + bisect_left(range(least, most), x=True, key=holds)


def smallest_up_to(holds: Callable[[int], bool], limit: int) -> int | None:
    """Return what `smallest` does, and None where ``limit`` does not hold."""
    most = check_count("limit", limit, least=1)
    return smallest(holds, most=most) if holds(most) else None


def wilson_interval(successes: int, episodes: int, *, level: float = 0.95) -> Interval:
    """Bound a success rate by Wilson's score interval (JASA 22:209-212, 1927).

    >>> ci = wilson_interval(7, 50)
    >>> f"{ci.low:.4f} {ci.high:.4f}"
    '0.0695 0.2619'
    """
    s, n = check_arm(successes, episodes)
    z = critical_value(level)
    centre = (s + z**2 / 2) / (n + z**2)
    half = z * math.sqrt(s * (n - s) / n + z**2 / 4) / (n + z**2)
    return Interval(
        estimate=s / n,
        # At the edges the bound is 0 or 1 in theory, and only nearly so in floating point.
        low=0.0 if s == 0 else max(0.0, centre - half),
        high=1.0 if s == n else min(1.0, centre + half),
        level=float(level),
        method="Wilson 1927",
    )


def highest_rate(successes: int, episodes: int, *, level: float = 0.95) -> float:
    """Return the upper end of Clopper's and Pearson's interval (Biometrika 26:404-413, 1934).

    It lies below the true rate in at most ``(1 - level) / 2`` of runs; Wilson's does so in up to
    17 % (docs/statistics.md).
    """
    from scipy.special import betaincinv

    s, n = check_arm(successes, episodes)
    critical_value(level)  # refuses an impossible level
    return 1.0 if s == n else float(betaincinv(s + 1, n - s, (1 + level) / 2))


def wilson_episodes_above(bound: float, *, rate: float, level: float) -> int | None:
    """Return the fewest episodes whose Wilson interval at a rate lies above a bound, if any do."""
    if rate <= bound:
        return None
    z = critical_value(level)
    return math.floor(z**2 * bound * (1 - bound) / (rate - bound) ** 2) + 1

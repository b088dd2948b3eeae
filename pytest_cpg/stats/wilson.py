"""Bounds of one success rate: Wilson's score interval, and the exact upper end."""

from __future__ import annotations

import math

from pytest_cpg.stats.counts import check_arm
from pytest_cpg.stats.intervals import Interval, critical_value


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

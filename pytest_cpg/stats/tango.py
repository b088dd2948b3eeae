"""Tango's interval of arms that share their starts: the paired score test, inverted.

It holds the gaps that the score test of Tango (Statistics in Medicine 17:891-908, 1998) does not
reject; at a gap of 0 that is McNemar's test without continuity correction (Psychometrika
12:153-157, 1947). The estimate is never outside, and a bound is -1 or 1 only where every start was
solved by one arm alone. Without a gap it lies above 0 in at most 2.7 % of runs of 10 to 200
episodes at level 0.95, but in up to 4.0 % where the arms disagree on more than half of the starts
(exact enumeration).

>>> from pytest_cpg.stats.pairing import Pairs
>>> pairs = Pairs(both=35, oracle_only=12, learned_only=2, neither=1)
>>> ci = TANGO.interval(pairs)
>>> f"{ci.estimate:+.2f} [{ci.low:+.3f}, {ci.high:+.3f}]"
'+0.20 [+0.061, +0.345]'
>>> round(TANGO.p_value(pairs), 4)
0.0038
>>> TANGO.above([8, 9], 2, 50, z=1.96).tolist()
[False, True]
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.intervals import as_floats, exceeds
from pytest_cpg.stats.paired import PairedMethod


def _bounds(wins: int, losses: int, pairs: int, *, z: float) -> tuple[float, float]:
    # The upper bound is the lower one of the swapped arms, so that swapping mirrors exactly.
    return _low(wins, losses, pairs, z), -_low(losses, wins, pairs, z)


def _low(wins: int, losses: int, n: int, z: float) -> float:
    if losses == n:
        return -1.0
    if losses == 0 and wins in (0, n):
        # Without variance at the estimate a search would stop there. The score equation is then
        # that of one Wilson bound: 0 of n losses, or n of n wins on the scale from -1 to 1.
        return (wins - z**2) / (n + z**2)
    estimate = (wins - losses) / n
    # The rejected gaps reach from -1, where no variance is left, up to the bound. Bisection needs
    # no import of scipy, and sixty halvings of at most 2 leave less than a rounding error.
    rejected, accepted = -1.0, estimate
    for _ in range(60):
        gap = (rejected + accepted) / 2
        if estimate - gap > z * math.sqrt(_score_variance(gap, wins, losses, n) / n):
            rejected = gap
        else:
            accepted = gap
    return accepted


def _score_variance(gap: float, wins: int, losses: int, n: int) -> float:
    # Variance of one paired difference, with the rarer outcome's chance q at its maximum
    # likelihood given the gap, the positive root of 2 n q**2 + linear q - rest = 0 (Tango 1998).
    if gap < 0:
        # Mirrored, so that no term below is a small difference of large ones.
        gap, wins, losses = -gap, losses, wins
    linear = (2 * n - wins + losses) * gap - wins - losses
    rest = losses * gap * (1 - gap)
    root = math.sqrt(linear**2 + 8 * n * rest)
    q = (root - linear) / (4 * n) if linear <= 0 else 2 * rest / (root + linear)
    return 2 * q + gap * (1 - gap)


def _statistic(wins: int, losses: int, pairs: int) -> float:  # noqa: ARG001
    return (wins - losses) / math.sqrt(max(wins + losses, 1))


def _above(
    wins: ArrayLike, losses: ArrayLike, pairs: ArrayLike, *, gap: float = 0.0, z: float
) -> NDArray[np.bool_]:
    # The score test rejects the gap itself, so that no bound need be searched for.
    b, c, n = as_floats(wins, losses, pairs)
    excess = (b - c) / n - gap
    if gap < 0:
        gap, b, c = -gap, c, b
    linear = (2 * n - b + c) * gap - b - c
    # Where `linear` is positive this root loses digits, but only those that the second part of the
    # variance hides.
    rarer = ((linear**2 + 8 * n * c * gap * (1 - gap)) ** 0.5 - linear) / (4 * n)
    return exceeds(excess, z**2 * (2 * rarer + gap * (1 - gap)) / n)


TANGO = PairedMethod(name="Tango 1998", bounds=_bounds, statistic=_statistic, above=_above)

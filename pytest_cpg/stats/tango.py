"""Tango's interval of arms that share their starts: the paired score test, inverted.

It holds the gaps that the score test of Tango (Statistics in Medicine 17:891-908, 1998) does not
reject; at a gap of 0 that is McNemar's test without continuity correction. Without a gap it lies
above 0 in at most 2.7 % of runs of 10 to 200 episodes at level 0.95, but in up to 4.0 % where the
arms disagree on more than half of the starts (exact enumeration).
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.counts import check_count, check_margin, smallest_from
from pytest_cpg.stats.intervals import Interval, as_floats, critical_value, exceeds
from pytest_cpg.stats.paired import PairedMethod, fewest_wins
from pytest_cpg.stats.pairing import (
    Pairs,
    farthest_count,
    multinomial_chance,
    shares_of_disagreement,
)


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


# Critical values are rounded up to hundredths, which errs on the safe side.
_HUNDREDTHS = 100
# Shares of disagreement that are tried. One between them may be worse, by less than `_MISSED` of
# the error (tests/calibration/test_margins_calibration.py).
_SHARES = 241
_MISSED = 1e-3


@cache
def margin_level(episodes: int, *, margin: float, level: float = 0.95) -> float:
    """Return the level, from ``level`` on, at which Tango's interval holds a margin at this size.

    The score test is approximate: at 0.95 it proves a margin that is the gap in up to 5.0 % of
    runs of 10 to 200 episodes, where 2.5 % are meant. At the level returned it does so in at most
    ``(1 - level) / 2`` of runs, whatever the rates and pairing, and lies above 0 no more often
    without a gap, by exact enumeration.

    >>> round(margin_level(50, margin=0.2), 4)
    0.9576
    """
    n, z = check_count("episodes", episodes, least=1), critical_value(level)
    check_margin(margin)
    alpha = (1 - float(level)) / 2 * (1 - _MISSED)

    def holds(critical: float) -> bool:
        return all(_worst_chance(n, gap, critical) <= alpha for gap in (-margin, 0.0))

    if holds(z):
        return float(level)
    # The larger, the fewer counts lie beyond it.
    least = math.ceil(z * _HUNDREDTHS)
    critical = smallest_from(least, lambda each: holds(each / _HUNDREDTHS), step=_HUNDREDTHS // 5)
    # A little more, for what is lost on the way back: a statistic of 2.00 may be met exactly.
    return 2 * NormalDist().cdf(critical / _HUNDREDTHS + 1e-9) - 1


def margin_interval(pairs: Pairs, *, margin: float, level: float = 0.95) -> Interval:
    """Bound the gap by Tango's interval at `margin_level`."""
    held = margin_level(pairs.count, margin=margin, level=level)
    return replace(TANGO.interval(pairs, level=held), level=float(level), method="Tango, exact")


def exact_tango_p_value(pairs: Pairs) -> float:
    """Return the one-sided p-value of Tango's test at the worst share of disagreement."""
    wins, losses = pairs.oracle_only, pairs.learned_only
    if wins <= losses:
        return 1.0
    # What was found counts itself, whatever rounds.
    z = TANGO.statistic(wins, losses, pairs.count) * (1 - 1e-9)
    return max(_worst_chance(pairs.count, 0.0, z), 5e-324)


def _worst_chance(n: int, gap: float, z: float) -> float:
    """Return the chance of an interval above ``gap`` where that is the gap, at the worst share."""
    from scipy.special import bdtrc

    shares = shares_of_disagreement(-gap, _SHARES)[1 if gap == 0 else 0 :, None]
    least = fewest_wins(TANGO.above, np.arange(n + 1), n, gap=gap, z=z)
    reach = farthest_count(n, 0.5)
    first = np.clip(np.floor(n * shares) - reach, 0, max(0, n - 2 * reach)).astype(int)
    disagreed = first + np.arange(min(n, 2 * reach) + 1)
    win = np.clip((1 + gap / shares) / 2, 0, 1)
    tail = bdtrc(least[disagreed] - 1, disagreed, win)
    return float((multinomial_chance(n, (disagreed, shares)) * tail).sum(axis=1).max())

"""Paired methods: intervals on the gap of two arms that share their starts, and their tests.

They see the starts that one arm alone solved: ``wins`` of the oracle and ``losses`` of it, of so
many ``pairs``. How the other starts divide into solved by both and by neither changes nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import count
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.intervals import (
    BoolArray,
    Interval,
    as_floats,
    check_count,
    check_margin,
    critical_value,
    exceeds,
    smallest_from,
    smallest_up_to,
    upper_tail,
    wald_bounds,
)
from pytest_cpg.stats.pairing import (
    PairRates,
    Pairs,
    farthest_count,
    likely_counts,
    multinomial_chance,
    shares_of_disagreement,
    total_chance,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedMethod:
    """A paired interval, and all that follows from it, by functions of trusted counts.

    ``bounds(wins, losses, pairs, z=)`` has both bounds, in [-1, 1], and ``statistic`` the standard
    normal z of no gap. ``above`` says of counts that broadcast where the interval lies above a
    ``gap``; it lies below one where it lies above the negative gap with the arms swapped.
    """

    name: str
    bounds: Callable[..., tuple[float, float]]
    statistic: Callable[[int, int, int], float]
    above: Callable[..., BoolArray]

    def interval(self, pairs: Pairs, *, level: float = 0.95) -> Interval:
        """Bound the gap."""
        z = critical_value(level)
        low, high = self.bounds(pairs.oracle_only, pairs.learned_only, pairs.count, z=z)
        return Interval(
            estimate=pairs.gap, low=low, high=high, level=float(level), method=self.name
        )

    def p_value(self, pairs: Pairs) -> float:
        """Return the one-sided p-value that goes with the interval, in (0, 1]."""
        return upper_tail(self.statistic(pairs.oracle_only, pairs.learned_only, pairs.count))

    def power(self, rates: PairRates, n: int, *, z: float) -> float:
        """Return the chance of an interval above 0 with ``n`` pairs."""
        from scipy.special import bdtrc

        disagree = rates.oracle_only + rates.learned_only
        disagreed = likely_counts(n, disagree)
        least = fewest_wins(self.above, disagreed, n, z=z)
        tail = bdtrc(least - 1, disagreed, rates.oracle_only / disagree if disagree else 0.5)
        return total_chance(multinomial_chance(n, (disagreed, disagree)) * tail)

    def smallest_decisive_pairs(self, *, level: float) -> int:
        """Return the fewest pairs with which a gate can say MODEL BOTTLENECK and may.

        Equal models that differ on each of ``n`` starts favour the oracle on all of them in a share
        ``2**-n`` of runs: an interval that calls that a gap with fewer does not keep its level, as
        Bonett and Price's of 4 starts, in 6.25 % of runs.
        """
        z = critical_value(level)
        # Powers of two are exact, their logarithm of a level as typed is not.
        return next(
            n
            for n in count(1)
            if 2.0**-n <= (1 - level) / 2 * (1 + 1e-9) and self.above(n, 0, n, z=z)
        )

    def episodes_to_settle(
        self,
        pairs: Pairs,
        *,
        margin: float | None = None,
        level: float = 0.95,
        limit: int = 100_000,
    ) -> int | None:
        """Return the fewest starts at which exactly these shares settle a gate, as of two arms."""
        win, loss = pairs.oracle_only / pairs.count, pairs.learned_only / pairs.count
        z = critical_value(level)
        if margin is not None:
            check_margin(margin)

        def is_settled(n: int) -> bool:
            if margin is not None:
                return bool(self.above(n * loss, n * win, n, gap=-margin, z=z))
            wins, losses = n * win, n * loss
            return bool(self.above(wins, losses, n, z=z) or self.above(losses, wins, n, z=z))

        return smallest_up_to(is_settled, limit)


def fewest_wins(
    above: Callable[..., BoolArray], disagreed: ArrayLike, pairs: int, *, gap: float = 0.0, z: float
) -> NDArray[np.intp]:
    """Return the fewest wins of the oracle arm with which an interval lies above ``gap``.

    One more than ``disagreed`` where none do. Given the disagreements, it does so for all
    numbers of wins from one on (tests/calibration/test_paired_calibration.py).
    """
    disagreed = np.asarray(disagreed)
    least, most = np.zeros_like(disagreed), disagreed + 1
    while (least < most).any():
        wins = np.minimum((least + most) // 2, disagreed)
        is_above = above(wins, disagreed - wins, pairs, gap=gap, z=z)
        least, most = np.where(is_above, least, wins + 1), np.where(is_above, wins, most)
    fewest: NDArray[np.intp] = most
    return fewest


def exact_mcnemar_p_value(*, lost: int, gained: int) -> float:
    """Return the exact two-sided p-value of McNemar's test, in (0, 1]; 1 when no start changed.

    Of the starts whose outcome changed, each was lost or gained with chance one half if nothing
    did (McNemar, Psychometrika 12:153-157, 1947; exact by Fay, R Journal 2:53-58, 2010).
    """
    fewer, more = sorted((check_count("lost", lost), check_count("gained", gained)))
    if fewer == more:
        return 1.0
    changed = fewer + more
    ways = term = 1
    for k in range(fewer):
        term = term * (changed - k) // (k + 1)
        ways += term
    # A quotient of whole numbers is rounded once, and cannot overflow however large they are.
    return max(2 * ways / (1 << changed), sys.float_info.min)


def fewest_significant_losses(*, level: float) -> int:
    """Return the fewest starts that chance does not explain the loss of, if none was gained.

    >>> fewest_significant_losses(level=0.95), fewest_significant_losses(level=0.99)
    (6, 8)
    """
    critical_value(level)  # refuses an impossible level
    return next(k for k in count(1) if exact_mcnemar_p_value(lost=k, gained=0) <= 1 - level)


# The adjusted Wald interval of Bonett and Price (J. Educ. Behav. Stat. 37:479-488, 2012) on Laplace
# estimates. Without a gap it lies above 0 in at most 2.7 % of runs of 10 to 200 episodes at level
# 0.95, in up to 5.5 % where arms disagree on more than half of the starts, as independent arms of
# equal rates never do.
def _wald_bounds(wins: int, losses: int, pairs: int, *, z: float) -> tuple[float, float]:
    p, q = (wins + 1) / (pairs + 2), (losses + 1) / (pairs + 2)
    return wald_bounds(p - q, (p + q - (p - q) ** 2) / (pairs + 2), z)


def _wald_statistic(wins: int, losses: int, pairs: int) -> float:
    difference = wins - losses
    return difference / math.sqrt(wins + losses + 2 - difference**2 / (pairs + 2))


def _wald_above(
    wins: ArrayLike, losses: ArrayLike, pairs: ArrayLike, *, gap: float = 0.0, z: float
) -> BoolArray:
    b, c, n = as_floats(wins, losses, pairs)
    p, q = (b + 1) / (n + 2), (c + 1) / (n + 2)
    return exceeds(p - q - gap, z**2 * (p + q - (p - q) ** 2) / (n + 2))


BONETT_PRICE = PairedMethod(
    name="Bonett-Price 2012", bounds=_wald_bounds, statistic=_wald_statistic, above=_wald_above
)


# The gaps that the score test of Tango (Statistics in Medicine 17:891-908, 1998) does not reject:
# at 0 McNemar's without continuity correction. Without a gap it lies above 0 in at most 2.7 % of
# runs of 10 to 200 episodes at level 0.95, in up to 4.0 % where arms disagree on more than half.
def _score_bounds(wins: int, losses: int, pairs: int, *, z: float) -> tuple[float, float]:
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


def _score_statistic(wins: int, losses: int, pairs: int) -> float:  # noqa: ARG001
    return (wins - losses) / math.sqrt(max(wins + losses, 1))


def _score_above(
    wins: ArrayLike, losses: ArrayLike, pairs: ArrayLike, *, gap: float = 0.0, z: float
) -> BoolArray:
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


TANGO = PairedMethod(
    name="Tango 1998", bounds=_score_bounds, statistic=_score_statistic, above=_score_above
)


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


PAIRED_METHODS = {"bonett-price": BONETT_PRICE, "tango": TANGO}
METHODS = ("agresti-caffo", *PAIRED_METHODS)


def paired_method(name: str) -> PairedMethod:
    """Return the paired method of this name."""
    if name not in PAIRED_METHODS:
        raise ValueError(f"need a method among {', '.join(METHODS)}, got {name!r}")
    return PAIRED_METHODS[name]

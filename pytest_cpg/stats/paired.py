"""Paired methods: intervals on the gap of two arms that share their starts, and their tests.

They see the starts that one arm alone solved: ``wins`` of the oracle and ``losses`` of it, of so
many ``pairs``. How the other starts divide into solved by both and by neither changes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.counts import check_count, check_margin, smallest_up_to
from pytest_cpg.stats.intervals import Interval, critical_value, upper_tail
from pytest_cpg.stats.pairing import (
    PairRates,
    Pairs,
    likely_counts,
    multinomial_chance,
    total_chance,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedMethod:
    """A paired interval, and all that follows from it.

    Attributes
    ----------
    bounds : callable
        Maps trusted counts of wins, losses and pairs, and ``z``, to both bounds, in [-1, 1].
    statistic : callable
        Maps wins, losses and pairs to the standard normal z of no gap.
    above : callable
        Says of trusted counts that broadcast where the interval lies above a ``gap``. It lies below
        one where it lies above the negative gap with the arms swapped.
    """

    name: str
    bounds: Callable[..., tuple[float, float]]
    statistic: Callable[[int, int, int], float]
    above: Callable[..., NDArray[np.bool_]]

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
    above: Callable[..., NDArray[np.bool_]],
    disagreed: ArrayLike,
    pairs: int,
    *,
    gap: float = 0.0,
    z: float,
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

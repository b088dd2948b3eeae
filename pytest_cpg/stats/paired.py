"""Paired methods: intervals on the gap of two arms that share their starts, and their tests.

They see the starts that one arm alone solved: ``wins`` of the oracle and ``losses`` of it, of so
many ``pairs``. How the other starts divide into solved by both and by neither changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.counts import check_margin, check_table, smallest_up_to
from pytest_cpg.stats.enumeration import likely_counts, multinomial_chance, total_chance
from pytest_cpg.stats.intervals import Interval, critical_value, upper_tail
from pytest_cpg.stats.pairing import PairRates


class PairedBounds(Protocol):
    """The bounds of a paired interval, from trusted counts."""

    def __call__(self, wins: int, losses: int, pairs: int, *, z: float) -> tuple[float, float]:
        """Return the lower and the upper bound, in [-1, 1]."""
        ...


class PairedRegion(Protocol):
    """Where a paired interval lies above a gap, for many counts at once.

    Counts broadcast, are trusted and need not be whole. The interval lies below a gap where it lies
    above the negative gap with the arms swapped.
    """

    def __call__(
        self, wins: ArrayLike, losses: ArrayLike, pairs: ArrayLike, *, gap: float = 0.0, z: float
    ) -> NDArray[np.bool_]:
        """Return a bool for each count; ``gap`` is in (-1, 1)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedMethod:
    """A paired interval, and all that follows from it.

    Attributes
    ----------
    statistic : callable
        From wins, losses and pairs, the standard normal ``z`` of no gap.
    """

    name: str
    bounds: PairedBounds
    statistic: Callable[[int, int, int], float]
    above: PairedRegion

    def interval(
        self,
        *,
        both: int,
        oracle_only: int,
        learned_only: int,
        neither: int,
        level: float = 0.95,
    ) -> Interval:
        """Bound the gap."""
        table = check_table(both, oracle_only, learned_only, neither)
        _, wins, losses, _ = table
        low, high = self.bounds(wins, losses, sum(table), z=critical_value(level))
        return Interval(
            estimate=(wins - losses) / sum(table),
            low=low,
            high=high,
            level=float(level),
            method=self.name,
        )

    def p_value(self, *, both: int, oracle_only: int, learned_only: int, neither: int) -> float:
        """Return the one-sided p-value that goes with the interval, in (0, 1].

        The smallest alpha at which the interval of level ``1 - 2 * alpha`` lies above 0.
        """
        table = check_table(both, oracle_only, learned_only, neither)
        return upper_tail(self.statistic(table[1], table[2], sum(table)))

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

        A model that loses every start then has an interval above 0. Equal models that differ on
        each of ``n`` starts favour the oracle on all of them in a share ``2**-n`` of runs: with
        fewer starts than this that share is above ``(1 - level) / 2``, and an interval that calls
        it a gap does not keep its level. Bonett and Price's does so with 4 starts at 0.95, in
        6.25 % of runs.
        """
        z = critical_value(level)
        # Powers of two are exact, their logarithm of a level as typed is not.
        return next(
            n
            for n in count(1)
            if 2.0**-n <= (1 - level) / 2 * (1 + 1e-9) and self.above(n, 0, n, z=z)
        )

    def episodes_to_resolve(
        self,
        *,
        both: int,
        oracle_only: int,
        learned_only: int,
        neither: int,
        level: float = 0.95,
        limit: int = 100_000,
    ) -> int | None:
        """Return the fewest starts at which these shares of outcomes give an interval without 0.

        As `agresti_caffo.episodes_to_resolve`: the interval is taken at exactly the observed
        shares, it excludes 0 at every larger size too, and if the shares were true it would do so
        in about half of the runs of this size. It is the total, not what is missing. None when each
        arm alone solved equally many, or when more than ``limit`` starts would be needed.
        """
        table = check_table(both, oracle_only, learned_only, neither)
        win, loss = table[1] / sum(table), table[2] / sum(table)
        z = critical_value(level)

        def is_resolved(n: int) -> bool:
            wins, losses = n * win, n * loss
            return bool(self.above(wins, losses, n, z=z) or self.above(losses, wins, n, z=z))

        return smallest_up_to(is_resolved, limit)

    def episodes_to_prove_margin(
        self,
        *,
        both: int,
        oracle_only: int,
        learned_only: int,
        neither: int,
        margin: float,
        level: float = 0.95,
        limit: int = 100_000,
    ) -> int | None:
        """Return the starts from which on these shares of outcomes prove a gap below ``margin``.

        As `episodes_to_resolve`, for a margin in (0, 1): None when the observed gap is not below
        it, or when more than ``limit`` starts would be needed.
        """
        table = check_table(both, oracle_only, learned_only, neither)
        win, loss = table[1] / sum(table), table[2] / sum(table)
        allowed, z = check_margin(margin), critical_value(level)

        def is_proven(n: int) -> bool:
            return bool(self.above(n * loss, n * win, n, gap=-allowed, z=z))

        return smallest_up_to(is_proven, limit)


def fewest_wins(
    region: PairedRegion, disagreed: ArrayLike, pairs: int, *, gap: float = 0.0, z: float
) -> NDArray[np.intp]:
    """Return the fewest wins of the oracle arm with which a region lies above ``gap``.

    One more than ``disagreed`` where none do. Given the disagreements, a region holds all numbers
    of wins from one on (tests/calibration/test_paired_calibration.py, tests/stats/test_margins.py).
    """
    disagreed = np.asarray(disagreed)
    least, most = np.zeros_like(disagreed), disagreed + 1
    while (least < most).any():
        wins = np.minimum((least + most) // 2, disagreed)
        is_above = region(wins, disagreed - wins, pairs, gap=gap, z=z)
        least, most = np.where(is_above, least, wins + 1), np.where(is_above, wins, most)
    fewest: NDArray[np.intp] = most
    return fewest

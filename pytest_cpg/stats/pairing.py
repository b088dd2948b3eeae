"""Pairing: how two arms do on the same starts, as counts, as chances and as likely numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from pytest_cpg.stats.intervals import FloatArray, check_count, real_or_nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """How the two arms did on the same starts: the number of starts that end in each way."""

    both: int
    oracle_only: int
    learned_only: int
    neither: int

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, check_count(field.name, getattr(self, field.name)))
        if not self.count:
            raise ValueError("need at least one episode, got four counts of 0")

    @property
    def count(self) -> int:
        """All of them."""
        return self.both + self.oracle_only + self.learned_only + self.neither

    @property
    def gap(self) -> float:
        """The success rate of the oracle arm minus the learned one's, in [-1, 1]."""
        return (self.oracle_only - self.learned_only) / self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRates:
    """The chance of each outcome of one start; together they are 1."""

    both: float
    oracle_only: float
    learned_only: float
    neither: float

    @property
    def oracle(self) -> float:
        """Success rate of the oracle arm, in [0, 1]."""
        return min(1.0, self.both + self.oracle_only)

    @property
    def learned(self) -> float:
        """Success rate of the learned arm, in [0, 1]."""
        return min(1.0, self.both + self.learned_only)


def pair_rates(oracle_rate: float, learned_rate: float, *, share: float) -> PairRates:
    """Return the outcomes of arms with these rates when a share of the starts decides for both.

    On those the arms solve as many together as their rates allow; on the others they are
    independent. Arms of one rate then correlate by the share; 0 is independence.
    """
    p = _check_share("oracle_rate", oracle_rate)
    q = _check_share("learned_rate", learned_rate)
    decided = _check_share("share", share)
    both = decided * min(p, q) + (1 - decided) * p * q
    # Rounding may carry a chance that is 0 past it.
    return PairRates(
        both=both,
        oracle_only=max(0.0, p - both),
        learned_only=max(0.0, q - both),
        neither=max(0.0, 1 - p - q + both),
    )


def _check_share(name: str, value: float) -> float:
    if not 0 <= real_or_nan(value) <= 1:
        raise ValueError(f"need {name} from 0 to 1, got {value!r}")
    return float(value)


# Chance of all that is left out of one kind of count.
_NEGLIGIBLE = 1e-13


def likely_counts(n: int, rate: float) -> NDArray[np.int64]:
    """Return the counts of ``n`` that Bernstein's inequality does not call negligible."""
    if rate in (0, 1):
        return np.array([n * int(rate)])
    reach = farthest_count(n, rate)
    least, most = math.floor(n * rate) - reach, math.ceil(n * rate) + reach
    return np.arange(max(0, least), min(n, most) + 1)


def farthest_count(n: int, rate: float) -> int:
    """Return how far from its mean a likely count may be."""
    # P(|count - mean| >= r) <= 2 exp(-r**2 / (2 variance + 2 r / 3)), solved for r.
    third = -math.log(_NEGLIGIBLE / 2) / 3
    return math.ceil(third + math.sqrt(third**2 + 6 * third * n * rate * (1 - rate)))


def multinomial_chance(n: int, *kinds: tuple[NDArray[np.int64], float | FloatArray]) -> FloatArray:
    """Return the multinomial chance of counts of kinds of known rates, and of all the rest."""
    from scipy.special import gammaln, xlogy

    rest = n - sum(count for count, _ in kinds)
    rest_rate = np.maximum(0.0, 1 - sum(rate for _, rate in kinds))
    log = gammaln(n + 1)
    for count, rate in (*kinds, (np.maximum(rest, 0), rest_rate)):
        log = log + xlogy(count, rate) - gammaln(count + 1)
    chance: FloatArray = np.where(rest >= 0, np.exp(log), 0.0)
    return chance


def joint_chance(
    rates: PairRates, n: int, m: int, s: NDArray[np.int64], t: NDArray[np.int64]
) -> FloatArray:
    """Return the chance of ``s`` of ``m`` oracle and ``t`` of ``n`` learned successes.

    The first ``n`` episodes of the oracle arm are paired. The inverse Fourier transform of the
    characteristic function, on the smallest grid that holds all likely counts.
    """
    rows, columns = (1 << (counts.size - 1).bit_length() for counts in (s, t))
    x = np.exp(-2j * math.pi * np.arange(rows) / rows)[:, None]
    # Chances are real: half of the frequencies are enough.
    y = np.exp(-2j * math.pi * np.arange(columns // 2 + 1) / columns)
    paired = rates.neither + rates.oracle_only * x + rates.learned_only * y + rates.both * x * y
    unpaired = 1 - rates.oracle + rates.oracle * x
    grid = np.fft.irfft2(paired**n * unpaired ** (m - n), (rows, columns))
    return grid[s % rows, t % columns]


def total_chance(chances: FloatArray) -> float:
    """Return the sum of chances, which rounding keeps from leaving [0, 1]."""
    return min(1.0, max(0.0, float(chances.sum())))


def shares_of_disagreement(least: float, number: int) -> FloatArray:
    """Return shares from ``least`` to 1, evenly spaced in the arc sine of their roots.

    On that scale counts vary evenly (Anscombe, Biometrika 35:246-254, 1948).
    """
    angles = np.linspace(math.asin(math.sqrt(least)), math.pi / 2, number)
    return np.asarray(np.sin(angles) ** 2)

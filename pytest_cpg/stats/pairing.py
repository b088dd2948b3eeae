"""Pairing: how the two arms of a gate do on the same starts, as counts and as chances."""

from __future__ import annotations

from dataclasses import dataclass, fields

from pytest_cpg.stats.counts import check_count, real_or_nan


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

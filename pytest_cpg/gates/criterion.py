"""Criterion: one thing that a gate asks of a model, and whether an interval says that it is met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pytest_cpg.gates.card import Row
from pytest_cpg.gates.kind import Alarm
from pytest_cpg.gates.notation import ends
from pytest_cpg.stats import Interval


class Standing(Enum):
    """Whether a criterion is met, in the words of a table."""

    MET = "yes"
    OPEN = "open"
    MISSED = "no"

    @classmethod
    def of(cls, *, is_met: bool, is_missed: bool) -> Standing:
        """Return what an interval shows, which may be neither."""
        if is_met:
            return cls.MET
        return cls.MISSED if is_missed else cls.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing that is asked of a model.

    Attributes
    ----------
    title : str
        In at most 14 columns.
    bound : float
        Where it is only just met.
    needed : str
        The same in at most 7 columns.
    label : str
        Of a result that misses it.
    p_value : float
        One-sided, of a model that only just meets it.
    """

    title: str
    bound: float
    needed: str
    found: Interval
    standing: Standing
    label: str
    p_value: float

    def row(self, form: str) -> Row:
        """Return its line of a table: number, interval, what is needed, and whether it is met."""
        number = f"{self.found.estimate:{form}}"
        cells = (number, ends(self.found, form), self.needed, self.standing.value)
        return Row(name=self.title, cells=cells, bound=self.found)


def alarm_of(criteria: Sequence[Criterion], *, level: float, is_settled: bool) -> Alarm:
    """Return what a gate with some criteria brings to the family of all gates.

    The rate is of a model that only just meets one of them, and the others with room to spare.
    """
    p_values = [one.p_value for one in criteria] or [1.0]
    return Alarm(
        p_value=lambda: min(1.0, len(p_values) * min(p_values)),
        rate=(1 - level) / 2,
        is_settled=is_settled,
    )

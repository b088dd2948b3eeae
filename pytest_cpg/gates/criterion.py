"""Criterion: one thing that a gate asks of a model, and whether an interval says that it is met."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.contracts.errors import CURE
from pytest_cpg.gates.card import Row, Severity
from pytest_cpg.gates.notation import ends
from pytest_cpg.stats import Interval, Sampled
from pytest_cpg.stats.returns import paired_mean_interval

# Of fewer questions that two results share, a change says nothing.
_FEWEST_PAIRS = 10


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

    The title has at most 14 columns, and what is ``needed`` 7: the ``bound``, where it is only just
    met. The label is of a result that misses it, and else the kind's first bad one. The p-value is
    one-sided, of a model that only just meets it. ``is_floor`` says that larger is better.
    """

    title: str
    bound: float
    needed: str
    found: Interval
    standing: Standing
    label: str = ""
    p_value: float
    is_floor: bool = False

    @classmethod
    def of(
        cls,
        title: str,
        sampled: Sampled,
        *,
        level: float,
        at_most: float | None = None,
        at_least: float | None = None,
        label: str = "",
    ) -> Criterion:
        """Return a criterion that a sampled number meets where its whole interval does."""
        if (at_most is None) == (at_least is None):
            raise ValueError(f"{title}: give at_most or at_least, and not both")
        if not math.isfinite(sampled.estimate):
            raise WorldModelError(f"the {title} of the model is {sampled.estimate}. {CURE}")
        bound, is_floor = at_least or at_most or 0.0, at_most is None
        return cls.of_interval(
            title,
            sampled.interval(level),
            bound,
            needed=f"{'>=' if is_floor else '<='}{bound:.3g}",
            p_value=sampled.p_below(bound) if is_floor else sampled.p_above(bound),
            label=label,
            is_floor=is_floor,
        )

    @classmethod
    def of_interval(
        cls, title: str, found: Interval, bound: float, *, is_floor: bool = False, **more: Any
    ) -> Criterion:
        """Return a criterion that a number meets where its whole interval does."""
        is_met, is_missed = found.high <= bound, found.low > bound
        if is_floor:
            is_met, is_missed = found.low >= bound, found.high < bound
        standing = Standing.of(is_met=is_met, is_missed=is_missed)
        return cls(
            title=title, found=found, bound=bound, standing=standing, is_floor=is_floor, **more
        )

    def row(self, form: str) -> Row:
        """Return its line of a table: number, interval, what is needed, and whether it is met."""
        number = f"{self.found.estimate:{form}}"
        cells = (number, ends(self.found, form), self.needed, self.standing.value)
        return Row(name=self.title, cells=cells, bound=self.found)


class Blindness(NamedTuple):
    """Why a result that may pass says nothing of the model, in a sentence, and what to do."""

    reason: str
    advice: str = ""


class Words(NamedTuple):
    """What a label means, in at most 55 columns; what it says of the model, and what to do."""

    gist: str
    meaning: str = ""
    advice: str = ""
    severity: Severity = Severity.BAD


def worsening(
    then: tuple[Interval, FloatArray | None],
    now: tuple[Interval, FloatArray | None],
    level: float,
    *,
    is_floor: bool = False,
) -> Interval:
    """Return by how much a number got worse: question by question, where both have the same ones.

    Else it is by intervals that lie apart. ``is_floor`` says that larger is better.
    """
    (old, before), (new, after) = then, now
    if before is not None and after is not None and len(before) == len(after) >= _FEWEST_PAIRS:
        return paired_mean_interval(after, before, level=level)
    if is_floor:
        old, new = new, old
    return Interval(
        estimate=new.estimate - old.estimate,
        low=new.low - old.high,
        high=new.high - old.low,
        level=level,
        method="intervals that lie apart",
    )

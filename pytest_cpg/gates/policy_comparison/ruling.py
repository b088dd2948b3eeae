"""Ruling: what a model's answers say of it, criterion by criterion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from pytest_cpg.gates.card import Ruling, Severity
from pytest_cpg.gates.kind import Alarm
from pytest_cpg.gates.policy_comparison.result import ComparisonResult
from pytest_cpg.stats import Interval

LABELS = {
    "KNOWS ITS LIMITS": Severity.GOOD,
    "INCONCLUSIVE": Severity.UNSURE,
    "OVERCONFIDENT": Severity.BAD,
    "UNINFORMED": Severity.BAD,
    "BROKEN": Severity.BROKEN,
}
"""The gate's words, best first."""

# The bootstrap knows no more starts than there are.
_FEWEST_GROUPS = 30


class Standing(Enum):
    """Whether a criterion is met, in the words of a table."""

    MET = "yes"
    OPEN = "open"
    MISSED = "no"


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing that is asked of the answers.

    Attributes
    ----------
    name : str
        As in ``ComparisonResult.p_values``.
    title : str
        In at most 14 columns.
    bound : float
        Where it is only just met.
    needed : str
        The same in at most 7 columns.
    found : Interval
    standing : Standing
    label : str
        Of a result that misses it.
    """

    name: str
    title: str
    bound: float
    needed: str
    found: Interval
    standing: Standing
    label: str


def criteria_of(result: ComparisonResult) -> tuple[Criterion, ...]:
    """Return what is asked of a result, and how it stands to each."""
    return tuple(_criteria(result))


def _criteria(result: ComparisonResult) -> Iterator[Criterion]:
    asked, loss = result.criteria, result.loss
    trivial = result.trivial_loss
    standing = Standing.MET if loss.high < trivial else Standing.OPEN
    # What is never right where a trivial answer is wrong, is no better for sure.
    if result.grades.behind.low >= 0 or result.grades.beyond == 0:
        standing = Standing.MISSED
    yield Criterion(
        name="loss",
        title="loss",
        bound=trivial,
        needed=f"< {trivial:.3f}",
        found=loss,
        standing=standing,
        label="UNINFORMED",
    )
    if asked.max_loss is not None:
        yield Criterion(
            name="max_loss",
            title="loss, max_loss",
            bound=asked.max_loss,
            needed=f"<={asked.max_loss:.3f}",
            found=loss,
            standing=_standing(-loss.high, -loss.low, -asked.max_loss),
            label="UNINFORMED",
        )
    if result.auroc is not None:
        yield Criterion(
            name="auroc",
            title="AUROC",
            bound=asked.min_auroc,
            needed=f">= {asked.min_auroc:.2f}",
            found=result.auroc,
            standing=_standing(result.auroc.low, result.auroc.high, asked.min_auroc),
            label="OVERCONFIDENT",
        )
    coverage = result.coverage_at_risk
    yield Criterion(
        name="coverage_at_risk",
        title=f"sure at {100 * asked.max_risk:.3g} %",
        bound=asked.min_coverage,
        needed=f">= {asked.min_coverage:.2f}",
        found=coverage,
        standing=_standing(coverage.low, coverage.high, asked.min_coverage),
        label="OVERCONFIDENT",
    )


def _standing(low: float, high: float, least: float) -> Standing:
    if low >= least:
        return Standing.MET
    return Standing.MISSED if high < least else Standing.OPEN


def label_of(result: ComparisonResult) -> str:
    """Return the gate's word for a result."""
    if result.faults:
        return "BROKEN"
    criteria = criteria_of(result)
    missed = {one.label for one in criteria if one.standing is Standing.MISSED}
    # A model that answers no better than none has no confidence worth a word.
    if missed and ("UNINFORMED" in missed or result.loss.estimate >= result.trivial_loss):
        return "UNINFORMED"
    if missed:
        return "OVERCONFIDENT"
    is_open = any(one.standing is Standing.OPEN for one in criteria)
    return "INCONCLUSIVE" if is_open else "KNOWS ITS LIMITS"


def ruling_of(result: ComparisonResult) -> Ruling:
    """Return what a result says; the same whatever a test accepts."""
    label = label_of(result)
    is_broken = label == "BROKEN"
    return Ruling(
        label=label,
        severity=LABELS[label],
        reason=result.faults[0] if is_broken else None,
        doubt=_doubt(result),
    )


def _doubt(result: ComparisonResult) -> str | None:
    if result.design.groups < _FEWEST_GROUPS:
        return (
            f"the queries have {result.design.groups} starts, and intervals from fewer than "
            f"{_FEWEST_GROUPS} are too short"
        )
    return None


def alarm_of(result: ComparisonResult) -> Alarm:
    """Return what a result brings to the family of all gates.

    The rate is of a model that only just meets one criterion, and the others with room to spare.
    """
    p_values = [result.grades.p_values[one.name] for one in criteria_of(result)]
    return Alarm(
        p_value=lambda: min(1.0, len(p_values) * min(p_values)),
        rate=(1 - result.criteria.level) / 2,
        is_settled=label_of(result) != "INCONCLUSIVE",
    )

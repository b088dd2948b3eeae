"""Ruling: what a model's answers say of it, criterion by criterion."""

from __future__ import annotations

from pytest_cpg.gates import criterion
from pytest_cpg.gates.card import Ruling, Severity
from pytest_cpg.gates.criterion import Criterion, Standing
from pytest_cpg.gates.kind import Alarm, MaxVerdict
from pytest_cpg.gates.policy_comparison.result import ComparisonResult

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


def criteria_of(result: ComparisonResult) -> list[Criterion]:
    """Return what is asked of a result, and how it stands to each."""
    asked, loss, p_values = result.criteria, result.loss, result.grades.p_values
    trivial, most = result.trivial_loss, result.criteria.max_loss
    # What is never right where a trivial answer is wrong, is no better for sure. The trivial loss
    # is of the same queries: it has luck of its own, which their difference knows.
    behind = result.grades.behind
    is_missed = behind.low >= 0 or result.grades.beyond == 0
    is_met = loss.high < trivial and behind.high < 0 and not is_missed
    criteria = [
        Criterion(
            title="loss",
            bound=trivial,
            needed=f"< {trivial:.3f}",
            found=loss,
            standing=Standing.of(is_met=is_met, is_missed=is_missed),
            label="UNINFORMED",
            p_value=p_values["loss"],
        )
    ]
    if most is not None:
        criteria.append(
            Criterion(
                title="loss, max_loss",
                bound=most,
                needed=f"<={most:.3f}",
                found=loss,
                standing=Standing.of(is_met=loss.high <= most, is_missed=loss.low > most),
                label="UNINFORMED",
                p_value=p_values["max_loss"],
            )
        )
    auroc = result.auroc
    if auroc is not None:
        criteria.append(
            Criterion(
                title="AUROC",
                bound=asked.min_auroc,
                needed=f">= {asked.min_auroc:.2f}",
                found=auroc,
                standing=Standing.of(
                    is_met=auroc.low >= asked.min_auroc, is_missed=auroc.high < asked.min_auroc
                ),
                label="OVERCONFIDENT",
                p_value=p_values["auroc"],
            )
        )
    # The share that may be answered at max_risk is a maximum over thresholds, which jumps: what is
    # judged is the risk of the share that is asked for, which is no larger where that one is.
    surest = result.surest_loss
    criteria.append(
        Criterion(
            title=f"surest {100 * asked.min_coverage:.3g} %",
            bound=asked.max_risk,
            needed=f"<={asked.max_risk:.3f}",
            found=surest,
            standing=Standing.of(
                is_met=surest.high <= asked.max_risk, is_missed=surest.low > asked.max_risk
            ),
            label="OVERCONFIDENT",
            p_value=p_values["coverage_at_risk"],
        )
    )
    return criteria


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


def ruling_of(
    result: ComparisonResult,
    max_verdict: MaxVerdict | None = None,  # noqa: ARG001
) -> Ruling:
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
    """Return what a result brings to the family of all gates."""
    return criterion.alarm_of(
        criteria_of(result),
        level=result.criteria.level,
        is_settled=label_of(result) != "INCONCLUSIVE",
    )

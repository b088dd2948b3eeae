"""Ruling: what the scores of plans say of a model, criterion by criterion."""

from __future__ import annotations

from pytest_cpg.gates import criterion
from pytest_cpg.gates.card import AA_CHECK, SMOKE_TEST, Ruling, Severity
from pytest_cpg.gates.criterion import Criterion, Standing
from pytest_cpg.gates.kind import Alarm, MaxVerdict
from pytest_cpg.gates.plan_quality.result import AGREEING, PERFECT, PlanQualityResult
from pytest_cpg.stats.unseen import mean_p_value
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE

LABELS = {
    "GOOD PLANS": Severity.GOOD,
    "UNCLEAR": Severity.UNSURE,
    "FLAT": Severity.BLIND,
    "POOR PLANS": Severity.BAD,
    "EXPLOITED": Severity.BAD,
    "BROKEN": Severity.BROKEN,
}
"""The gate's words, best first."""


def criteria_of(result: PlanQualityResult) -> list[Criterion]:
    """Return what is asked of a result, and how it stands to each; none where nothing is known."""
    asked, truth = result.criteria, result.truth.values
    worlds, chance = result.worlds.differences.values, result.chance.differences.values
    exploitation, score, above = result.exploitation, result.score, result.above_chance
    if exploitation is None or score is None or above is None:
        return []
    most, least = asked.max_exploitation, asked.min_score
    # Few episodes that are alike meet nothing, as others may differ from all of them.
    are_enough = episodes_known(result) >= FEWEST_EPISODES_TO_CALL_ALIKE
    of_model = Criterion(
        title="exploitation",
        bound=most,
        needed=f"<={most:.2f}",
        found=exploitation,
        standing=Standing.of(
            is_met=are_enough and exploitation.high <= most, is_missed=exploitation.low > most
        ),
        label="EXPLOITED",
        p_value=mean_p_value(worlds, limit=most, unseen=AGREEING),
    )
    of_chance = Criterion(
        title="above chance",
        bound=0.0,
        needed="> 0",
        found=above,
        standing=Standing.of(is_met=are_enough and above.low > 0, is_missed=above.high <= 0),
        label="POOR PLANS",
        p_value=mean_p_value(-chance, limit=0.0, unseen=-PERFECT),
    )
    if least is None:
        return [of_model, of_chance]
    of_truth = Criterion(
        title="score in truth",
        bound=least,
        needed=f">={least:.2f}",
        found=score,
        standing=Standing.of(
            is_met=are_enough and score.low >= least, is_missed=score.high < least
        ),
        label="POOR PLANS",
        p_value=mean_p_value(-truth, limit=-least, unseen=-PERFECT),
    )
    return [of_model, of_truth, of_chance]


def label_of(result: PlanQualityResult) -> str:
    """Return the gate's word for a result."""
    if result.faults:
        return "BROKEN"
    if is_flat(result):
        return "FLAT"
    criteria = criteria_of(result)
    missed = [one.label for one in criteria if one.standing is Standing.MISSED]
    if missed:
        # It comes first, and tells why plans are poor.
        return missed[0]
    is_open = any(one.standing is Standing.OPEN for one in criteria)
    return "UNCLEAR" if is_open or result.criteria.is_aa else "GOOD PLANS"


def is_flat(result: PlanQualityResult) -> bool:
    """Say whether most episodes have no decision in which edits matter, so that nothing is judged.

    A planner that sees no plan better than another chooses by nothing.
    """
    return 2 * episodes_known(result) < result.episodes or not criteria_of(result)


def episodes_known(result: PlanQualityResult) -> int:
    """Return how many episodes have edits that matter: of plans in both worlds, of random ones."""
    return min(len(result.worlds), len(result.chance))


def ruling_of(
    result: PlanQualityResult,
    max_verdict: MaxVerdict | None = None,  # noqa: ARG001
) -> Ruling:
    """Return what a result says; the same whatever a test accepts."""
    asked, label = result.criteria, label_of(result)
    check = SMOKE_TEST if asked.is_smoke else AA_CHECK if asked.is_aa else ""
    if check and not result.faults:
        return Ruling(label="UNCLEAR", severity=Severity.GOOD, check=check)
    return Ruling(
        label=label,
        severity=LABELS[label],
        reason=_reason(result, label),
        check=check,
    )


def _reason(result: PlanQualityResult, label: str) -> str | None:
    if label == "BROKEN":
        return result.faults[0]
    if label == "FLAT":
        return (
            f"edits of both chosen and random plans matter in {episodes_known(result)} of "
            f"{result.episodes} episodes, too few to judge it"
        )
    return None


def alarm_of(result: PlanQualityResult) -> Alarm:
    """Return what a result brings to the family of all gates."""
    return criterion.alarm_of(
        criteria_of(result),
        level=result.criteria.level,
        is_settled=label_of(result) != "UNCLEAR",
    )

"""Ruling: what the scores of plans say of a model, criterion by criterion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_cpg.gates.card import AA_CHECK, SMOKE_TEST, Ruling, Severity
from pytest_cpg.gates.kind import Alarm
from pytest_cpg.gates.plan_quality.result import AGREEING, PERFECT, PlanQualityResult
from pytest_cpg.stats import Interval
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One thing that is asked of plans.

    Attributes
    ----------
    title : str
        In at most 14 columns.
    needed : str
        Of its values, in at most 7 columns.
    found : Interval
    is_met, is_missed : bool
        Neither where its interval leaves that open. Few episodes that are alike meet nothing, as
        others may differ from all of them.
    label : str
        Of a result that misses it.
    p_value : float
        One-sided, of a model that only just meets it.
    """

    title: str
    needed: str
    found: Interval
    is_met: bool
    is_missed: bool
    label: str
    p_value: float

    @property
    def met(self) -> str:
        """Whether it is met, in the words of a table."""
        return "yes" if self.is_met else "no" if self.is_missed else "open"


def criteria_of(result: PlanQualityResult) -> tuple[Criterion, ...]:
    """Return what is asked of a result, and how it stands to each; none where nothing is known."""
    return tuple(_criteria(result))


def _criteria(result: PlanQualityResult) -> Iterator[Criterion]:
    asked, truth = result.criteria, result.truth.values
    worlds, chance = result.worlds.differences.values, result.chance.differences.values
    exploitation, score, above = result.exploitation, result.score, result.above_chance
    if exploitation is None or score is None or above is None:
        return
    most, least = asked.max_exploitation, asked.min_score
    are_enough = episodes_known(result) >= FEWEST_EPISODES_TO_CALL_ALIKE
    yield Criterion(
        title="exploitation",
        needed=f"<={most:.2f}",
        found=exploitation,
        is_met=are_enough and exploitation.high <= most,
        is_missed=exploitation.low > most,
        label="EXPLOITED",
        p_value=mean_p_value(worlds, limit=most, unseen=AGREEING),
    )
    if least is not None:
        yield Criterion(
            title="score in truth",
            needed=f">={least:.2f}",
            found=score,
            is_met=are_enough and score.low >= least,
            is_missed=score.high < least,
            label="POOR PLANS",
            p_value=mean_p_value(-truth, limit=-least, unseen=-PERFECT),
        )
    yield Criterion(
        title="above chance",
        needed="> 0",
        found=above,
        is_met=are_enough and above.low > 0,
        is_missed=above.high <= 0,
        label="POOR PLANS",
        p_value=mean_p_value(-chance, limit=0.0, unseen=-PERFECT),
    )


def label_of(result: PlanQualityResult) -> str:
    """Return the gate's word for a result."""
    if result.faults:
        return "BROKEN"
    if is_flat(result):
        return "FLAT"
    criteria = criteria_of(result)
    missed = [one.label for one in criteria if one.is_missed]
    if missed:
        # It comes first, and tells why plans are poor.
        return missed[0]
    is_open = any(not one.is_met for one in criteria)
    return "UNCLEAR" if is_open or result.criteria.is_aa else "GOOD PLANS"


def is_flat(result: PlanQualityResult) -> bool:
    """Say whether most episodes have no decision in which edits matter, so that nothing is judged.

    A planner that sees no plan better than another chooses by nothing.
    """
    return 2 * episodes_known(result) < result.episodes or not criteria_of(result)


def episodes_known(result: PlanQualityResult) -> int:
    """Return how many episodes have edits that matter: of plans in both worlds, of random ones."""
    return min(len(result.worlds), len(result.chance))


def ruling_of(result: PlanQualityResult) -> Ruling:
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
    """Return what a result brings to the family of all gates.

    The rate is of a model that only just meets one criterion, and the others with room to spare.
    """
    p_values = [one.p_value for one in criteria_of(result)] or [1.0]
    return Alarm(
        p_value=lambda: min(1.0, len(p_values) * min(p_values)),
        rate=(1 - result.criteria.level) / 2,
        is_settled=label_of(result) != "UNCLEAR",
    )

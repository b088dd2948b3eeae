"""Ruling: what the scores of plans say of a model, criterion by criterion."""

from __future__ import annotations

from typing import NamedTuple

from pytest_cpg.gates import criterion
from pytest_cpg.gates.card import AA_CHECK, SMOKE_TEST, Ruling, Severity
from pytest_cpg.gates.criterion import Criterion, Standing
from pytest_cpg.gates.kind import Alarm, MaxVerdict
from pytest_cpg.gates.plan_quality.result import AGREEING, PERFECT, PlanQualityResult
from pytest_cpg.stats.unseen import mean_interval, mean_p_value
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE

LABELS = {
    "NOT EXPLOITED": Severity.GOOD,
    "UNCLEAR": Severity.UNSURE,
    "FLAT": Severity.BLIND,
    "POOR PLANS": Severity.BAD,
    "EXPLOITED": Severity.BAD,
    "BROKEN": Severity.BROKEN,
}
"""The gate's words, best first."""
_SEARCH = "Search wider, look further ahead (horizon=), or give more steps (budget=)."


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
    return "UNCLEAR" if is_open or result.criteria.is_aa else "NOT EXPLOITED"


def is_flat(result: PlanQualityResult) -> bool:
    """Say whether in most episodes one changed action changes nothing, so that nothing is judged.

    A planner that sees no plan better than another chooses by nothing.
    """
    return 2 * episodes_known(result) < result.episodes or not criteria_of(result)


def episodes_known(result: PlanQualityResult) -> int:
    """Return how many episodes have plans, and random ones, that one changed action changes."""
    return min(len(result.worlds), len(result.chance))


def ruling_of(result: PlanQualityResult, max_verdict: MaxVerdict | None = None) -> Ruling:
    """Return what a result says to a test that accepts no verdict worse than this one.

    By default one that accepts what is not sure, as a marker does.
    """
    asked, label = result.criteria, label_of(result)
    check = SMOKE_TEST if asked.is_smoke else AA_CHECK if asked.is_aa else ""
    if check and not result.faults:
        return Ruling(label="UNCLEAR", severity=Severity.GOOD, check=check)
    blind = blindness(result)
    severity = Severity.BLIND if blind else LABELS[label]
    is_accepted = max_verdict is not None and severity <= max_verdict.severity
    reason = None if is_accepted or blind is None else blind.reason
    if result.faults:
        reason = result.faults[0]
    return Ruling(label=label, severity=severity, reason=reason, check=check)


class Blindness(NamedTuple):
    """Why a result that may pass says nothing of the model, and what to do.

    Attributes
    ----------
    brief, reason : str
        In at most 40 columns, and in one sentence.
    """

    brief: str
    reason: str
    advice: str


def blindness(result: PlanQualityResult) -> Blindness | None:
    """Return why a result says nothing of the model; None where it does, and where it fails.

    Of plans that lead nowhere, of random plans, or of a model that knows nothing it would have said
    the same.
    """
    if result.faults:
        return None
    if is_flat(result):
        return Blindness(
            "no changed action changes the score",
            f"changing one action of a plan changes what it is worth in only "
            f"{episodes_known(result)} of {result.episodes} episodes, so plans cannot be compared",
            "Rate plans by something that every step changes, such as a distance to the goal, or "
            "look further ahead (horizon=).",
        )
    if LABELS[label_of(result)] >= Severity.BLIND:
        return None
    asked, random, above = result.criteria, result.chance.second, result.above_chance
    if above is not None and above.low <= 0:
        few = result.episodes < FEWEST_EPISODES_TO_CALL_ALIKE
        return Blindness(
            "random plans would have passed",
            f"random plans would have passed: they score {random.mean():.2f} in truth, and chosen "
            f"ones {result.chance.first.mean():.2f} at the same decisions",
            f"Run at least {FEWEST_EPISODES_TO_CALL_ALIKE} episodes." if few else _SEARCH,
        )
    if not result.solved and asked.has_goal:
        return Blindness(
            f"the plans solve 0 of {result.episodes} starts",
            f"the plans solve 0 of {result.episodes} starts: that their neighbours are no better "
            f"does not make them good",
            f"Judge the same model by pytest.mark.cpg. Where the true dynamics solve as little: "
            f"{_SEARCH[:1].lower()}{_SEARCH[1:]}",
        )
    ignorant, truth = 1 - random, mean_interval(random, unseen=PERFECT, level=asked.level)
    p_value = mean_p_value(ignorant, limit=asked.max_exploitation, unseen=AGREEING)
    if p_value < (1 - asked.level) / 2 or truth.high < (asked.min_score or 0.0):
        return None
    return Blindness(
        "any model would have passed",
        f"a model that knows nothing would have passed: its plans are worth what random ones are, "
        f"{random.mean():.2f} in truth, so that it is exploited by {ignorant.mean():.2f}, and the "
        f"limit is {asked.max_exploitation:g}",
        "Write a smaller max_exploitation, such as 0.1, or run more episodes.",
    )


def alarm_of(result: PlanQualityResult) -> Alarm:
    """Return what a result brings to the family of all gates."""
    return criterion.alarm_of(
        criteria_of(result),
        level=result.criteria.level,
        is_settled=label_of(result) != "UNCLEAR",
    )

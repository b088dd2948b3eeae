"""Explanation: what a verdict means, and what to do about it."""

from __future__ import annotations

import re
from typing import NamedTuple

from pytest_cpg.gates.notation import number, percentage, with_ends
from pytest_cpg.gates.planning_gap.cause import Cause, advice_on_score
from pytest_cpg.gates.planning_gap.forecast import (
    episodes_to_see,
    is_strong,
    settling,
)
from pytest_cpg.gates.planning_gap.result import (
    GateResult,
    arm_name,
    highest_rate_of,
    possible_return_gap,
    reached,
    shared_returns,
    worst_of_chance,
)
from pytest_cpg.gates.planning_gap.ruling import blindness, ruling_of
from pytest_cpg.gates.presets import preset_of
from pytest_cpg.stats import Verdict

_AT_FAULT = "The gate is at fault, not the model: with the true dynamics this planner solves"


class Told(NamedTuple):
    """What a verdict means, and what to do about one that is not good: paragraphs."""

    meaning: list[str]
    advice: list[str]


def told(result: GateResult, accepts: Verdict) -> Told:
    """Return what a result means to a test that accepts no verdict worse than this one."""
    is_fault = ruling_of(result, accepts).reason in result.faults
    faults = list(result.faults) if is_fault else []
    oracle, chance, metric = result.oracle, result.chance, result.design.metric
    is_accepted = accepts.severity >= Verdict.PLANNER_BOTTLENECK.severity
    how_to_accept = (
        ' To accept a gate that cannot see the model, write max_verdict="PLANNER BOTTLENECK".'
    ) * (not is_accepted)
    if result.is_oracle_too_weak:
        text = (
            f"{_AT_FAULT} {reached(oracle, 'success')} starts, a rate of at most "
            f"{highest_rate_of(oracle):.3f}, and min_oracle asks for {result.min_oracle:g}. A "
            f"planner this weak hides what a model gets wrong."
        )
        return Told([*faults, text], [_mend_planner(result)])
    if blindness(result, accepts) is not None:
        does, unit = ("earn", " a start") if metric == "return" else ("solve", " starts")
        by_chance, planned = (reached(arm, metric).removesuffix(unit) for arm in (chance, oracle))
        text = (
            f"The gate is blind: a model that knows nothing would have passed, too. Random actions "
            f"{does} {by_chance}{unit}, and the planner {planned} with the true dynamics."
        )
        return Told([*faults, text], [_mend_blindness(result) + how_to_accept])
    if result.is_aa:
        text = (
            "This is an A/A check: the true dynamics ran in both arms, and no model was judged. A "
            "gap would be of the gate's own making."
        )
        return Told([*faults, text], [])
    if is_fault:
        return Told(faults, [])
    advice = []
    if result.verdict is Verdict.PLANNER_BOTTLENECK:
        advice = [(_mend_margin(result) or _mend_planner(result)) + how_to_accept]
    elif result.verdict is Verdict.MODEL_BOTTLENECK:
        advice = [_advice_on_gap(result)]
    elif result.label == Verdict.INCONCLUSIVE:
        advice = [settling(result).advice]
    return Told([_meaning(result)], advice)


def _meaning(result: GateResult) -> str:
    """Say what the verdict of a gate that sees means."""
    metric, margin, verdict = result.design.metric, result.margin, result.verdict
    arms = (result.oracle, result.learned, result.chance)
    oracle, learned, _ = (reached(arm, metric).removesuffix(" a start") for arm in arms)
    high, of_success = number(result.interval.high, metric), metric == "success"
    is_within = margin is not None and result.interval.high < margin
    if verdict is Verdict.MODEL_BOTTLENECK:
        solves = f"solves {oracle} starts" if of_success else f"earns {oracle} a start"
        fails = f": the model fails {result.pairs.oracle_only} starts that the true dynamics solve"
        shared = ["planner"] * ("planner" not in result.swapped) + ["starts", "noise"]
        shared += ["score"] * {"dynamics", "planner"}.issuperset(result.swapped)
        same = f"{', '.join(shared[:-1])} and {shared[-1]}".capitalize()
        return (
            f"With the true dynamics this planner {solves}, with the learned ones {learned}"
            f"{fails * of_success}. {same} were the same, so the loss is the model's."
        )
    if verdict is Verdict.LEARNED_OUTPERFORMS_ORACLE:
        better = f"plans better than the true dynamics (oracle {oracle}, learned {learned})"
        if not of_success:
            better = f"earns more than the true dynamics ({learned} against {oracle} a start)"
        return f"The learned model {better}; a smoother or more optimistic model can do that."
    if verdict is Verdict.PLANNER_BOTTLENECK:
        lead = f"{_AT_FAULT} {oracle} starts"
        if margin is not None:
            within = f"losing all of them would stay within the margin of {margin:g}"
            return f"{lead}, so that {within}."
        alike = " Random actions look the same." * (result.chance_verdict is verdict)
        return f"{lead}, near none by the tolerance of {result.tolerance:g}.{alike}"
    if verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE:
        if of_success:
            return f"Both arms solve nearly every start (oracle {oracle}, learned {learned})."
        lost = f"less than the margin of {margin:g} is lost"
        return f"The model earns {learned} a start, the oracle {oracle}: {lost}."
    if not of_success and is_within:
        worst = f"{worst_of_chance(result.oracle, result.chance):.4g}"
        possible = number(possible_return_gap(*arms, level=result.interval.level), "return")
        return (
            f"These {result.learned.episodes} starts lose at most {high} in the mean, less than "
            f"the margin of {margin:g}. Starts that were not run may lose more: if some lose "
            f"{worst}, as random actions do at worst, the mean loss may be {possible}."
        )
    if not of_success:
        return (
            f"These episodes do not show whether the model loses: the oracle earns {oracle} a "
            f"start, the model {learned}, and a loss of {high} is possible."
        )
    if is_within:
        return (
            f"The model loses less than the margin of {margin:g}. But the oracle solves {oracle} "
            f"starts, a rate that may be {result.oracle.interval.low:.2f}: a model that loses all "
            f"of them could go unseen."
        )
    if margin is not None:
        return (
            f"margin={margin:g} asks for proof that the model loses less than that, and a loss "
            f"of {high} is still possible (oracle {oracle}, learned {learned})."
        )
    if result.gap == 0:
        few = "too few to say that the model loses nothing"
        return f"Both arms solve as many starts ({oracle}): {few}."
    return (
        f"Chance could explain the difference between {learned} starts solved with the model and "
        f"{oracle} with the true dynamics."
    )


def beside_meaning(result: GateResult, accepts: Verdict) -> list[str]:
    """Return paragraphs: where the gap comes from, and what to know."""
    # A fault is told whatever else a gate fails by, and whatever cause is named.
    is_fault = ruling_of(result, accepts).reason in result.faults
    paragraphs = [*([] if is_fault else result.faults), loss_split(result), exploited(result)]
    dead_ends = in_dead_ends(result)
    if dead_ends and all(dead_ends not in text for text in told(result, accepts).advice):
        paragraphs.append(dead_ends)
    return [*filter(None, paragraphs), *(f"{note}." for note in result.notes)]


def in_dead_ends(result: GateResult) -> str:
    """Say that the score leads the oracle into dead ends, and what to do; else nothing."""
    ends, name = result.dead_ends, result.design.task
    if ends is None or not ends.are_usual:
        return ""
    preset = preset_of(name)
    measure = "distance to the goal" if ends.is_flat else "length of the shortest path"
    cure = f"a function of observations, such as the {measure}"
    if preset is not None and "score" in preset.named and ",score=" not in name:
        cure = (
            f',score={preset.named["score"]} behind its name, with which planner="preset" solves '
            f"{preset.solved} of {preset.starts} starts, or {cure}"
        )
    elif name.startswith("gym:") and ",score=" not in name:
        cure = f",score=path behind the name of an environment that shows its map, or {cure}"
    if ends.is_flat:
        return (
            f"The score leads nowhere: in all of {ends.tried} failed starts that were looked at it "
            f"is the same at every step, so no plan is better than another. Give the task a score "
            f"that falls on the way to the goal: {cure}."
        )
    cure = f"Give the task a score that leads around: {cure}"
    if "(goals=" in name or ", goals=" in name:
        cure = "Draw goals that are nearer (offset), or judge them by other columns"
    return (
        f"The score leads into dead ends: of {ends.tried} failed starts that were looked at, the "
        f"oracle stays in {ends.met} where no plan of {result.design.horizon} steps lowers it, "
        f"as behind a wall. {cure}. Or look farther ahead (horizon)."
    )


def exploited(result: GateResult) -> str:
    """Say what plans promise and do not keep where no cause is named; else nothing."""
    interval, diagnosis = result.exploitation, result.diagnosis
    is_told = diagnosis is None or diagnosis.named or diagnosis.is_misread
    if interval is None or interval.low <= 0 or is_told:
        return ""
    return (
        f"the planner's plans are better in the model than in truth (exploitation "
        f"{with_ends(interval)}). Train on the episodes of this planner, too; a gate marked "
        f"cpg_plan_quality shows where they are worst."
    )


def loss_split(result: GateResult) -> str:
    """Say how much of a gap is lost by a model's own score, if any, and how much by the rest."""
    arm, metric = result.rescored, result.design.metric
    scoring, dynamics = result.scoring_loss, result.dynamics_loss
    if arm is None or scoring is None or dynamics is None:
        return ""
    others = [part for part in result.swapped if part in ("dynamics", "planner")]
    of_score = [part for part in result.swapped if part not in others]
    parts = (
        f"{number(loss.estimate, metric)} [{number(loss.low, metric)}, "
        f"{number(loss.high, metric)}] is lost by its {' and '.join(names)}"
        for loss, names in ((scoring, of_score), (dynamics, others))
    )
    rate = "" if metric == "return" else f" {arm.success_rate:.2f}"
    return (
        f"{arm_name(arm)} {reached(arm, metric)}{rate}: with the true dynamics, and "
        f"plans rated as the model rates them. Of the gap, {', '.join(parts)} "
        f"({re.sub(r' [0-9]{4}', '', scoring.method)} {percentage(scoring.level)})."
    )


def _mend_blindness(result: GateResult) -> str:
    earned, by_chance = shared_returns(result.oracle, result.chance)
    if result.design.metric == "return" and (earned == by_chance).all():
        return (
            f"Random actions earn at every start what the planner earns: as long as nothing that "
            f"is done changes the return, no model can be judged by it. Choose a reward that "
            f"actions change, more steps (budget, now {result.design.budget}) if it comes later, "
            f'or metric="success".'
        )
    too_wide = _mend_margin(result)
    if too_wide:
        return too_wide
    mend = (
        "Choose a task, starts or a goal that random actions fail (fewer steps by "
        'budget, a stricter threshold), or judge metric="return".'
    )
    if not is_strong(result):
        mend = _mend_planner(result)
    needed = episodes_to_see(result)
    if needed is not None:
        option = "episodes" if result.stop == "fixed" else "max-episodes"
        mend += (
            f" Or make it larger: at these rates about {needed} episodes tell the oracle from "
            f"random actions -> --cpg-{option}={needed} --cpg-seed={result.seed + 1}."
        )
    return mend


def _mend_margin(result: GateResult) -> str:
    """Say what margin would be small enough; empty where it is not what blinds a gate."""
    adds, margin, metric = result.oracle_over_chance, result.margin, result.design.metric
    if margin is None or not 0 < adds <= margin:
        return ""
    if metric == "success" and not is_strong(result):
        return ""
    # A fifth takes some twenty starts to prove.
    return (
        f"The margin of {margin:g} is as wide as all that the oracle adds to random actions "
        f"({number(adds, metric)}): a model that knows nothing loses no more. Write a smaller one, "
        f"such as margin={adds / 5:.2g}."
    )


def _mend_planner(result: GateResult) -> str:
    """Say what would make a planner that solves the task; first what is known to solve it."""
    diagnosis, design = result.diagnosis, result.design
    preset = preset_of(design.task)
    # What a preset solves by the task's own score is no fault of the score.
    if (dead_ends := in_dead_ends(result)) and (preset is None or preset.named):
        return dead_ends
    # A diagnosis tries four times the search, and names it where that helps.
    may_search = diagnosis is None or Cause.PLANNER in (diagnosis.cause, diagnosis.second)
    other = "" if design.planner.startswith("ICEM(") else ', or planner="icem"'
    search = f"search wider (more candidates{other}), " * may_search
    mend = (
        f"ook farther ahead (horizon, now {design.horizon}), {search}give more steps (budget, now "
        f"{design.budget}), or choose an easier task."
    )
    if preset is None:
        return f"L{mend}"
    return (
        f'With planner="preset" and no other settings the true dynamics solve {preset.solved} of '
        f"{preset.starts} starts of {design.task}. Or l{mend}"
    )


def _advice_on_gap(result: GateResult) -> str:
    diagnosis, scoring, dynamics = result.diagnosis, result.scoring_loss, result.dynamics_loss
    if diagnosis is not None and diagnosis.is_misread:
        return "It is asked or read otherwise than it was trained: mend that first."
    # By the diagnosis, or else by the third arm.
    loses_by_score = (
        scoring is not None and dynamics is not None and scoring.low > 0 >= dynamics.low
    )
    if diagnosis is not None and diagnosis.cause != Cause.NONE:
        loses_by_score = diagnosis.cause == Cause.SCORE_HEAD
    if loses_by_score:
        return f"What loses is how it rates plans. {advice_on_score(result.swapped)}"
    compare = "Compare its predictions with the simulator along the oracle's plans"
    # Nothing was rated by it but plans: no arm tells its score from its dynamics.
    if "score" in result.swapped and result.rescored is None:
        return (
            f"{compare}. Where they are right, what loses is how it rates plans, as a distance "
            f"that ends at a wall does: read its predictions by a decode, which the task's score "
            f"rates."
        )
    if result.design.metric == "return":
        return f"{compare}, and train on states the planner visits."
    return (
        f"{compare} in the lost episodes, and train on states the planner visits; a lower "
        f"validation error on the old data need not help."
    )

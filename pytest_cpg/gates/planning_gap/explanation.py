"""Explanation: what a verdict means, and what to do about it."""

from __future__ import annotations

import re

from pytest_cpg.gates.notation import number, percentage, with_ends
from pytest_cpg.gates.planning_gap.cause import Cause, advice_on_score
from pytest_cpg.gates.planning_gap.notation import arm_name, reached
from pytest_cpg.gates.planning_gap.resolving import (
    episodes_to_see,
    is_strong,
    resolve_hint,
    sees_alone,
)
from pytest_cpg.gates.planning_gap.result import (
    GateResult,
    highest_rate_of,
    possible_return_gap,
    worst_of_chance,
)
from pytest_cpg.gates.planning_gap.ruling import blindness, failure_reason
from pytest_cpg.gates.presets import PRESETS
from pytest_cpg.stats import Verdict


def meaning(result: GateResult, accepts: Verdict) -> list[str]:
    """Return paragraphs: what the verdict means."""
    is_fault = failure_reason(result, accepts) in result.faults
    paragraphs = list(result.faults) if is_fault else []
    if result.is_oracle_too_weak:
        sentence = _TOO_WEAK
    elif blindness(result, accepts) is not None:
        sentence = _BLIND_RETURNS if result.design.metric == "return" else _BLIND
    elif result.is_aa:
        sentence = _MEANING_OF_AA
    elif is_fault:
        return paragraphs
    else:
        sentence = _meaning(result)
    return [*paragraphs, sentence.format(**_numbers(result))]


def advice(result: GateResult, accepts: Verdict) -> list[str]:
    """Return paragraphs: what to do about a result that is not good."""
    if result.is_oracle_too_weak:
        return [_mend_planner(result)]
    if blindness(result, accepts) is not None:
        return [_mend_blindness(result) + _how_to_accept(accepts)]
    if result.is_aa or failure_reason(result, accepts) in result.faults:
        return []
    if result.verdict is Verdict.PLANNER_BOTTLENECK:
        return [(_mend_margin(result) or _mend_planner(result)) + _how_to_accept(accepts)]
    if result.verdict is Verdict.MODEL_BOTTLENECK:
        return [_advice(result)]
    return [resolve_hint(result)] if result.label == Verdict.INCONCLUSIVE else []


def beside_meaning(result: GateResult, accepts: Verdict) -> list[str]:
    """Return paragraphs: where the gap comes from, and what to know."""
    # A fault is told whatever else a gate fails by, and whatever cause is named.
    is_fault = failure_reason(result, accepts) in result.faults
    paragraphs = [*([] if is_fault else result.faults), loss_split(result), exploited(result)]
    return [*filter(None, paragraphs), *(f"{note}." for note in result.notes)]


def exploited(result: GateResult) -> str:
    """Say what plans promise and do not keep where no cause is named; else nothing."""
    interval, diagnosis = result.exploitation, result.diagnosis
    if interval is None or diagnosis is None or diagnosis.named or diagnosis.is_misread:
        return ""
    if interval.low <= 0:
        return ""
    return (
        f"the planner's plans are better in the model than in truth (exploitation "
        f"{with_ends(interval)}). Train on the episodes of this planner; a gate marked "
        f"cpg_plan_quality shows where they are worst."
    )


def loss_split(result: GateResult) -> str:
    """Say how much of a gap is lost by a model's own score, and how much by what it imagines.

    Empty where it has no score of its own.
    """
    arm, scoring, dynamics = result.rescored, result.scoring_loss, result.dynamics_loss
    if arm is None or scoring is None or dynamics is None:
        return ""
    own = [part for part in result.swapped if part not in ("dynamics", "planner")]
    others = [part for part in result.swapped if part not in own]
    parts = (
        f"{number(loss.estimate, result.design.metric)} [{number(loss.low, result.design.metric)}, "
        f"{number(loss.high, result.design.metric)}] is lost by its {' and '.join(names)}"
        for loss, names in ((scoring, own), (dynamics, others))
    )
    rate = "" if result.design.metric == "return" else f" {arm.success_rate:.2f}"
    return (
        f"{arm_name(arm)} {reached(arm, result.design.metric)}{rate}: with the true dynamics, and "
        f"plans rated as the model rates them. Of the gap, {', '.join(parts)} "
        f"({re.sub(r' [0-9]{4}', '', scoring.method)} {percentage(scoring.level)})."
    )


def _mend_blindness(result: GateResult) -> str:
    """Say what would make a gate see, by what blinds it."""
    if result.design.metric == "return" and _is_flat(result):
        return _MEND_FLAT.format(**_numbers(result))
    too_wide = _mend_margin(result)
    if too_wide:
        return too_wide
    mend = _MEND_TASK if is_strong(result) else _mend_planner(result)
    if sees_alone(result):
        mend = _MEND_FAMILY.format(gates=result.family_size) + mend
    needed = episodes_to_see(result)
    if needed is not None:
        option = "episodes" if result.stop == "fixed" else "max-episodes"
        mend += _MEND_SIZE.format(needed=needed, option=option, seed=result.seed + 1)
    return mend


def _is_flat(result: GateResult) -> bool:
    """Say whether random actions earned at every start what the planner did."""
    shared = min(result.oracle.episodes, result.chance.episodes)
    return bool((result.oracle.returns[:shared] == result.chance.returns[:shared]).all())


def _mend_margin(result: GateResult) -> str:
    """Say what margin would be small enough; empty where it is not what blinds a gate.

    Random actions lose more than it there, or the oracle solves too little to have one.
    """
    adds, by_return = result.oracle_over_chance, result.design.metric == "return"
    if result.margin is None or not 0 < adds <= result.margin:
        return ""
    if not by_return and not is_strong(result):
        return ""
    # A fifth takes some twenty starts to prove.
    return _MEND_MARGIN.format(
        margin=f"{result.margin:g}",
        adds=number(adds, result.design.metric),
        smaller=f"{adds / 5:.2g}",
    )


def _mend_planner(result: GateResult) -> str:
    """Say what would make a planner that solves the task; first what is known to solve it."""
    diagnosis, preset = result.diagnosis, PRESETS.get(result.design.task)
    # A diagnosis tries four times the search, and names it where that helps.
    may_search = diagnosis is None or Cause.PLANNER in (diagnosis.cause, diagnosis.second)
    search = _MEND_SEARCH if may_search else ""
    mend = _MEND.format(search=search, **_numbers(result))
    if preset is None:
        return mend
    solved = _PRESET.format(solved=preset.solved, task=result.design.task)
    return f"{solved} Or {mend[:1].lower()}{mend[1:]}"


def _how_to_accept(accepts: Verdict) -> str:
    """Return what a test writes that accepts a gate at fault; empty where it does already."""
    is_accepted = accepts.severity >= Verdict.PLANNER_BOTTLENECK.severity
    return "" if is_accepted else _ACCEPT_BLIND


def _meaning(result: GateResult) -> str:
    if result.design.metric == "return":
        if result.verdict is Verdict.INCONCLUSIVE and _is_within_margin(result):
            return _MEANING_OF_UNSEEN
        return _MEANING_OF_RETURNS.get(result.verdict, _MEANING[result.verdict])
    if result.margin is not None and result.verdict in _MEANING_WITH_MARGIN:
        if result.verdict is Verdict.INCONCLUSIVE and _is_within_margin(result):
            return _MEANING_OF_OPEN_ORACLE
        return _MEANING_WITH_MARGIN[result.verdict]
    if result.verdict is Verdict.INCONCLUSIVE and result.gap == 0:
        return _EQUAL
    return _MEANING[result.verdict]


def _is_within_margin(result: GateResult) -> bool:
    return result.margin is not None and result.interval.high < result.margin


def _numbers(result: GateResult) -> dict[str, str]:
    oracle, learned, chance = result.oracle, result.learned, result.chance
    by_margin = result.margin is not None and result.design.metric == "return"
    level, possible = result.interval.level, 0.0
    if by_margin:
        possible = possible_return_gap(oracle, learned, chance, level=level)
    is_as_chance = result.chance_verdict is Verdict.PLANNER_BOTTLENECK
    return {
        "oracle": f"{oracle.success_count}/{oracle.episodes}",
        "learned": f"{learned.success_count}/{learned.episodes}",
        "chance": f"{chance.success_count}/{chance.episodes}",
        "oracle_return": f"{oracle.returns.mean():.4g}",
        "learned_return": f"{learned.returns.mean():.4g}",
        "chance_return": f"{chance.returns.mean():.4g}",
        "lost": str(result.pairs.oracle_only),
        "horizon": str(result.design.horizon),
        "budget": str(result.design.budget),
        "bound": f"{highest_rate_of(oracle):.3f}",
        "least": f"{oracle.interval.low:.2f}",
        "wanted": f"{result.min_oracle:g}" if result.min_oracle is not None else "",
        "margin": f"{result.margin:g}" if result.margin is not None else "",
        "high": number(result.interval.high, result.design.metric),
        "tolerance": f"{result.tolerance:g}",
        "as_chance": " Random actions look the same." if is_as_chance else "",
        "worst": f"{worst_of_chance(oracle, chance):.4g}",
        "starts": str(learned.episodes),
        "possible": number(possible, "return") if by_margin else "",
        "same": _same_in_both(result),
    }


def _advice(result: GateResult) -> str:
    """Say what to do about a gap, as far as it is known why it is there."""
    if result.diagnosis is not None and result.diagnosis.is_misread:
        return _ADVICE_ON_READING
    if _loses_by_score(result):
        return f"What loses is how it rates plans. {advice_on_score(result.swapped)}"
    return _ADVICE[result.design.metric]


def _loses_by_score(result: GateResult) -> bool:
    """Say whether the model's own score is at fault, and not what it imagines.

    So says the diagnosis where it names a cause, and else the third arm, where the score is shown
    to lose something and the dynamics are not.
    """
    if result.diagnosis is not None and result.diagnosis.cause != Cause.NONE:
        return result.diagnosis.cause == Cause.SCORE_HEAD
    scoring, dynamics = result.scoring_loss, result.dynamics_loss
    if scoring is None or dynamics is None:
        return False
    return scoring.low > 0 >= dynamics.low


def _same_in_both(result: GateResult) -> str:
    """Name what the oracle and learned arms shared, to begin a sentence with."""
    *shared, last = [
        what
        for what, is_shared in (
            ("planner", "planner" not in result.swapped),
            ("starts", True),
            ("noise", True),
            ("score", {"dynamics", "planner"}.issuperset(result.swapped)),
        )
        if is_shared
    ]
    return f"{', '.join(shared)} and {last}".capitalize()


_MEANING_OF_AA = (
    "This is an A/A check: the true dynamics ran in both arms, and no model was judged. A gap "
    "would be of the gate's own making."
)
_PRESET = (
    'With planner="preset" and no other settings the true dynamics solve {solved} of 100 starts of '
    "{task}."
)
_MEND = (
    "Look farther ahead (horizon, now {horizon}), {search}give more steps (budget, now {budget}), "
    "or choose an easier task."
)
_MEND_SEARCH = 'search wider (more candidates, or planner="icem"), '
_MEND_FAMILY = (
    "Alone the gate would see: as one of {gates} that share an error rate, it has to tell random "
    "actions from the oracle more surely. "
)
_MEND_MARGIN = (
    "The margin of {margin} is as wide as all that the oracle adds to random actions ({adds}): a "
    "model that knows nothing loses no more. Write a smaller one, such as margin={smaller}."
)
_MEND_FLAT = (
    "Random actions earn at every start what the planner earns: as long as nothing that is done "
    "changes the return, no model can be judged by it. Choose a reward that actions change, more "
    'steps (budget, now {budget}) if it comes later, or metric="success".'
)
_MEND_TASK = (
    "Choose a task, starts or a goal that random actions fail (fewer steps by "
    'budget, a stricter threshold), or judge metric="return".'
)
_MEND_SIZE = (
    " Or make it larger: at these rates about {needed} episodes tell the oracle from random "
    "actions -> --cpg-{option}={needed} --cpg-seed={seed}."
)
_ACCEPT_BLIND = (
    ' To accept a gate that cannot see the model, write max_verdict="PLANNER BOTTLENECK".'
)
_BLIND = (
    "The gate is blind: a model that knows nothing would have passed, too. Random actions solve "
    "{chance} starts, and the planner {oracle} with the true dynamics."
)
_BLIND_RETURNS = (
    "The gate is blind: a model that knows nothing would have passed, too. Random actions earn "
    "{chance_return} a start, and the planner {oracle_return} with the true dynamics."
)
_TOO_WEAK = (
    "The gate is at fault, not the model: with the true dynamics this planner solves {oracle} "
    "starts, a rate of at most {bound}, and min_oracle asks for {wanted}. A planner this weak "
    "hides what a model gets wrong."
)
_ADVICE = {
    "success": (
        "Compare its predictions with the simulator along the oracle's plans in the lost episodes, "
        "and train on states the planner visits; a lower validation error on the old data need not "
        "help."
    ),
    "return": (
        "Compare its predictions with the simulator along the oracle's plans, and train on states "
        "the planner visits."
    ),
}
_ADVICE_ON_READING = "It is asked or read otherwise than it was trained: mend that first."
_MEANING = {
    Verdict.MODEL_BOTTLENECK: (
        "With the true dynamics this planner solves {oracle} starts, with the learned ones "
        "{learned}: the model fails {lost} starts that the true dynamics solve. {same} were the "
        "same, so the loss is the model's."
    ),
    Verdict.PLANNER_BOTTLENECK: (
        "The gate is at fault, not the model: with the true dynamics this planner solves {oracle} "
        "starts, near none by the tolerance of {tolerance}.{as_chance}"
    ),
    Verdict.INCONCLUSIVE: (
        "Chance could explain the difference between {learned} starts solved with the model and "
        "{oracle} with the true dynamics."
    ),
    Verdict.MODEL_AS_GOOD_AS_ORACLE: (
        "Both arms solve nearly every start (oracle {oracle}, learned {learned})."
    ),
    Verdict.LEARNED_OUTPERFORMS_ORACLE: (
        "The learned model plans better than the true dynamics (oracle {oracle}, learned "
        "{learned}); a smoother or more optimistic model can do that."
    ),
}
_EQUAL = "Both arms solve as many starts ({oracle}): too few to say that the model loses nothing."
_MEANING_WITH_MARGIN = {
    Verdict.INCONCLUSIVE: (
        "margin={margin} asks for proof that the model loses less than that, and a loss of {high} "
        "is still possible (oracle {oracle}, learned {learned})."
    ),
    Verdict.PLANNER_BOTTLENECK: (
        "The gate is at fault, not the model: with the true dynamics this planner solves {oracle} "
        "starts, so that losing all of them would stay within the margin of {margin}."
    ),
}
_MEANING_OF_OPEN_ORACLE = (
    "The model loses less than the margin of {margin}. But the oracle solves {oracle} starts, a "
    "rate that may be {least}: a model that loses all of them could go unseen."
)
_MEANING_OF_RETURNS = {
    Verdict.MODEL_BOTTLENECK: (
        "With the true dynamics this planner earns {oracle_return} a start, with the learned ones "
        "{learned_return}. {same} were the same, so the loss is the "
        "model's."
    ),
    Verdict.INCONCLUSIVE: (
        "These episodes do not show whether the model loses: the oracle earns {oracle_return} a "
        "start, the model {learned_return}, and a loss of {high} is possible."
    ),
    Verdict.MODEL_AS_GOOD_AS_ORACLE: (
        "The model earns {learned_return} a start, the oracle {oracle_return}: less than the "
        "margin of {margin} is lost."
    ),
    Verdict.LEARNED_OUTPERFORMS_ORACLE: (
        "The learned model earns more than the true dynamics ({learned_return} against "
        "{oracle_return} a start); a smoother or more optimistic model can do that."
    ),
}
_MEANING_OF_UNSEEN = (
    "These {starts} starts lose at most {high} in the mean, less than the margin of {margin}. "
    "Starts that were not run may lose more: if some lose {worst}, as random actions do at worst, "
    "the mean loss may be {possible}."
)

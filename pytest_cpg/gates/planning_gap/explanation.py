"""Explanation: what a verdict means, what to do about it, and what would resolve it."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from pytest_cpg.gates.diagnosis import Cause, advice_on_score
from pytest_cpg.gates.notation import arm_name, number, percentage
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.ruling import blindness, episodes_to_bound_oracle
from pytest_cpg.gates.planning_gap.stopping import level_of_last_look
from pytest_cpg.stats import (
    FEWEST_EPISODES_TO_CALL_ALIKE,
    Verdict,
    anytime_episodes_to_resolve,
    episodes_to_prove_margin,
    episodes_to_resolve,
    paired_episodes_to_prove_margin,
    paired_episodes_to_resolve,
)

if TYPE_CHECKING:
    from pytest_cpg.gates.planning_gap.compare import Comparison

# Nobody runs more.
_MOST_EPISODES = 10_000
# The most that marker.py lets a sequential gate have.
_MOST_SEQUENTIAL = 1000


def explanation(
    result: GateResult, max_verdict: Verdict, *, fault: bool, drift: Comparison | None
) -> list[str]:
    """Return paragraphs: what the verdict means, what to do, what to know."""
    paragraphs = list(result.faults)
    is_blind = blindness(result, max_verdict) is not None
    if drift is not None:
        paragraphs.append(_DRIFT[drift.label == "INCOMPARABLE"])
    elif result.is_oracle_too_weak:
        paragraphs.append(_TOO_WEAK.format(**_numbers(result)))
    elif is_blind:
        paragraphs.append(_meaning_of_blindness(result) + _how_to_accept(max_verdict))
    elif result.is_aa:
        paragraphs.append(_MEANING_OF_AA)
    elif not fault:
        meaning = _meaning(result).format(**_numbers(result))
        is_gates_fault = result.verdict is Verdict.PLANNER_BOTTLENECK
        paragraphs.append(meaning + _how_to_accept(max_verdict) * is_gates_fault)
    split = loss_split(result)
    if split:
        paragraphs.append(split)
    if result.label == Verdict.INCONCLUSIVE and not is_blind:
        paragraphs.append(resolve_hint(result))
    return paragraphs + [f"Note: {note}." for note in result.notes]


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
        f"{number(loss.estimate, result.metric)} [{number(loss.low, result.metric)},"
        f"{number(loss.high, result.metric)}] is lost by its {' and '.join(names)}"
        for loss, names in ((scoring, own), (dynamics, others))
    )
    reached = f"{arm.success_count}/{arm.episodes} {arm.success_rate:.2f}"
    if result.metric == "return":
        reached = f"{arm.returns.mean():.4g} a start"
    return (
        f"{arm_name(arm)} {reached}: with the true dynamics, and plans rated as the model rates "
        f"them. Of the gap, {', '.join(parts)} ({re.sub(r' [0-9]{4}', '', scoring.method)} "
        f"{percentage(scoring.level)})."
    )


def resolve_hint(result: GateResult) -> str:
    """Say how many more episodes would resolve an INCONCLUSIVE gate at these rates.

    On new starts: whoever adds to the same ones until they tell the arms apart is told so by chance
    more often than the level says.
    """
    episodes = result.learned.episodes
    option = "episodes" if result.stop == "fixed" else "max-episodes"
    if result.chance_verdict not in (None, Verdict.MODEL_BOTTLENECK) and not _is_strong(result):
        return (
            "resolve: even the true dynamics are not told from random actions; mend the gate "
            "before it is given more episodes"
        )
    if result.metric == "success" and episodes < FEWEST_EPISODES_TO_CALL_ALIKE:
        return (
            f"resolve: below {FEWEST_EPISODES_TO_CALL_ALIKE} episodes no two rates are called "
            f"alike -> --cpg-{option}=50"
        )
    wanted = "prove the margin" if result.margin is not None else "tell them apart"
    of_success = result.metric == "success"
    if result.margin is None and (result.gap if of_success else result.interval.estimate) == 0:
        equal, unit = ("rates", "0.1") if of_success else ("mean returns", "5, in units of return")
        return (
            f"resolve: the {equal} are equal, so there is no gap to find; margin= (such as {unit}) "
            f"asks for proof that the model loses less than that"
        )
    if result.stop == "anytime" and result.margin is not None:
        return f"resolve: a larger --cpg-{option}, or a rule that looks less often, may {wanted}"
    most = _MOST_SEQUENTIAL if result.stop == "sequential" else _MOST_EPISODES
    needed, bounded = _episodes_needed(result), episodes_to_bound_oracle(result)
    if needed is None or bounded is None or max(needed, bounded) > most:
        return f"resolve: at these rates no {most} episodes per arm would {wanted}"
    more = max(needed - episodes, bounded - episodes, 1)
    return (
        f"resolve: about {more} more episode{'s'[: more != 1]} per arm at these rates -> "
        f"--cpg-{option}={episodes + more} --cpg-seed={result.seed + 1}"
    )


def _episodes_needed(result: GateResult) -> int | None:
    """Return the episodes per arm at which what was observed would be enough."""
    level, margin = result.interval.level, result.margin
    if result.metric == "return":
        return _starts_needed(result)
    if margin is not None and result.gap >= margin:
        margin = None
    if result.stop == "anytime":
        return anytime_episodes_to_resolve(
            oracle_only=result.pairs.oracle_only,
            learned_only=result.pairs.learned_only,
            episodes=result.learned.episodes,
            level=level,
            limit=_MOST_EPISODES,
        )
    # It hardly changes with the number of episodes.
    level = level_of_last_look(result)
    if result.method != "agresti-caffo":
        pairs, method = asdict(result.pairs), result.method
        if margin is None:
            return paired_episodes_to_resolve(
                **pairs, method=method, level=level, limit=_MOST_EPISODES
            )
        return paired_episodes_to_prove_margin(
            **pairs, margin=margin, method=method, level=level, limit=_MOST_EPISODES
        )
    oracle, learned = result.oracle, result.learned
    counts = (
        oracle.success_count,
        oracle.episodes,
        learned.success_count,
        learned.episodes,
    )
    if margin is None:
        return episodes_to_resolve(*counts, level=level, limit=_MOST_EPISODES)
    return episodes_to_prove_margin(*counts, margin=margin, level=level, limit=_MOST_EPISODES)


def _starts_needed(result: GateResult) -> int | None:
    """Return at how many starts an interval of returns would be narrow enough, as 1 / sqrt(n)."""
    interval, margin = result.interval, result.margin
    goal = abs(interval.estimate)
    if margin is not None and interval.estimate < margin:
        goal = margin - interval.estimate
    half = (interval.high - interval.low) / 2
    needed = result.learned.episodes * (half / goal) ** 2 if goal else math.inf
    return math.ceil(needed) if needed <= _MOST_EPISODES else None


def _meaning_of_blindness(result: GateResult) -> str:
    """Say what random actions did, and what would make a gate that fails them."""
    what = _BLIND_RETURNS if result.metric == "return" else _BLIND
    mend = _MEND_TASK if _is_strong(result) else _MEND
    needed = _episodes_to_see(result)
    if needed is not None:
        option = "episodes" if result.stop == "fixed" else "max-episodes"
        mend += _MEND_SIZE.format(needed=needed, option=option, seed=result.seed + 1)
    return (what + mend).format(**_numbers(result))


def _how_to_accept(max_verdict: Verdict) -> str:
    """Return what a test writes that accepts a gate at fault; empty where it does already."""
    is_accepted = max_verdict.severity >= Verdict.PLANNER_BOTTLENECK.severity
    return "" if is_accepted else _ACCEPT_BLIND


def _is_strong(result: GateResult) -> bool:
    """Say whether the oracle solves half of the starts; of returns nobody knows what is much."""
    oracle = result.oracle
    return result.metric == "success" and 2 * oracle.success_count >= oracle.episodes


def _episodes_to_see(result: GateResult) -> int | None:
    """Return the episodes per arm that tell a strong oracle from chance at these rates.

    None where they are no cure: what is to be mended of a weak oracle is its planner.
    """
    beside = replace(result, learned=result.chance, margin=None)
    is_open = result.margin is None or result.chance_verdict is Verdict.INCONCLUSIVE
    if not is_open or not _is_strong(result) or beside.gap <= 0:
        return None
    # If these rates were true, half of the runs of the size returned would still be blind, and one
    # in five of twice that: ((1.96 + 0.84) / 1.96)^2 is 2.04.
    needed = 2 * (_episodes_needed(beside) or _MOST_EPISODES)
    most = _MOST_SEQUENTIAL if result.stop == "sequential" else _MOST_EPISODES
    return needed if needed <= most else None


def _meaning(result: GateResult) -> str:
    if result.metric == "return":
        return _MEANING_OF_RETURNS.get(result.verdict, _MEANING[result.verdict])
    if result.margin is not None and result.verdict in _MEANING_WITH_MARGIN:
        if result.verdict is Verdict.INCONCLUSIVE and result.interval.high < result.margin:
            return _MEANING_OF_OPEN_ORACLE
        return _MEANING_WITH_MARGIN[result.verdict]
    return _MEANING[result.verdict]


def _numbers(result: GateResult) -> dict[str, str]:
    oracle, learned, chance = result.oracle, result.learned, result.chance
    return {
        "oracle": f"{oracle.success_count}/{oracle.episodes}",
        "learned": f"{learned.success_count}/{learned.episodes}",
        "chance": f"{chance.success_count}/{chance.episodes}",
        "oracle_return": f"{oracle.returns.mean():.4g}",
        "learned_return": f"{learned.returns.mean():.4g}",
        "chance_return": f"{chance.returns.mean():.4g}",
        "lost": str(result.pairs.oracle_only),
        "horizon": str(result.horizon),
        "bound": f"{oracle.interval.high:.3f}",
        "least": f"{oracle.interval.low:.2f}",
        "wanted": f"{result.min_oracle:g}" if result.min_oracle is not None else "",
        "margin": f"{result.margin:g}" if result.margin is not None else "",
        "high": number(result.interval.high, result.metric),
        "same": _same_in_both(result),
        "advice": _advice(result),
    }


def _advice(result: GateResult) -> str:
    """Say what to do about a gap, as far as it is known why it is there."""
    if result.diagnosis is not None and result.diagnosis.is_misread:
        return _ADVICE_ON_READING
    if _loses_by_score(result):
        return f"What loses is how it rates plans. {advice_on_score(result.swapped)}"
    return _ADVICE[result.metric]


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
_DRIFT = {
    False: (
        "The model on this branch loses starts that the accepted one solves, more than chance "
        "explains. If that is what you want, accept it where the baseline is kept: run pytest "
        "--cpg-update-baseline there and commit the file."
    ),
    True: (
        "The accepted result was measured under another design, so nothing can be said about "
        "drift. Accept a result of the new design: run pytest --cpg-update-baseline and commit "
        "the file."
    ),
}
_MEND = (
    "Fix the gate: look farther ahead (horizon, now {horizon}), use a stronger planner "
    '(planner="preset" for a built-in task, "icem", or more candidates), give more steps '
    "(budget), or choose an easier task."
)
_MEND_TASK = (
    "Fix the gate: choose a task, starts or a goal that random actions fail (fewer steps by "
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
    "The gate is blind: acting at random would have passed this gate, as a model that knows "
    "nothing would, so it does not judge this one. Random actions solve {chance} starts, and the "
    "planner {oracle} with the true dynamics. "
)
_BLIND_RETURNS = (
    "The gate is blind: acting at random would have passed this gate, as a model that knows "
    "nothing would, so it does not judge this one. Random actions earn {chance_return} a start, "
    "and the planner {oracle_return} with the true dynamics. "
)
_TOO_WEAK = (
    "The gate is at fault, not the model: with the true dynamics this planner solves {oracle} "
    "starts, a rate of at most {bound}, and min_oracle asks for {wanted}. A planner this weak "
    "hides what a model gets wrong. " + _MEND
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
        "{learned}: the model loses {lost} starts that were there to be won. {same} "
        "were the same, so the loss is the model's. {advice}"
    ),
    Verdict.PLANNER_BOTTLENECK: (
        "The gate is at fault, not the model: even with the true dynamics this planner solves only "
        "{oracle} starts, and a broken model would look the same. " + _MEND
    ),
    Verdict.INCONCLUSIVE: (
        "The interval contains zero and the rates are neither both near 0 nor both near 1 (oracle "
        "{oracle}, learned {learned}): these episodes do not tell the arms apart."
    ),
    Verdict.MODEL_AS_GOOD_AS_ORACLE: (
        "Both arms solve nearly every start (oracle {oracle}, learned {learned})."
    ),
    Verdict.LEARNED_OUTPERFORMS_ORACLE: (
        "The learned model plans better than the true dynamics (oracle {oracle}, learned "
        "{learned}); a smoother or more optimistic model can do that."
    ),
}
_MEANING_WITH_MARGIN = {
    Verdict.INCONCLUSIVE: (
        "margin={margin} asks for proof that the model loses less than that, and a loss of {high} "
        "is still possible (oracle {oracle}, learned {learned})."
    ),
    Verdict.PLANNER_BOTTLENECK: (
        "The gate is at fault, not the model: even with the true dynamics this planner solves only "
        "{oracle} starts, so that losing all of them would stay within the margin of {margin}. "
        + _MEND
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
        "model's. {advice}"
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

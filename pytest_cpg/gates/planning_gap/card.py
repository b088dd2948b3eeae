"""Card of a planning gap: all that any report shows of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates import notation
from pytest_cpg.gates.card import NOW, Card, Note, Row, Severity, Table, numbers_of
from pytest_cpg.gates.card import Cause as CardCause
from pytest_cpg.gates.notation import number, percentage
from pytest_cpg.gates.planning_gap.cause import Cause, Diagnosis, Measure
from pytest_cpg.gates.planning_gap.diagnosis.evidence import WINDOW
from pytest_cpg.gates.planning_gap.explanation import advice, beside_meaning, meaning
from pytest_cpg.gates.planning_gap.facts import facts_of
from pytest_cpg.gates.planning_gap.figures import effect, figures, profile_figures, trends
from pytest_cpg.gates.planning_gap.forecast import surely_failed_drop
from pytest_cpg.gates.planning_gap.notation import (
    arm_name,
    bracket,
    ends,
    gap_text,
    recovery_text,
)
from pytest_cpg.gates.planning_gap.resolving import settling
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.ruling import blindness, failure_reason, severity_of
from pytest_cpg.gates.planning_gap.stopping import gap_interval
from pytest_cpg.stats import Interval, Verdict

_WEAK = "by the observed rates alone: too few starts to prove it"
_GIST = {
    Verdict.MODEL_AS_GOOD_AS_ORACLE: "both solve nearly all starts",
    Verdict.LEARNED_OUTPERFORMS_ORACLE: "the model solves more than the true dynamics",
    Verdict.INCONCLUSIVE: "too few starts to tell the arms apart",
    Verdict.PLANNER_BOTTLENECK: "both solve next to no start",
    Verdict.MODEL_BOTTLENECK: "the true dynamics solve starts that the model does not",
}
_GIST_OF_RETURNS = {
    **_GIST,
    Verdict.LEARNED_OUTPERFORMS_ORACLE: "the model earns more than the true dynamics",
    Verdict.MODEL_BOTTLENECK: "the true dynamics earn more than the model",
}
_GIST_WITH_MARGIN = {
    Verdict.MODEL_AS_GOOD_AS_ORACLE: "the model loses less than the margin",
    Verdict.INCONCLUSIVE: "too few starts to prove the margin",
}


def card_of(result: GateResult, accepts: Verdict, *, model: str = "") -> Card:
    """Return the card of a result."""
    is_open = result.label == Verdict.INCONCLUSIVE and blindness(result, accepts) is None
    return Card(
        kind="planning gap",
        subject=result.design.task,
        sentence=_sentence(result, accepts),
        gist=_gist(result),
        size=f"{result.learned.episodes} starts",
        cells={
            "oracle": _cell(result.oracle, result.design.metric),
            NOW: _cell(result.learned, result.design.metric),
            "gap": number(result.interval.estimate, result.design.metric),
            f"{percentage(result.interval.level)} CI": bracket(result),
            "n": str(result.learned.episodes),
        },
        table=_table(result),
        facts=(*_gap_facts(result), *facts_of(result, model)),
        notes=tuple(_notes(result, accepts)),
        cause=None if result.diagnosis is None else cause_of(result.diagnosis),
        effect=effect(result),
        figures=figures(result),
        trends=trends(result),
        design=result.design.short_hash,
        drop=surely_failed_drop(result, accepts),
        settle=settling(result) if is_open else {},
        numbers=_measured(result),
    )


def _sentence(result: GateResult, accepts: Verdict) -> str:
    """Say what the model and the true dynamics come to, in words; of a blind gate why it is."""
    model, truth = result.learned, result.oracle
    if not result.is_aa and blindness(result, accepts) is not None:
        return "random actions would have passed this gate, so it judges no model"
    if not result.is_aa and severity_of(result, accepts) is Severity.BLIND:
        solved = f"{truth.success_count} of {truth.episodes}"
        return f"even with the true dynamics the planner solves only {solved} starts"
    if result.is_aa:
        who, other = "the true dynamics", "and run once more"
    else:
        who, other = "the model", "the true dynamics"
    if result.design.metric == "return":
        return f"{who} earns {model.returns.mean():.4g} a start, {other} {truth.returns.mean():.4g}"
    many = f" of {truth.episodes}" * (truth.episodes != model.episodes)
    reached = f"{truth.success_count}{many}"
    if truth.success_count == truth.episodes:
        reached = f"all {reached}"
    return f"{who} solves {model.success_count} of {model.episodes} starts, {other} {reached}"


def _gist(result: GateResult) -> str:
    if result.is_smoke:
        return "two episodes of each arm, nothing judged"
    if result.is_aa:
        return "the true dynamics in both arms"
    if result.faults:
        return result.faults[0].partition(":")[0]
    if result.margin is not None and result.verdict in _GIST_WITH_MARGIN:
        return _GIST_WITH_MARGIN[result.verdict]
    return (_GIST_OF_RETURNS if result.design.metric == "return" else _GIST)[result.verdict]


def _cell(arm: Arm, metric: str) -> str:
    return f"{arm.returns.mean():.4g}" if metric == "return" else f"{arm.success_rate:.2f}"


def _table(result: GateResult) -> Table:
    """Return the arms; where returns are judged they come first, and successes have no bars."""
    returned = ("return",) * (result.design.metric == "return")
    return Table(
        name="arm",
        columns=(*returned, "success", "rate", f"{percentage(result.level)} CI"),
        rows=tuple(_row(arm, has_return=bool(returned)) for arm in result.arms),
    )


def _row(arm: Arm, *, has_return: bool) -> Row:
    count = f"{arm.success_count}/{arm.episodes}"
    returned = (_cell(arm, "return"),) * has_return
    return Row(
        name=arm_name(arm),
        cells=(*returned, count, f"{arm.success_rate:.2f}", notation.ends(arm.interval)),
        bound=None if has_return else arm.interval,
    )


def _gap_facts(result: GateResult) -> list[tuple[str, str]]:
    """Return the gap with the interval that judges it, and what stands beside it."""
    judged, beside = result.interval, result.paired_interval
    agresti_caffo = gap_interval("agresti-caffo", result.oracle, result.learned, level=beside.level)
    percent = percentage(judged.level)
    if result.design.metric == "return":
        of_success = f"{number(result.gap, 'success')} {ends(beside, 'success')}"
        return [
            ("gap", f"{of_success}  in success (paired {percent})"),
            ("", f"{gap_text(result)}  in mean return ({_method(judged)} {percent})"),
        ]
    lead = f"{gap_text(result)}  ({_method(judged)} {percent}"
    if judged.method == agresti_caffo.method:
        return [("gap", f"{lead}; paired {ends(beside, 'success')})")]
    other = f"Agresti-Caffo {ends(agresti_caffo, 'success')}"
    return [
        ("gap", f"{lead};"),
        ("", f"      {other}{', blind to the looks' * bool(result.looks)})"),
    ]


def _method(interval: Interval) -> str:
    return re.sub(r" \d{4}", "", interval.method)


def _notes(result: GateResult, accepts: Verdict) -> Iterator[Note]:
    yield Note("judged", f"gap {gap_text(result)}")
    yield from (Note("why", text) for text in meaning(result, accepts))
    yield from (Note("do", text) for text in advice(result, accepts))
    yield from (Note("note", text) for text in beside_meaning(result, accepts))
    if result.design.perturbation:
        yield Note("note", f"perturbation {recovery_text(result)}")
    episodes, farther = result.learned.episodes, result.chance.episodes
    if result.looks and result.max_episodes and episodes < result.max_episodes:
        others = f"; oracle and chance ran {farther} until theirs was" * (farther > episodes)
        yield Note(
            "note",
            f"stopped after {episodes} of {result.max_episodes} episodes per arm: the verdict was "
            f"settled{others}",
        )
    blind = blindness(result, accepts)
    if blind is not None and failure_reason(result, accepts) is None:
        yield Note("note", f"blind gate: {blind}")
    if result.is_weak:
        yield Note("note", _WEAK)
    if not result.is_smoke:
        chance = f"chance solved {result.chance.success_count}/{result.chance.episodes}"
        yield Note("note", chance, level=1)


def _measured(result: GateResult) -> dict[str, str | float]:
    numbers: dict[str, str | float | None] = {
        "gap": result.interval.estimate,
        "low": result.interval.low,
        "high": result.interval.high,
        "level": result.interval.level,
        "metric": result.design.metric,
        "oracle_rate": result.oracle.success_rate,
        "learned_rate": result.learned.success_rate,
        "chance_rate": result.chance.success_rate,
        "chance_verdict": result.chance_verdict and result.chance_verdict.value,
        "rescored_rate": None if result.rescored is None else result.rescored.success_rate,
        "episodes": result.learned.episodes,
        "stop": result.stop,
        "seed": result.seed,
        "task": result.design.task,
        "planner": result.design.planner,
        "perturbation": result.design.perturbation or None,
        **numbers_of({"exploitation": result.exploitation}),
    }
    return {name: value for name, value in numbers.items() if value is not None}


_TITLE = "Why the gap is there"
# What every terminal shows; the others stand in the files, and where they are the cause.
_MAIN = ("regret", "ranking", f"{WINDOW} steps", "coverage")
_OF_CAUSE = {
    Cause.ACTION_BLIND: ("response",),
    Cause.NOISE: ("noise",),
    Cause.SCORE_HEAD: ("dynamics",),
    Cause.COVERAGE: ("places",),
    Cause.DYNAMICS_BIAS: ("places",),
    Cause.TOO_LITTLE_DATA: ("one step", "trained"),
    Cause.UNDERFIT: ("one step", "trained"),
    Cause.ONE_STEP_ERROR: ("places",),
    Cause.LOCAL_ERROR: ("places",),
    Cause.EXPLOITATION: ("promises",),
    Cause.COMPOUNDING_ERROR: ("restarts",),
    Cause.PLANNER: ("planner",),
}


def cause_of(diagnosis: Diagnosis) -> CardCause:
    """Return how the model is misread, or its cause or causes, or that there is none to name.

    The numbers of a model that is misread are not its own, and left to the files.
    """
    name = diagnosis.named or "no cause named"
    causes = (diagnosis.cause, diagnosis.second)
    main = (*_MAIN, *chain.from_iterable(_OF_CAUSE.get(cause, ()) for cause in causes))
    if diagnosis.misreading is not None and diagnosis.is_misread:
        name, main = diagnosis.misreading.name, ()
    text, advice = _sentences(diagnosis)
    return CardCause(
        title=_TITLE,
        name=name,
        text=text,
        advice=advice,
        source=_source(diagnosis),
        measures=tuple(
            (measure.name, _numbers(measure), measure.text) for measure in diagnosis.measures
        ),
        main=main,
        figures=profile_figures(diagnosis.profile, diagnosis.cause),
    )


def _sentences(diagnosis: Diagnosis) -> tuple[str, str]:
    """Return what was found and what to do, of how a model is misread and else of the cause.

    Of both, where it is not shown that the former is what decides.
    """
    said = [] if diagnosis.is_misread else [(diagnosis.summary, diagnosis.recommendation)]
    if diagnosis.misreading is not None:
        said.append((diagnosis.misreading.summary, diagnosis.misreading.recommendation))
    summaries, advice = ([text for text in texts if text] for texts in zip(*said, strict=True))
    return " ".join(summaries), " ".join(advice)


def _source(diagnosis: Diagnosis) -> str:
    seconds = f"{diagnosis.seconds:.1f} s"
    if not diagnosis.decisions:
        return seconds
    return f"{diagnosis.decisions} decisions of {len(diagnosis.episodes)} episodes, {seconds}"


def _numbers(measure: Measure) -> str:
    """Return a measure's estimate and interval; empty where it has none."""
    if measure.estimate is None or measure.low is None or measure.high is None:
        return ""
    return f"{measure.estimate:.2f} [{measure.low:.2f}, {measure.high:.2f}]"

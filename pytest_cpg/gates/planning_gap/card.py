"""Card of a planning gap: all that any report shows of one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from pytest_cpg.episodes.arm import Arm
from pytest_cpg.gates import notation
from pytest_cpg.gates.card import NOW, Card, Note, Row, Severity, Table, numbers_of
from pytest_cpg.gates.card import Cause as CardCause
from pytest_cpg.gates.notation import found_drop, number, percentage, with_ends
from pytest_cpg.gates.planning_gap.cause import Diagnosis, Measure, Misreading
from pytest_cpg.gates.planning_gap.diagnosis.evidence import WINDOW
from pytest_cpg.gates.planning_gap.explanation import beside_meaning, told
from pytest_cpg.gates.planning_gap.figures import (
    effect,
    figures,
    profile_figures,
    starts_by_ending,
    trends,
)
from pytest_cpg.gates.planning_gap.forecast import settling, surely_failed_drop
from pytest_cpg.gates.planning_gap.result import (
    WEIGHT_DIGITS,
    GateResult,
    arm_name,
    ends,
    gap_text,
    reached,
    recovery_text,
    return_gap,
)
from pytest_cpg.gates.planning_gap.ruling import blindness, ruling_of
from pytest_cpg.gates.planning_gap.stopping import gap_interval, level_of_last_look
from pytest_cpg.stats import Verdict
from pytest_cpg.stats.power import detectable_gap, smallest_detectable_gap
from pytest_cpg.stats.returns import fieller_return_interval

# More looks than this are not worth their lines: the last one decided.
_MOST_LOOKS, _MOST_LOST = 8, 40
_GIST = {
    Verdict.MODEL_AS_GOOD_AS_ORACLE: "both solve nearly all starts",
    Verdict.LEARNED_OUTPERFORMS_ORACLE: "the model solves more than the true dynamics",
    Verdict.INCONCLUSIVE: "too few starts to tell the arms apart",
    Verdict.PLANNER_BOTTLENECK: "both solve next to no start",
    Verdict.MODEL_BOTTLENECK: "the true dynamics solve starts that the model does not",
}
_GIST_OF_RETURNS = {
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
            f"{percentage(result.interval.level)} CI": ends(result.interval, result.design.metric),
            "n": str(result.learned.episodes),
        },
        table=_table(result),
        facts=(*_gap_facts(result), *(fact for fact in _facts(result, model) if fact[1])),
        notes=tuple(_notes(result, accepts)),
        cause=None if result.diagnosis is None else cause_of(result.diagnosis),
        effect=effect(result),
        figures=figures(result),
        trends=trends(result),
        design=result.design.short_hash,
        drop=surely_failed_drop(result, accepts),
        settle=settling(result).options if is_open else {},
        numbers=_measured(result),
    )


def _sentence(result: GateResult, accepts: Verdict) -> str:
    """Say what the model and the true dynamics come to; of a blind gate why it is."""
    model, truth = result.learned, result.oracle
    who, other = "the true dynamics", "and run once more"
    if not result.is_aa:
        who, other = "the model", who
        if blindness(result, accepts) is not None:
            return "random actions would have passed this gate, so it judges no model"
        if ruling_of(result, accepts).severity is Severity.BLIND:
            solved = f"{truth.success_count} of {truth.episodes}"
            return f"even with the true dynamics the planner solves only {solved} starts"
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
    special = _GIST_OF_RETURNS if result.design.metric == "return" else {}
    special = special if result.margin is None else special | _GIST_WITH_MARGIN
    return special.get(result.verdict, _GIST[result.verdict])


def _cell(arm: Arm, metric: str) -> str:
    return f"{arm.returns.mean():.4g}" if metric == "return" else f"{arm.success_rate:.2f}"


def _table(result: GateResult) -> Table:
    has_return = result.design.metric == "return"
    rows = (
        Row(
            name=arm_name(arm),
            cells=(
                *(_cell(arm, "return"),) * has_return,
                reached(arm, "success"),
                f"{arm.success_rate:.2f}",
                notation.ends(arm.interval),
            ),
            bound=None if has_return else arm.interval,
        )
        for arm in result.arms
    )
    returned = ("return",) * has_return
    columns = (*returned, "success", "rate", f"{percentage(result.level)} CI")
    return Table(name="arm", columns=columns, rows=tuple(rows))


def _gap_facts(result: GateResult) -> list[tuple[str, str]]:
    judged, beside, arms = result.interval, result.paired_interval, (result.oracle, result.learned)
    method = f"{re.sub(r' [0-9]{4}', '', judged.method)} {percentage(judged.level)}"
    if result.design.metric == "return":
        of_success = f"{number(result.gap, 'success')} {ends(beside, 'success')}"
        return [
            ("gap", f"{of_success}  in success (paired {percentage(judged.level)})"),
            ("", f"{gap_text(result)}  in mean return ({method})"),
        ]
    agresti_caffo = gap_interval("agresti-caffo", *arms, level=beside.level)
    if judged.method == agresti_caffo.method:
        return [("gap", f"{gap_text(result)}  ({method}; paired {ends(beside, 'success')})")]
    other = f"Agresti-Caffo {ends(agresti_caffo, 'success')}"
    return [
        ("gap", f"{gap_text(result)}  ({method};"),
        ("", f"      {other}{', blind to the looks' * bool(result.looks)})"),
    ]


def _notes(result: GateResult, accepts: Verdict) -> Iterator[Note]:
    yield Note("judged", f"gap {gap_text(result)}")
    explained = told(result, accepts)
    yield from (Note("why", text) for text in explained.meaning)
    yield from (Note("do", text) for text in explained.advice)
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
    if result.sooner:
        yield Note("note", result.sooner)
    blind = blindness(result, accepts)
    if blind is not None and ruling_of(result, accepts).reason is None:
        yield Note("note", f"blind gate: {blind}")
    if result.is_weak:
        yield Note("note", "by the observed rates alone: too few starts to prove it")
    if not result.is_smoke:
        yield Note("note", f"chance solved {reached(result.chance, 'success')}", level=1)
    if result.restored_by:
        yield Note("note", f"states are restored by {result.restored_by}", level=1)


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
        "oracle_compute": result.oracle.compute,
        "learned_compute": result.learned.compute,
        "episodes": result.learned.episodes,
        "stop": result.stop,
        "seed": result.seed,
        "task": result.design.task,
        "planner": result.design.planner,
        "perturbation": result.design.perturbation or None,
        **numbers_of({"exploitation": result.exploitation}),
    }
    return {name: value for name, value in numbers.items() if value is not None}


def _facts(result: GateResult, model: str) -> Iterator[tuple[str, str]]:
    design, arms = result.design, (result.oracle, result.learned)
    paired = (f"{ended} {len(starts)}" for ended, starts in starts_by_ending(result).items())
    yield "same starts", ", ".join(paired)
    yield "perturbation", recovery_text(result)
    yield "judged by", result.evidence
    if result.margin is not None:
        in_return = " in mean return" * (design.metric == "return")
        yield "margin", f"{result.margin:g}{in_return}"
    if result.looks:
        yield "looks", _looks(result)
    means = ((arm.name, arm.mean_steps_to_success) for arm in arms)
    steps = (f"{name} {'none' if mean is None else f'{mean:.0f}'}" for name, mean in means)
    yield "steps", f"to success, mean: {', '.join(steps)}"
    yield from _sizes_of_gap(result)
    risk = result.learned.selective_risk
    if risk is not None:
        yield (
            "confidence",
            f"area under the risk-coverage curve {risk.aurc:.3f}; {risk.base_rate:.3f} if it knew "
            f"nothing, {risk.ideal:.3f} if it knew all; {result.learned.risk_at(0.5):.2f} of the "
            f"surest half fail",
        )
    lost = result.lost_episodes
    if lost:
        more = f" and {len(lost) - _MOST_LOST} more" * (len(lost) > _MOST_LOST)
        yield "lost", f"starts {' '.join(map(str, lost[:_MOST_LOST]))}{more}"
    skipped = result.starts_skipped
    replaced = f"; {skipped} solved already, replaced" if skipped else ""
    yield (
        "task",
        f"{design.task}, {design.budget} steps of {design.control_period:g} s, "
        f"starts {design.starts}, seed {result.seed}{replaced}",
    )
    yield "restored", f"by {result.restored_by}" if result.restored_by else ""
    yield "planner", design.planner
    yield "model gives", (", ".join(result.swapped) or "nothing") + f" ({model})" * bool(model)
    yield "weights", result.weights and f"sha256 {result.weights[:WEIGHT_DIGITS]}"
    yield "device", result.device
    yield "recipe", result.group
    yield "family", f"{result.family_size} gates" if result.family_size > 1 else ""
    yield "stored arms", "; ".join(note for note in result.reuse if note not in result.notes)
    latencies = ", ".join(f"{arm.name} {_latency(arm)}" for arm in arms)
    yield "latency", f"per plan, median: {latencies}"
    imagined = ", ".join(
        f"{arm.name} {arm.rollout_steps if arm.compute is None else arm.compute:.1f}"
        for arm in arms
    )
    has_compute = all(arm.compute is not None for arm in arms)
    yield "compute", f"model steps per {'executed action' if has_compute else 'plan'}: {imagined}"
    yield "versions", ", ".join(map(" ".join, design.versions.items()))


def _latency(arm: Arm) -> str:
    ends = arm.latency_interval
    interval = f" [{ends[0]:.2f}, {ends[1]:.2f}]" if ends else ""
    return f"{arm.latency_ms.median:.2f} ms{interval}"


def _looks(result: GateResult) -> str:
    looks = " | ".join(
        f"at {look.episodes}: z {look.statistic:.2f}, boundary {look.boundary:.2f}"
        for look in (result.looks if len(result.looks) <= _MOST_LOOKS else result.looks[-1:])
    )
    most, done = result.max_episodes or 0, result.learned.episodes
    saved = f"; {100 * (most - done) / most:.0f} % of {most} saved" if done < most else ""
    return f"{looks}{saved}"


def _sizes_of_gap(result: GateResult) -> Iterator[tuple[str, str]]:
    """Yield the gap in other units, and what a gate of this size could have found."""
    oracle, learned, level = result.oracle, result.learned, result.level
    common, by_return = learned.episodes, result.design.metric == "return"
    if common > 1:
        means = ", ".join(f"{arm_name(arm)} {arm.returns.mean():.4g}" for arm in result.arms)
        gap = with_ends(return_gap(oracle, learned, level=level), ".4g")
        # None where the oracle is not sure to add anything to chance.
        share = by_return and fieller_return_interval(
            oracle.returns[:common], learned.returns, result.chance.returns[:common], level=level
        )
        beyond = f", {with_ends(share)} of what oracle has beyond chance" if share else ""
        yield "returns", f"mean: {means}; gap {gap}{beyond}"
    if result.normalised_gap is not None and not by_return:
        yield "share lost", f"{result.normalised_gap:.2f} of what oracle solves beyond chance"
    if result.exploitation is not None and result.diagnosis is not None:
        promised = f"{with_ends(result.exploitation)} of a score promised and not kept"
        yield "exploitation", f"{promised}, {len(result.diagnosis.episodes)} episodes"
    if by_return or result.stop != "fixed":
        return
    method, level = result.method, level_of_last_look(result)
    drop = smallest_detectable_gap(
        *oracle.solved, level=level, learned_episodes=common, method=method
    )
    rate, total = oracle.success_rate, oracle.episodes
    sure = detectable_gap(rate, common, oracle_episodes=total, method=method, level=level)
    text = f"no drop from {reached(oracle, 'success')} could be flagged"
    if drop is not None:
        flagged = f"smallest drop this gate could flag from {reached(oracle, 'success')}"
        surely = "" if sure is None else f"; found 4 times in 5 from {found_drop(sure)}"
        text = f"{flagged}: {found_drop(drop)}{surely}"
    yield "power", text


# What every terminal shows; the others stand in the files, and where they are the cause.
_MAIN = ("regret", "ranking", f"{WINDOW} steps", "coverage", "frames")


def cause_of(diagnosis: Diagnosis) -> CardCause:
    """Return how the model is misread, or its cause or causes, or that there is none to name.

    The numbers of a model that is misread are not its own, and left to the files.
    """
    name, misreading = diagnosis.named or "no cause named", diagnosis.misreading
    causes = (diagnosis.cause, diagnosis.second)
    main = (*_MAIN, *chain.from_iterable(cause.measures for cause in causes))
    parts: list[Diagnosis | Misreading] = [diagnosis]
    if misreading is not None:
        # Both, where it is not shown that the misreading is what decides.
        parts = [misreading] if diagnosis.is_misread else [diagnosis, misreading]
    if misreading is not None and diagnosis.is_misread:
        name, main = misreading.name, ()
    source = f"{diagnosis.seconds:.1f} s"
    if diagnosis.decisions:
        sample = f"{diagnosis.decisions} decisions of {len(diagnosis.episodes)} episodes"
        source = f"{sample}, {source}"
    return CardCause(
        title="Why the gap is there",
        name=name,
        text=" ".join(part.summary for part in parts if part.summary),
        advice=" ".join(part.recommendation for part in parts if part.recommendation),
        source=source,
        measures=tuple(
            (measure.name, _numbers(measure), measure.text) for measure in diagnosis.measures
        ),
        main=main,
        figures=profile_figures(diagnosis.profile, diagnosis.cause),
    )


def _numbers(measure: Measure) -> str:
    if measure.estimate is None:
        return ""
    return f"{measure.estimate:.2f} [{measure.low:.2f}, {measure.high:.2f}]"

"""Card of a comparison of policies: all that any report shows of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pytest_cpg.gates.card import Card, Effect, Row, Table, Trend, numbers_of
from pytest_cpg.gates.kind import MaxVerdict
from pytest_cpg.gates.notation import ends, percentage, with_ends
from pytest_cpg.gates.policy_comparison.explanation import advice, meaning
from pytest_cpg.gates.policy_comparison.figures import figures, mistake_text
from pytest_cpg.gates.policy_comparison.result import ComparisonResult
from pytest_cpg.gates.policy_comparison.ruling import criteria_of, label_of

_GIST = {
    "KNOWS ITS LIMITS": "right more often than without a model, and knows where",
    "INCONCLUSIVE": "too few queries to tell",
    "OVERCONFIDENT": "as sure of wrong answers as of right ones",
    "UNINFORMED": "no better than answering without a model",
    "BROKEN": "the model broke its contract",
}


def card_of(
    result: ComparisonResult,
    max_verdict: MaxVerdict | None = None,  # noqa: ARG001
    *,
    model: str = "",
) -> Card:
    """Return the card of a result; ``model`` is its name, and may be empty."""
    auroc = result.auroc
    return Card(
        kind="policy comparison",
        headline=_headline(result),
        sentence=f"the model is wrong on {result.wrong_count} of {len(result)} queries, the best "
        f"answer without one on {result.trivial_loss * len(result):.0f}",
        gist=_GIST[label_of(result)],
        size=f"{len(result)} queries",
        cells={
            "wrong": str(result.wrong_count),
            "trivial": f"{result.trivial_loss * len(result):.0f}",
            "AUROC": "-" if auroc is None else f"{auroc.estimate:.2f}",
            "sure": f"{100 * result.coverage_at_risk.estimate:.0f} %",
            "n": str(len(result)),
        },
        table=_table(result),
        facts=tuple((name, text) for name, text in _facts(result, model) if text),
        brief=f"wrong on {result.wrong_count} of {len(result)}, without a model on "
        f"{result.trivial_loss * len(result):.0f}",
        meaning=tuple(meaning(result)),
        advice=tuple(advice(result)),
        effect=Effect(
            found=result.loss,
            unit="of queries",
            margin=result.trivial_loss,
            is_difference=False,
        ),
        figures=figures(result),
        trends=tuple(_trends(result)),
        design=f"{result.design.digest} {result.criteria.confidence}",
        numbers=_numbers(result),
    )


def _headline(result: ComparisonResult) -> str:
    if result.auroc is None:
        return f"{result.wrong_count} wrong, loss {result.loss.estimate:.3f} {ends(result.loss)}"
    return f"{result.wrong_count} wrong, AUROC {with_ends(result.auroc)}"


def _table(result: ComparisonResult) -> Table:
    rows = [one.row(".3f") for one in criteria_of(result)]
    if result.auroc is None:
        # As wide as an interval: the table has to fit into 80 columns.
        wrong, right = result.wrong_count, len(result) - result.wrong_count
        few = f"only {wrong} wrong" if wrong <= right else f"only {right} right"
        rows.append(Row(name="AUROC", cells=("-", few, "", "")))
    return Table(
        name="answers",
        columns=("share", f"{percentage(result.criteria.level)} CI", "needed", "met"),
        rows=tuple(rows),
        below=(
            ("trivial", _trivial(result)),
            ("horizon", _by_horizon(result)),
            *_surest_mistakes(result),
        ),
    )


def _by_horizon(result: ComparisonResult) -> str:
    parts = (f"{one.horizon}: {one.metrics.loss:.3f}" for one in result.grades.by_horizon)
    return f"loss at {'  '.join(parts)}"


def _trivial(result: ComparisonResult) -> str:
    return (
        f"always side {'ab'[result.constant_answer]}: {result.constant_loss:.3f}; frozen world: "
        f"{result.frozen_loss:.3f}"
    )


def _surest_mistakes(result: ComparisonResult) -> Iterator[tuple[str, str]]:
    for name, at in zip(("mistake", ""), result.mistakes, strict=False):
        yield name, f"#{at} {mistake_text(result, at)}"


def _facts(result: ComparisonResult, model: str) -> Iterator[tuple[str, str]]:
    design, asked, metrics = result.design, result.criteria, result.grades.metrics
    excess = "" if metrics.excess is None else f"; excess AURC {metrics.excess:.2f}"
    yield "AURCC", f"{metrics.aurcc:.3f}, of a constant confidence {metrics.loss / 2:.3f}{excess}"
    answered = f"{100 * metrics.coverage_at_risk:.0f} % answered"
    yield (
        "beside it",
        f"RPP {metrics.rpp:.3f}, CR10 {metrics.cr:.1f}, regret {metrics.regret:.3g}, "
        f"{answered} at a risk of {100 * asked.max_risk:.3g} %",
    )
    reliability = result.grades.reliability
    yield (
        "calibration",
        f"ECE {reliability.ece:.3f}, after isotonic regression {reliability.calibrated_ece:.3f}",
    )
    yield "one step", _one_step(result)
    horizons = [one.horizon for one in result.grades.by_horizon]
    yield (
        "queries",
        f"{design.name}, {len(result)} from {design.groups} starts, horizons {min(horizons)} to "
        f"{max(horizons)}, discount {design.discount:g}",
    )
    named = f" ({model})" if model else ""
    yield "model", f"{design.members} members{named}, confidence {asked.confidence}"
    yield "family", f"{asked.family_size} gates" if asked.family_size > 1 else ""


def _one_step(result: ComparisonResult) -> str:
    found = result.one_step
    if found is None:
        return "not checked: return Transitions from a training_data fixture"
    return (
        f"error {found.learned:.3g}, and {found.frozen:.3g} if nothing moved ({found.steps} steps "
        f"of training_data)"
    )


def _trends(result: ComparisonResult) -> Iterator[Trend]:
    loss, auroc = result.loss, result.auroc
    right = replace(loss, estimate=1 - loss.estimate, low=1 - loss.high, high=1 - loss.low)
    for name, found in (("Right answers", right), ("AUROC", auroc)):
        if found is not None:
            yield Trend(name=name, text=f"{found.estimate:.3f}", bound=found, axis=(0.0, 1.0))


def _numbers(result: ComparisonResult) -> dict[str, str | float]:
    return {
        **numbers_of({**result.grades.intervals, "auroc": result.auroc}),
        "constant_loss": result.constant_loss,
        "frozen_loss": result.frozen_loss,
        "ece": result.grades.reliability.ece,
        "level": result.criteria.level,
        "queries": len(result),
        "wrong": result.wrong_count,
        "members": result.design.members,
        "confidence": result.criteria.confidence,
        "seed": result.criteria.seed,
    }

"""Card of a comparison of policies: all that any report shows of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from pytest_cpg.episodes.decisions import evenly
from pytest_cpg.gates.card import Effect, Figure, Row, Severity, Table, Trend, numbers_of
from pytest_cpg.gates.criteria import CriteriaKind
from pytest_cpg.gates.criterion import Criterion, Standing, Words
from pytest_cpg.gates.notation import ends, percentage, with_ends
from pytest_cpg.gates.policy_comparison.result import ComparisonResult
from pytest_cpg.stats import RiskCoverage, risk_coverage, risk_intervals

# Nobody collects more.
_MOST_QUERIES = 100_000
WORDS = {
    "KNOWS ITS LIMITS": Words(
        "right more often than without a model, and knows where", severity=Severity.GOOD
    ),
    "INCONCLUSIVE": Words(
        "too few queries to tell",
        "The intervals leave open whether the criteria are met.",
        "Ask more queries, best from other starts.",
        Severity.UNSURE,
    ),
    "OVERCONFIDENT": Words(
        "as sure of wrong answers as of right ones",
        "",
        "Train longer or at a higher rate, as members that have learned too little are wrong "
        "alike; give each its own seed and resampled data. Until then trust no threshold on this "
        "confidence.",
    ),
    "UNINFORMED": Words(
        "no better than answering without a model",
        "",
        "Train on data of policies like those that are compared, or ask about shorter horizons, "
        "where the loss by horizon is low.",
    ),
    "BROKEN": Words("the model broke its contract", severity=Severity.BROKEN),
}
"""What the gate's labels mean."""


def shown(
    kind: CriteriaKind[ComparisonResult], result: ComparisonResult, model: str
) -> dict[str, Any]:
    """Return what the card of a result has beside the words of its label."""
    auroc, label, wrong, queries = result.auroc, kind.label(result), result.wrong_count, len(result)
    trivial, judged = f"{result.trivial_loss * queries:.0f}", f"{wrong} wrong, "
    if auroc is None:
        judged += f"loss {result.loss.estimate:.3f} {ends(result.loss)}"
    else:
        judged += f"AUROC {with_ends(auroc)}"
    card = {
        "kind": "policy comparison",
        "subject": result.design.name,
        "judged": judged,
        "sentence": f"the model is wrong on {wrong} of {queries} queries, the best answer without "
        f"one on {trivial}",
        "size": f"{queries} queries",
        "cells": {
            "wrong": str(wrong),
            "trivial": trivial,
            "AUROC": "-" if auroc is None else f"{auroc.estimate:.2f}",
            "sure": f"{100 * result.coverage_at_risk.estimate:.0f} %",
            "n": str(queries),
        },
        "table": _table(kind, result),
        "facts": tuple((name, text) for name, text in _facts(result, model) if text),
        "effect": Effect(
            found=result.loss, unit="of queries", margin=result.trivial_loss, is_difference=False
        ),
        "figures": figures(result),
        "trends": tuple(_trends(result)),
        "design": f"{result.design.digest} {result.criteria.confidence}",
        "numbers": _numbers(result),
    }
    if label == "INCONCLUSIVE":
        card["do"] = f"{WORDS[label].advice}{_more_queries(result, kind.criteria(result))}"
    elif not result.faults:
        card["why"] = _meaning(result, label)
    return card


def _meaning(result: ComparisonResult, label: str) -> str:
    answered = (
        f"{100 * result.coverage_at_risk.estimate:.0f} % of the queries can be answered at a risk "
        f"of {100 * result.criteria.max_risk:.3g} %."
    )
    if label == "KNOWS ITS LIMITS":
        return (
            f"The model answers better than without a model, its confidence tells wrong answers "
            f"from right ones, and {answered}"
        )
    if label == "OVERCONFIDENT":
        return f"The model's confidence does not tell which of its answers are wrong; {answered}"
    if result.loss.estimate < result.trivial_loss:
        return "The model is surely wrong more often than max_loss allows."
    trivial = f"always answering side {'ab'[result.constant_answer]}"
    if result.frozen_loss < result.constant_loss:
        trivial = "what a world pays in which nothing moves"
    return f"The model's answers are no better than {trivial}."


def _more_queries(result: ComparisonResult, criteria: Sequence[Criterion]) -> str:
    """Say how many queries would decide every open criterion, if nothing but chance is open."""
    needed = 0.0
    for criterion in criteria:
        if criterion.standing is not Standing.OPEN:
            continue
        interval, distance = criterion.found, criterion.bound - criterion.found.estimate
        if distance == 0:
            return ""
        # The end that has to come nearer: of shares near 0 or 1 it is the farther one.
        end = interval.high if distance > 0 else interval.low
        needed = max(needed, ((end - interval.estimate) / distance) ** 2)
    count = ceil(needed * len(result) / 100) * 100
    if not len(result) < count <= _MOST_QUERIES:
        return ""
    return f" About {count} queries in place of {len(result)} would decide, if the shares stay."


def _table(kind: CriteriaKind[ComparisonResult], result: ComparisonResult) -> Table:
    beside = []
    if result.auroc is None:
        # As wide as an interval: the table has to fit into 80 columns.
        wrong, right = result.wrong_count, len(result) - result.wrong_count
        few = f"only {wrong} wrong" if wrong <= right else f"only {right} right"
        beside.append(Row(name="AUROC", cells=("-", few, "", "")))
    horizons = "  ".join(
        f"{grades.horizon}: {grades.metrics.loss:.3f}" for grades in result.grades.by_horizon
    )
    trivial = (
        f"always side {'ab'[result.constant_answer]}: {result.constant_loss:.3f}; frozen world: "
        f"{result.frozen_loss:.3f}"
    )
    mistakes = zip(("mistake", ""), result.mistakes, strict=False)
    return kind.table(
        result,
        name="answers",
        form=".3f",
        number="share",
        beside=beside,
        below=(
            ("trivial", trivial),
            ("horizon", f"loss at {horizons}"),
            *((name, f"#{at} {mistake_text(result, at)}") for name, at in mistakes),
        ),
    )


def _facts(result: ComparisonResult, model: str) -> Iterator[tuple[str, str]]:
    design, criteria, metrics = result.design, result.criteria, result.grades.metrics
    excess = "" if metrics.excess is None else f"; excess AURC {metrics.excess:.2f}"
    yield "AURCC", f"{metrics.aurcc:.3f}, of a constant confidence {metrics.loss / 2:.3f}{excess}"
    answered = f"{100 * metrics.coverage_at_risk:.0f} % answered"
    yield (
        "beside it",
        f"RPP {metrics.rpp:.3f}, CR10 {metrics.cr:.1f}, regret {metrics.regret:.3g}, "
        f"{answered} at a risk of {100 * criteria.max_risk:.3g} %",
    )
    reliability = result.grades.reliability
    yield (
        "calibration",
        f"ECE {reliability.ece:.3f}, after isotonic regression {reliability.calibrated_ece:.3f}",
    )
    one_step, errors = (
        "not checked: return Transitions from a training_data fixture",
        result.one_step,
    )
    if errors is not None:
        one_step = (
            f"error {errors.learned:.3g}, and {errors.frozen:.3g} if nothing moved ({errors.steps} "
            f"steps of training_data)"
        )
    yield "one step", one_step
    horizons = [grades.horizon for grades in result.grades.by_horizon]
    yield (
        "queries",
        f"{design.name}, {len(result)} from {design.groups} starts, horizons {min(horizons)} to "
        f"{max(horizons)}, discount {design.discount:g}",
    )
    name = f" ({model})" if model else ""
    yield "model", f"{design.members} members{name}, confidence {criteria.confidence}"
    yield "family", f"{criteria.family_size} gates" if criteria.family_size > 1 else ""


def _trends(result: ComparisonResult) -> Iterator[Trend]:
    loss, auroc = result.loss, result.auroc
    right = replace(loss, estimate=1 - loss.estimate, low=1 - loss.high, high=1 - loss.low)
    for name, interval in (("Right answers", right), ("AUROC", auroc)):
        if interval is not None:
            yield Trend(name=name, text=f"{interval.estimate:.3f}", bound=interval, axis=(0.0, 1.0))


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


_MOST_MISTAKES = 20
# More points than pixels would show nothing more.
_MOST_POINTS = 150
# The band's own: of fewer answers it would be wider than all the rest is high.
_MOST_OF_BAND, _FEWEST_ANSWERS = 40, 20


def figures(result: ComparisonResult) -> tuple[Figure, ...]:
    """Return the curve of risk over coverage, reliability, and the surest mistakes."""
    mistakes = _mistakes(result)
    drawn = (_risk_over_coverage(result), _reliability(result))
    return (*drawn, mistakes) if mistakes.series else drawn


def mistake_text(result: ComparisonResult, at: int) -> str:
    """Return what a wrong answer should have been, and how sure it was."""
    return (
        f"true {result.returns_a[at]:.4g}, {result.returns_b[at]:.4g}; imagined "
        f"{result.imagined_a[at]:.4g}, {result.imagined_b[at]:.4g}; "
        f"sure {result.confidences[at]:.3f}"
    )


def _risk_over_coverage(result: ComparisonResult) -> Figure:
    curve, loss = risk_coverage(result.graded), result.loss.estimate
    # The curve that is integrated starts at no risk; of no answers there is none.
    points = [(0.0, curve.risks[1]), *zip(curve.coverages[1:], curve.risks[1:], strict=True)]
    right = 1 - loss
    ideal = [(0.0, 0.0), (right, 0.0)]
    # Beyond the right answers nothing but wrong ones is left.
    ideal += [(share, (share - right) / share) for share in np.linspace(right, 1, 20)[1:].tolist()]
    limit, band = result.criteria.max_risk, _band(result, curve)
    reading = (
        "The model answers its surest queries first. The dashed line is the accepted risk; a "
        "confidence that says nothing follows the constant one."
    )
    if band:
        level = percentage(result.loss.level)
        reading += f" The band is the {level} interval of each share by itself."
    return Figure(
        kind="curves",
        title="Risk over coverage",
        reading=reading,
        axes=("share of queries answered, surest first", "wrong answers among those"),
        series={
            "band": band,
            "learned": _thinned(points),
            "ideal": tuple(ideal),
            "constant": ((0.0, loss), (1.0, loss)),
            "limit": ((0.0, limit), (1.0, limit)),
        },
    )


def _band(result: ComparisonResult, curve: RiskCoverage) -> tuple[tuple[float, float], ...]:
    """Return the interval of the risk at several coverages: its lower ends, and back the upper.

    Empty where fewer than two coverages rest on enough answers.
    """
    points = [*zip(curve.coverages[1:], curve.thresholds, strict=True)]
    shown = _thinned(
        [point for point in points if round(point[0] * len(result)) >= _FEWEST_ANSWERS],
        most=_MOST_OF_BAND,
    )
    if len(shown) < 2:
        return ()
    least = [threshold for _, threshold in shown]
    intervals = risk_intervals(result.graded, least, level=result.loss.level)
    ends = [*zip([coverage for coverage, _ in shown], intervals, strict=True)]
    lower = [(coverage, point.low) for coverage, point in ends]
    return (*lower, *((coverage, point.high) for coverage, point in reversed(ends)))


def _reliability(result: ComparisonResult) -> Figure:
    curve = result.grades.reliability
    return Figure(
        kind="curves",
        title="Share of right answers by confidence",
        reading="Where the line is above the dashed one, answers are right more often than said.",
        axes=("confidence", "share of right answers"),
        series={
            "learned": tuple((share.confidence, share.right) for share in curve.bins),
            "limit": ((0.0, 0.0), (1.0, 1.0)),
        },
        scale=(0.0, 1.0),
    )


def _mistakes(result: ComparisonResult) -> Figure:
    return Figure(
        kind="list",
        title=f"The surest of {result.wrong_count} wrong answers",
        reading="Returns of side a and of side b: true ones, and as the model imagines them.",
        series={
            f"query {at}": (f"{result.horizons[at]} steps; {mistake_text(result, at)}",)
            for at in result.mistakes[:_MOST_MISTAKES]
        },
    )


def _thinned(
    points: Sequence[tuple[float, float]], *, most: int = _MOST_POINTS
) -> tuple[tuple[float, float], ...]:
    """Return points that are enough for a picture, both ends among them."""
    return tuple(points[at] for at in evenly(np.arange(len(points)), most))

"""Figures: what a page draws of a comparison of policies, as data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_cpg.gates.card import Figure
from pytest_cpg.gates.notation import percentage
from pytest_cpg.gates.policy_comparison.result import ComparisonResult
from pytest_cpg.stats import RiskCoverage, risk_coverage, risk_intervals

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
    known = [*zip(curve.coverages[1:], curve.thresholds, strict=True)]
    shown = _thinned(
        [one for one in known if round(one[0] * len(result)) >= _FEWEST_ANSWERS],
        most=_MOST_OF_BAND,
    )
    if len(shown) < 2:
        return ()
    least = [threshold for _, threshold in shown]
    found = risk_intervals(result.graded, least, level=result.loss.level)
    ends = [*zip([coverage for coverage, _ in shown], found, strict=True)]
    lower = [(coverage, one.low) for coverage, one in ends]
    return (*lower, *((coverage, one.high) for coverage, one in reversed(ends)))


def _reliability(result: ComparisonResult) -> Figure:
    found = result.grades.reliability
    return Figure(
        kind="curves",
        title="Share of right answers by confidence",
        reading="Where the line is above the dashed one, answers are right more often than said.",
        axes=("confidence", "share of right answers"),
        series={
            "learned": tuple((one.confidence, one.right) for one in found.bins),
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
    chosen = np.linspace(0, len(points) - 1, min(len(points), most)).round().astype(int)
    return tuple(points[at] for at in dict.fromkeys(chosen.tolist()))

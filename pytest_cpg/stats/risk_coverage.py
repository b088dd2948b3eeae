"""Risk and coverage: what is wrong where only the surest count, and whether chances are told."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.graded_answers import (
    DEFAULT_POINTS,
    SAME_CONFIDENCE,
    Curves,
    GradedAnswers,
    OperatingPoints,
    levels,
)
from pytest_cpg.stats.intervals import Interval
from pytest_cpg.stats.sampled import Share


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMetrics:
    """How often answers are wrong, and whether their confidences tell which.

    docs/statistics.md has the definitions, and what a constant and a random confidence score.

    Attributes
    ----------
    loss : float
        Share of wrong answers.
    aurc : float
        Mean risk over all numbers of answers, ties in random order.
    excess : float or None
        ``aurc`` between that of the ideal order, 0, and of a constant confidence, 1. None where
        all answers are right, or all wrong.
    aurcc : float
        Area under the curve of risk over coverage, straight from (0, 0) and between thresholds. A
        constant confidence has ``loss / 2``.
    rpp : float
        Share of ordered pairs of answers whose wrong answer has the higher confidence.
    cr : float
        Coverage resolution, CR_K: share of K equal bins that hold a coverage.
    auroc : float or None
        Chance that a right answer has a higher confidence than a wrong one, ties one half.
    risk_at_coverage : float
        Share of wrong ones among the surest answers, ties in random order.
    coverage_at_risk : float
        Largest coverage of a threshold whose risk is accepted; 0 where there is none.
    regret : float
        Stakes of wrong answers, summed and divided by the number of all: in units of return.
    """

    loss: float
    aurc: float
    excess: float | None
    aurcc: float
    rpp: float
    cr: float
    auroc: float | None
    risk_at_coverage: float
    coverage_at_risk: float
    regret: float


ANSWER_METRICS = tuple(field.name for field in fields(AnswerMetrics))
"""Names of the metrics."""


def answer_metrics(
    answers: GradedAnswers, *, points: OperatingPoints = DEFAULT_POINTS
) -> AnswerMetrics:
    """Return all metrics of some answers.

    >>> right_first = GradedAnswers(
    ...     wrong=[False, False, True, True], confidences=[0.9, 0.8, 0.2, 0.1]
    ... )
    >>> metrics = answer_metrics(right_first)
    >>> round(metrics.aurcc, 5), metrics.rpp, metrics.cr, metrics.loss, metrics.excess
    (0.14583, 0.0, 0.5, 0.5, 0.0)
    """
    values = measured(answers, np.ones((1, len(answers)), dtype=np.int64), points=points)
    return AnswerMetrics(**{name: _or_none(float(value[0])) for name, value in values.items()})


def _or_none(value: float) -> Any:
    return None if math.isnan(value) else value


def metrics_by(
    answers: GradedAnswers, key: ArrayLike, *, points: OperatingPoints = DEFAULT_POINTS
) -> dict[int, AnswerMetrics]:
    """Return the metrics of the answers of each whole number in ``key`` [N], such as a horizon."""
    keys = np.asarray(key)
    return {
        int(value): answer_metrics(answers.take(keys == value), points=points)
        for value in np.unique(keys)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskCoverage:
    """Curve of risk over coverage: a point for the origin and for each threshold, surest first.

    A threshold is the least confidence that counts, of each point but the first.
    """

    coverages: tuple[float, ...]
    risks: tuple[float, ...]
    thresholds: tuple[float, ...]


def risk_coverage(answers: GradedAnswers) -> RiskCoverage:
    """Return the curve whose area is ``aurcc``."""
    level = levels(answers.confidences)
    counted = np.bincount(level).cumsum()
    lost = np.bincount(level, weights=answers.wrong).cumsum()
    least = np.full(len(counted), np.inf)
    np.minimum.at(least, level, answers.confidences)
    return RiskCoverage(
        coverages=(0.0, *(counted / len(answers)).tolist()),
        risks=(0.0, *(lost / counted).tolist()),
        thresholds=tuple(least.tolist()),
    )


def risk_intervals(
    answers: GradedAnswers, least: ArrayLike, *, level: float = 0.95
) -> list[Interval]:
    """Return what share of the answers that are at least so sure is wrong, for each threshold [T].

    Wilson's interval, at as many answers as vary as much when they do not come in groups; each
    interval is for itself. Raises ValueError for a threshold that lets no answer in.
    """
    counts = np.zeros((2, len(np.unique(answers.groups)), np.size(least)))
    admitted = answers.confidences[:, None] >= np.asarray(least, dtype=np.float64) - SAME_CONFIDENCE
    if not admitted.any(axis=0).all():
        raise ValueError(f"need thresholds up to {answers.confidences.max()}, got {least!r}")
    np.add.at(counts[0], answers.groups, admitted)
    np.add.at(counts[1], answers.groups, admitted & answers.wrong[:, None])
    (held, wrong), many = counts, (counts[0] > 0).sum(axis=0)
    total, lost = held.sum(axis=0), wrong.sum(axis=0)
    # Variance of a ratio of sums over groups (Cochran 1977, section 6.3), times the fourth power of
    # the total: of whole numbers, so that groups that are all alike have none.
    spread = ((wrong * total - lost * held) ** 2).sum(axis=0) * many / np.maximum(many - 1, 1)
    size = many.astype(np.float64)
    varies = (spread > 0) & (many < total)
    np.divide(lost * (total - lost) * total**2, spread, out=size, where=varies)
    return [
        Share(estimate=estimate, size=most).interval(level)
        for estimate, most in zip(
            (lost / total).tolist(), np.minimum(size, total).tolist(), strict=True
        )
    ]


def measured(
    answers: GradedAnswers, times: NDArray[np.int64], *, points: OperatingPoints = DEFAULT_POINTS
) -> dict[str, NDArray[np.float64]]:
    """Return each metric [R] of answers that are counted ``times`` [R, N]; NaN where undefined."""
    level = levels(answers.confidences)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=-1))
    counted = times[:, order]
    lost = counted * answers.wrong[order]
    curve = Curves(np.add.reduceat(counted, starts, axis=1), np.add.reduceat(lost, starts, axis=1))
    regret = lost @ answers.stakes[order] / curve.total
    return {**curve.metrics(points), "regret": regret}


_BINS = 10
_FOLDS = 5
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class ReliabilityBin:
    """Answers of about the same confidence: how many, its mean, and the share of right ones."""

    answers: int
    confidence: float
    right: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """How far confidences lie from the chance of being right.

    Attributes
    ----------
    bins : tuple of ReliabilityBin
        The ten bins of equal width that hold an answer, the least sure first.
    ece : float
        Expected calibration error over these bins, in [0, 1] (Naeini, Cooper and Hauskrecht, AAAI
        2015). Of few answers it is above 0 even where confidences are chances.
    calibrated_ece : float
        The same once isotonic regression has turned confidences into chances; each answer by the
        other folds alone.
    """

    bins: tuple[ReliabilityBin, ...]
    ece: float
    calibrated_ece: float
    method: str


def reliability(answers: GradedAnswers) -> Reliability:
    """Return how well confidences in [0, 1] tell the chance of being right.

    The regression is fitted to four of five folds of groups, and applied to the fifth. Raises
    ValueError when a confidence is not in [0, 1], or when there are fewer than two groups.

    >>> wrong = [i % 2 == 0 for i in range(40)]
    >>> chances = reliability(GradedAnswers(wrong=wrong, confidences=[0.9] * 40))
    >>> round(chances.ece, 3), round(chances.calibrated_ece, 3)
    (0.4, 0.0)
    """
    confidences, right = answers.confidences, (~answers.wrong).astype(np.float64)
    if confidences.min() < 0 or confidences.max() > 1:
        beyond = confidences[(confidences < 0) | (confidences > 1)][0]
        raise ValueError(f"need confidences in [0, 1] as chances, got {beyond}")
    groups = int(answers.groups.max()) + 1
    if groups < 2:
        raise ValueError(f"need two groups or more to calibrate on others, got {groups}")
    folds = min(_FOLDS, groups)
    chances = np.empty(len(answers))
    for fold in range(folds):
        is_held = answers.groups % folds == fold
        chances[is_held] = _isotonic(confidences[~is_held], right[~is_held], confidences[is_held])
    bins = _bins(confidences, right)
    return Reliability(
        bins=bins,
        ece=_error(bins),
        calibrated_ece=_error(_bins(chances, right)),
        method=f"isotonic regression, cross-fitted over {folds} folds of groups",
    )


def _isotonic(
    confidences: NDArray[np.float64], right: NDArray[np.float64], places: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the chance of being right at the confidences ``places``, straight between others."""
    from scipy.optimize import isotonic_regression

    # Equal confidences have one chance; the least sure first.
    _, level, counted = np.unique(-levels(confidences), return_inverse=True, return_counts=True)
    shares = np.bincount(level, weights=right) / counted
    at = np.bincount(level, weights=confidences) / counted
    return np.asarray(np.interp(places, at, isotonic_regression(shares, weights=counted).x))


def _bins(
    confidences: NDArray[np.float64], right: NDArray[np.float64]
) -> tuple[ReliabilityBin, ...]:
    # 0.7 * 10 and a mean of seven tenths may round to either side of 7.
    held = np.minimum((confidences * _BINS + _ROUNDING).astype(int), _BINS - 1)
    return tuple(
        ReliabilityBin(
            answers=int((held == k).sum()),
            confidence=float(confidences[held == k].mean()),
            right=float(right[held == k].mean()),
        )
        for k in np.unique(held)
    )


def _error(bins: tuple[ReliabilityBin, ...]) -> float:
    many = sum(part.answers for part in bins)
    return sum(part.answers * abs(part.confidence - part.right) for part in bins) / many

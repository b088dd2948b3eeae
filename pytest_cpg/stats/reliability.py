"""Reliability: whether confidences are chances of being right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_cpg.stats.graded_answers import GradedAnswers, levels
from pytest_cpg.stats.intervals import FloatArray

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


def _isotonic(confidences: FloatArray, right: FloatArray, places: FloatArray) -> FloatArray:
    """Return the chance of being right at the confidences ``places``, straight between others."""
    from scipy.optimize import isotonic_regression

    # Equal confidences have one chance; the least sure first.
    _, level, counted = np.unique(-levels(confidences), return_inverse=True, return_counts=True)
    shares = np.bincount(level, weights=right) / counted
    at = np.bincount(level, weights=confidences) / counted
    return np.asarray(np.interp(places, at, isotonic_regression(shares, weights=counted).x))


def _bins(confidences: FloatArray, right: FloatArray) -> tuple[ReliabilityBin, ...]:
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

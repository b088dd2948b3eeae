"""Graded answers: which answers are wrong, how sure each was, and what risk the surest leave."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.intervals import BoolArray, FloatArray, check_fraction

SAME_CONFIDENCE = 1e-9
"""Closer confidences differ by rounding alone."""
# What differs by less is equal: shares of whole numbers beside decimals, sums in other orders.
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoints:
    """Where on the curve of risk and coverage the metrics are read.

    ``coverage`` in (0, 1] is the share of answers that count, of ``risk_at_coverage``; ``risk`` in
    [0, 1) the share of wrong ones that is accepted, of ``coverage_at_risk``; ``bins`` the K of
    CR_K, from 2.
    """

    coverage: float = 0.5
    risk: float = 0.05
    bins: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.coverage <= 1:
            raise ValueError(f"need a coverage above 0, up to 1, got {self.coverage!r}")
        if not 0 <= self.risk < 1:
            raise ValueError(f"need a risk from 0, below 1, got {self.risk!r}")
        if self.bins < 2:
            raise ValueError(f"need two bins or more, got {self.bins!r}")


DEFAULT_POINTS = OperatingPoints()


def levels(confidences: FloatArray) -> NDArray[np.intp]:
    """Return which threshold [N] lets each answer in first: 0 is the surest."""
    order = np.argsort(-confidences, kind="stable")
    steps = -np.diff(confidences[order]) >= SAME_CONFIDENCE
    level = np.empty(len(order), dtype=np.intp)
    level[order] = np.concatenate([[0], steps.cumsum()])
    return level


class Curves:
    """Many curves of risk over coverage at once, from counts [R, G].

    Of each of ``R`` samples: how many answers each of ``G`` thresholds lets in, the surest first,
    and how many of these are wrong. A sample has an answer; a threshold may add none.
    """

    def __init__(self, counted: NDArray[np.int64], wrong: NDArray[np.int64]) -> None:
        self.at, self.wrong_at = counted, wrong
        self.ends, self.lost = _from_origin(counted), _from_origin(wrong)
        self.total, self.wrong = self.ends[:, -1], self.lost[:, -1]
        self.risk = _share(self.lost, self.ends)

    def metrics(self, points: OperatingPoints) -> dict[str, FloatArray]:
        """Return each metric [R] that needs no stakes; NaN where undefined."""
        area, _, excess = self.aurc()
        return {
            "loss": self.wrong / self.total,
            "aurc": area,
            "excess": excess,
            "aurcc": (self.at * (self.risk[:, 1:] + self.risk[:, :-1])).sum(axis=1)
            / (2 * self.total),
            **self._orders(),
            "cr": self._coverage_resolution(points.bins),
            "risk_at_coverage": self._risk_at(points.coverage),
            "coverage_at_risk": self._coverage_at(points.risk),
        }

    @property
    def _is_mixed(self) -> BoolArray:
        return (self.wrong > 0) & (self.wrong < self.total)

    def aurc(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return AURC [R], in closed form the mean over all orders within ties, ideal, excess."""
        harmonic = np.concatenate([[0.0], (1 / np.arange(1, self.total.max() + 1)).cumsum()])
        # Of k answers down to within a tie, W + rate * (k - a) are wrong: rate, and the rest by k.
        rest = self.lost[:, :-1] - _share(self.wrong_at, self.at) * self.ends[:, :-1]
        passed = harmonic[self.ends]
        loss = self.wrong / self.total
        area = loss + (rest * np.diff(passed, axis=1)).sum(axis=1) / self.total
        right = self.total - self.wrong
        ideal = loss - right * (harmonic[self.total] - harmonic[right]) / self.total
        beyond = np.where(area - ideal > _ROUNDING, area - ideal, 0.0)
        excess = np.where(self._is_mixed, _share(beyond, loss - ideal), np.nan)
        return area, ideal, excess

    def _orders(self) -> dict[str, FloatArray]:
        """Return the shares of pairs of a right and a wrong answer that are in disorder."""
        right = self.at - self.wrong_at
        reversed_pairs = (right * self.lost[:, :-1]).sum(axis=1)
        ties = (right * self.wrong_at).sum(axis=1)
        pairs = self.wrong * (self.total - self.wrong)
        auroc = np.where(self._is_mixed, 1 - _share(reversed_pairs + ties / 2, pairs), np.nan)
        return {"rpp": reversed_pairs / self.total**2, "auroc": auroc}

    def _coverage_resolution(self, bins: int) -> FloatArray:
        # In whole numbers: 0.3 lies in the fourth bin of ten. 1 lies in the last.
        held = np.minimum(self.ends * bins // self.total[:, None], bins - 1)
        return np.asarray((1 + (np.diff(held, axis=1) > 0).sum(axis=1)) / bins)

    def _risk_at(self, coverage: float) -> FloatArray:
        """Return the risk of the surest answers, ties in random order."""
        wanted = coverage * self.total
        level = (self.ends[:, 1:] < wanted[:, None]).sum(axis=1)
        rows = np.arange(len(level))
        rate = _share(self.wrong_at[rows, level], self.at[rows, level])
        expected = self.lost[rows, level] + rate * (wanted - self.ends[rows, level])
        return np.asarray(expected / wanted)

    def _coverage_at(self, risk: float) -> FloatArray:
        """Return the largest coverage whose risk is accepted."""
        is_accepted = self.risk <= risk + _ROUNDING
        return np.asarray(np.where(is_accepted, self.ends, 0).max(axis=1) / self.total)


def _from_origin(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return sums [R, G + 1] of the first of ``counts`` [R, G], from 0."""
    ends = np.zeros((len(counts), counts.shape[1] + 1), dtype=np.int64)
    np.cumsum(counts, axis=1, out=ends[:, 1:])
    return ends


def _share(part: NDArray[Any], whole: NDArray[Any]) -> FloatArray:
    """Return ``part / whole``, and 0 where there is nothing."""
    return np.asarray(np.divide(part, whole, out=np.zeros(np.shape(whole)), where=whole > 0))


class GradedAnswers:
    """Answers that are known to be right or wrong, with their confidences.

    Parameters
    ----------
    wrong : array [N], bool
    confidences : array [N]
        Finite; only their order matters, and those closer than 1e-9 have none.
    stakes : array [N], optional
        What each answer costs if it is wrong, from 0: by how much the returns of the two policies
        differ. 1 where nothing is given.
    groups : array [N], optional
        Which answers are about the same thing, such as one initial state, and so are drawn
        together. Each is on its own where nothing is given.
    """

    __slots__ = ("confidences", "groups", "stakes", "wrong")

    wrong: BoolArray
    confidences: FloatArray
    stakes: FloatArray
    groups: NDArray[np.intp]

    def __init__(
        self,
        *,
        wrong: ArrayLike,
        confidences: ArrayLike,
        stakes: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> None:
        self.wrong = np.array(wrong)
        if self.wrong.dtype != np.bool_ or self.wrong.ndim != 1 or not self.wrong.size:
            raise ValueError(
                f"need a bool for each answer, True where it is wrong, got {self.wrong.dtype} of "
                f"{self.wrong.shape}"
            )
        n = len(self.wrong)
        self.confidences = _finite("confidences", confidences, n)
        self.stakes = _finite("stakes", np.ones(n) if stakes is None else stakes, n)
        if (self.stakes < 0).any():
            raise ValueError(f"need stakes of 0 or more, got {self.stakes.min()}")
        labels = np.arange(n) if groups is None else np.asarray(groups)
        if labels.shape != (n,):
            raise ValueError(f"need one group for each of {n} answers, got {labels.shape}")
        self.groups = np.unique(labels, return_inverse=True)[1]
        for array in (self.wrong, self.confidences, self.stakes, self.groups):
            array.flags.writeable = False

    def __len__(self) -> int:
        """Return the number of answers."""
        return len(self.wrong)

    def take(self, chosen: ArrayLike) -> GradedAnswers:
        """Return some of the answers, by their indices or by a bool for each."""
        which = np.asarray(chosen)
        return GradedAnswers(
            wrong=self.wrong[which],
            confidences=self.confidences[which],
            stakes=self.stakes[which],
            groups=self.groups[which],
        )

    def surest(self, coverage: float) -> GradedAnswers:
        """Return a share of the answers, in (0, 1], those of the last confidence all."""
        counted = math.ceil(coverage * len(self) - SAME_CONFIDENCE)
        last = np.sort(self.confidences)[-max(1, counted)]
        return self.take(self.confidences >= last - SAME_CONFIDENCE)


def _finite(name: str, values: ArrayLike, n: int) -> FloatArray:
    values = np.array(values)
    # A bool may be an answer in the place of its confidence, and a text would be read as a number.
    if values.dtype.kind in "bSU":
        raise ValueError(f"need numbers as {name}, got {values.dtype}")
    values = values.astype(np.float64)
    if values.shape != (n,):
        raise ValueError(f"need {name} for each of {n} answers, got {values.shape}")
    if not np.isfinite(values).all():
        first = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"need finite {name}, got {values[first]} at {first}")
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectiveRisk:
    """The area under a risk-coverage curve, and what to hold it against.

    ``aurc`` in [0, 1] is the mean risk over all coverages; lower is better. In the ``ideal`` order
    every success is more confident than every failure; a confidence that says nothing has the
    ``base_rate``, the share of failures. ``excess`` is ``aurc`` between these, 0 and 1, and more
    where failures are surer; None where all episodes succeeded, or all failed.
    """

    aurc: float
    ideal: float
    base_rate: float
    excess: float | None
    episodes: int
    method: str


def aurc(confidences: ArrayLike, failures: ArrayLike) -> SelectiveRisk:
    """Return the area under the risk-coverage curve: the mean risk of the k most confident of N.

    For ``k = 1 .. N`` (Geifman and El-Yaniv, NeurIPS 2017; the ideal by Geifman, Uziel and
    El-Yaniv, ICLR 2019), from a confidence [N] and a bool [N] of each episode. Of equal confidences
    the mean over all orders is taken, exactly; a constant one gives the base rate.

    >>> risk = aurc([0.9, 0.9, 0.5, 0.1], [False, True, True, True])
    >>> round(risk.aurc, 4), round(risk.ideal, 4), risk.base_rate
    (0.6042, 0.4792, 0.75)
    """
    answers = GradedAnswers(wrong=failures, confidences=confidences)
    # The surest first.
    _, group = np.unique(-answers.confidences, return_inverse=True)
    sizes = np.bincount(group)
    failed = np.bincount(group[answers.wrong], minlength=len(sizes))
    area, ideal, excess = (float(value[0]) for value in Curves(sizes[None], failed[None]).aurc())
    return SelectiveRisk(
        aurc=area,
        ideal=ideal,
        base_rate=int(failed.sum()) / len(answers),
        excess=None if math.isnan(excess) else excess,
        episodes=len(answers),
        method="AURC, ties averaged",
    )


def risk_at_coverage(confidences: ArrayLike, failures: ArrayLike, coverage: float) -> float:
    """Return the share of failures among this share of episodes, the surest, ties in random order.

    >>> risk_at_coverage([0.9, 0.8, 0.5, 0.1], [False, True, True, True], 0.5)
    0.5
    """
    share = check_fraction("a coverage", coverage, such_as=0.5) if coverage != 1 else 1.0
    answers = GradedAnswers(wrong=failures, confidences=confidences)
    _, group = np.unique(-answers.confidences, return_inverse=True)
    sizes = np.bincount(group)
    failed = np.bincount(group[answers.wrong], minlength=len(sizes))
    return float(Curves(sizes[None], failed[None])._risk_at(share)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMetrics:
    """How often answers are wrong, and whether their confidences tell which.

    docs/statistics.md has the definitions, and what a constant and a random confidence score.
    ``loss`` is the share of wrong answers, ``aurc`` the mean risk over all numbers of answers, and
    ``excess`` that between the ideal order's, 0, and a constant confidence's, 1. ``aurcc`` is the
    area under the curve of risk over coverage, of which a constant confidence has ``loss / 2``;
    ``rpp`` the share of ordered pairs whose wrong answer has the higher confidence; ``cr`` the
    coverage resolution CR_K.

    ``auroc`` is the chance that a right answer has a higher confidence than a wrong one, ties one
    half; ``risk_at_coverage`` the share of wrong ones among the surest; ``coverage_at_risk`` the
    largest coverage of a threshold whose risk is accepted, or 0; ``regret`` the stakes of wrong
    answers, summed and divided by the number of all. None is undefined, where all answers are
    right, or all wrong.
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
    numbers: dict[str, Any] = {name: float(value[0]) for name, value in values.items()}
    undefined = {name: None for name, number in numbers.items() if math.isnan(number)}
    return AnswerMetrics(**(numbers | undefined))


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


def measured(
    answers: GradedAnswers, times: NDArray[np.int64], *, points: OperatingPoints = DEFAULT_POINTS
) -> dict[str, FloatArray]:
    """Return each metric [R] of answers that are counted ``times`` [R, N]; NaN where undefined."""
    level = levels(answers.confidences)
    order = np.argsort(level, kind="stable")
    starts = np.flatnonzero(np.diff(level[order], prepend=-1))
    counted = times[:, order]
    lost = counted * answers.wrong[order]
    curve = Curves(np.add.reduceat(counted, starts, axis=1), np.add.reduceat(lost, starts, axis=1))
    regret = lost @ answers.stakes[order] / curve.total
    return {**curve.metrics(points), "regret": regret}

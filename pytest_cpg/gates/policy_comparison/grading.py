"""Grading: what a model's answers are worth, with an interval for everything that is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_cpg.contracts import BoolArray, IntArray
from pytest_cpg.stats import (
    AnswerMetrics,
    GradedAnswers,
    Interval,
    OperatingPoints,
    Reliability,
    answer_metrics,
    metrics_by,
    reliability,
    sampled_differences,
    sampled_metrics,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What the answers are judged by: the marker's arguments.

    Attributes
    ----------
    level : float
        Coverage of the intervals, in (0, 1), corrected for the family.
    seed : int
        Of the resamples.
    """

    confidence: str
    min_auroc: float
    max_risk: float
    min_coverage: float
    max_loss: float | None
    resamples: int
    level: float
    family_size: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonGrades:
    """The answers to the queries of one horizon."""

    horizon: int
    queries: int
    metrics: AnswerMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Grades:
    """What answers are worth.

    Attributes
    ----------
    intervals : mapping
        Interval of each metric by its name; of one that these answers say nothing about none.
    behind : Interval
        Loss less that of the best trivial answer to the same queries.
    beyond : int
        Right answers to queries that a trivial answer has wrong, of the one that leaves fewest.
    p_values : mapping
        Criterion to the one-sided p-value of a model that only just meets it.
    """

    metrics: AnswerMetrics
    intervals: Mapping[str, Interval]
    behind: Interval
    beyond: int
    p_values: Mapping[str, float]
    by_horizon: tuple[HorizonGrades, ...]
    reliability: Reliability


def grade(
    answers: GradedAnswers,
    criteria: Criteria,
    *,
    trivial: Sequence[BoolArray],
    horizons: IntArray,
) -> Grades:
    """Return what answers are worth; ``trivial`` are wrong ones [N] of what needs no model."""
    points = OperatingPoints(coverage=criteria.min_coverage, risk=criteria.max_risk)
    level = criteria.level
    best = GradedAnswers(
        wrong=min(trivial, key=np.count_nonzero),
        confidences=np.zeros(len(answers)),
        groups=answers.groups,
    )
    found = sampled_metrics(
        answers,
        rng=np.random.default_rng(criteria.seed),
        resamples=criteria.resamples,
        points=points,
    )
    behind = sampled_differences(
        answers,
        best,
        rng=np.random.default_rng(criteria.seed),
        resamples=criteria.resamples,
        points=points,
    )["loss"]
    p_values = {
        "loss": behind.p_above(0.0),
        "coverage_at_risk": found["risk_at_coverage"].p_above(criteria.max_risk),
    }
    if "auroc" in found:
        p_values["auroc"] = found["auroc"].p_below(criteria.min_auroc)
    if criteria.max_loss is not None:
        p_values["max_loss"] = found["loss"].p_above(criteria.max_loss)
    return Grades(
        metrics=answer_metrics(answers, points=points),
        intervals={name: one.interval(level) for name, one in found.items()},
        behind=behind.interval(level),
        beyond=min(int((one & ~answers.wrong).sum()) for one in trivial),
        p_values=p_values,
        by_horizon=tuple(
            HorizonGrades(horizon=horizon, queries=int((horizons == horizon).sum()), metrics=one)
            for horizon, one in metrics_by(answers, horizons, points=points).items()
        ),
        reliability=reliability(answers),
    )

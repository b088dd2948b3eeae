"""Result: what was found of a model's answers, and all that it is judged by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.stats import (
    AnswerMetrics,
    GradedAnswers,
    Interval,
    OperatingPoints,
    Reliability,
    answer_metrics,
    reliability,
    sampled_differences,
    sampled_metrics,
)
from pytest_cpg.stats.graded_answers import levels


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What the answers are judged by: the marker's arguments, the level corrected for the family.

    The seed is of the resamples.
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

    ``intervals`` has one for each metric that these answers say something about. ``behind`` is the
    loss less that of the best trivial answer to the same queries; ``beyond`` counts right answers
    where a trivial answer is wrong, of the one that leaves fewest. ``p_values`` are one-sided, by
    criterion.
    """

    metrics: AnswerMetrics
    intervals: Mapping[str, Interval]
    behind: Interval
    beyond: int
    p_values: Mapping[str, float]
    by_horizon: tuple[HorizonGrades, ...]
    reliability: Reliability


def grade(
    answers: GradedAnswers, criteria: Criteria, *, trivial: Sequence[BoolArray], horizons: IntArray
) -> Grades:
    """Return what answers are worth; ``trivial`` are wrong ones [N] of what needs no model."""
    points = OperatingPoints(coverage=criteria.min_coverage, risk=criteria.max_risk)
    best = GradedAnswers(
        wrong=min(trivial, key=np.count_nonzero),
        confidences=np.zeros(len(answers)),
        groups=answers.groups,
    )
    # Both draw the same resamples.
    drawing: dict[str, Any] = {"resamples": criteria.resamples, "points": points}
    rngs = [np.random.default_rng(criteria.seed) for _ in range(2)]
    sampled = sampled_metrics(answers, rng=rngs[0], **drawing)
    behind = sampled_differences(answers, best, rng=rngs[1], **drawing)["loss"]
    p_values = {
        "loss": behind.p_above(0.0),
        "coverage_at_risk": sampled["risk_at_coverage"].p_above(criteria.max_risk),
    }
    if "auroc" in sampled:
        p_values["auroc"] = sampled["auroc"].p_below(criteria.min_auroc)
    if criteria.max_loss is not None:
        p_values["max_loss"] = sampled["loss"].p_above(criteria.max_loss)
    parts = {at: answers.take(horizons == at) for at in np.unique(horizons).tolist()}
    return Grades(
        metrics=answer_metrics(answers, points=points),
        intervals={name: one.interval(criteria.level) for name, one in sampled.items()},
        behind=behind.interval(criteria.level),
        beyond=min(int((one & ~answers.wrong).sum()) for one in trivial),
        p_values=p_values,
        by_horizon=tuple(
            HorizonGrades(
                horizon=at, queries=len(part), metrics=answer_metrics(part, points=points)
            )
            for at, part in parts.items()
        ),
        reliability=reliability(answers),
    )


_OUTCOMES = re.compile("[01]+")
FEWEST_ERRORS = 10
"""Of fewer wrong answers nobody can say whether confidence tells them from the right ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What was asked, and of whom: queries, their world, a digest of them and their returns.

    ``groups`` are starts, whose queries are resampled together; ``steps`` imagined by every member.
    """

    name: str
    environment: str
    digest: str
    discount: float
    groups: int
    steps: int
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStep:
    """How far one step is off, beside a world in which nothing moves.

    Roots of mean squared errors, in units of how far each observation spreads.
    """

    learned: float
    frozen: float
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComparisonResult:
    """What the fixture ``cpg_opcc`` gives: the test's own, whatever it does to it is in no report.

    ``answers`` and ``labels`` [N] say of each query whether side b is better, as the model has it
    and as it is; ``confidences`` are in [0, 1]. Imagined returns are means of the members, and
    these and true ones have six digits. ``groups`` say which start a query is of.

    The losses are of the better constant answer, which is ``constant_answer``, and of a world that
    stays where it starts. ``one_step`` is None without training data. ``faults`` are why model or
    setup are broken: of such a model nothing else is said. ``seconds`` is how long the model took
    to answer.
    """

    design: Design
    criteria: Criteria
    answers: BoolArray
    labels: BoolArray
    confidences: FloatArray
    imagined_a: FloatArray
    imagined_b: FloatArray
    returns_a: FloatArray
    returns_b: FloatArray
    horizons: IntArray
    groups: IntArray
    grades: Grades
    constant_loss: float
    constant_answer: bool
    frozen_loss: float
    one_step: OneStep | None = None
    faults: tuple[str, ...] = ()
    seconds: float = 0.0
    # What a trivial answer would say is a criterion, and nothing is run in place of a gate.
    blind: ClassVar[str] = ""
    check: ClassVar[str] = ""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def level(self) -> float:
        """Of its intervals."""
        return self.criteria.level

    @property
    def wrong(self) -> BoolArray:
        """Which answers are wrong [N]."""
        return np.asarray(self.answers != self.labels)

    @property
    def wrong_count(self) -> int:
        """Number of wrong answers."""
        return int(self.wrong.sum())

    @property
    def graded(self) -> GradedAnswers:
        """The answers, with what each costs if it is wrong."""
        return GradedAnswers(
            wrong=self.wrong,
            confidences=self.confidences,
            stakes=np.abs(self.returns_b - self.returns_a),
            groups=self.groups,
        )

    @property
    def loss(self) -> Interval:
        """Share of wrong answers."""
        return self.grades.intervals["loss"]

    @property
    def auroc(self) -> Interval | None:
        """Chance that a right answer has a higher confidence than a wrong one.

        None where there are too few wrong answers to say.
        """
        return None if self.wrong_count < FEWEST_ERRORS else self.grades.intervals.get("auroc")

    @property
    def coverage_at_risk(self) -> Interval:
        """Share of queries that may be answered with at most ``max_risk`` wrong among them.

        As it is in these queries: it jumps, and its interval is of the percentiles of resamples.
        """
        return self.grades.intervals["coverage_at_risk"]

    @property
    def surest_loss(self) -> Interval:
        """Share of wrong answers among the surest ``min_coverage`` of all."""
        return self.grades.intervals["risk_at_coverage"]

    @property
    def trivial_loss(self) -> float:
        """Loss of the best answer that needs no model of how the world moves."""
        return min(self.constant_loss, self.frozen_loss)

    @property
    def mistakes(self) -> tuple[int, ...]:
        """Indices of the wrong answers, the surest first."""
        wrong, stakes = np.flatnonzero(self.wrong), np.abs(self.returns_b - self.returns_a)
        order = np.lexsort((-stakes[wrong], -self.confidences[wrong]))
        return tuple(wrong[order].tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswers:
    """The answers that were accepted last: ``"1"`` for each wrong one, in the order of the queries.

    Levels are ranks of the confidences, 0 for the surest, as digits enough to tell those near 1
    apart would fill the file.
    """

    queries: str
    digest: str
    method: str
    wrong: str
    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        if not _OUTCOMES.fullmatch(self.wrong):
            raise ValueError(f"need a 0 or 1 for each answer, got {self.wrong!r:.40}")
        if len(self.levels) != len(self.wrong):
            raise ValueError(
                f"need a level for each of {len(self.wrong)} answers, got {len(self.levels)}"
            )

    @classmethod
    def of(cls, result: ComparisonResult) -> KeptAnswers:
        """Return what is kept of a result."""
        return cls(
            queries=result.design.name,
            digest=result.design.digest,
            method=result.criteria.confidence,
            wrong="".join("01"[is_wrong] for is_wrong in result.wrong.tolist()),
            levels=tuple(levels(result.graded.confidences).tolist()),
        )

    def graded(self, result: ComparisonResult) -> GradedAnswers:
        """Return the answers, grouped as those of a result to the same queries."""
        return GradedAnswers(
            wrong=np.array([sign == "1" for sign in self.wrong]),
            confidences=-np.array(self.levels),
            groups=result.groups,
        )

"""Bootstrap: how sure the metrics of graded answers are, and their changes between two models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from pytest_cpg.stats.graded_answers import (
    DEFAULT_POINTS,
    SAME_CONFIDENCE,
    GradedAnswers,
    OperatingPoints,
    measured,
)
from pytest_cpg.stats.intervals import FloatArray, Interval, check_count
from pytest_cpg.stats.sampled import FEWEST_RESAMPLES, Adjusted, Percentile, Sampled, Scaled, Share

# Resamples that are measured together: their counts fit into a cache.
_AT_ONCE = 64
# Metrics that jump, and have no standard error to speak of.
_JUMPING = ("cr", "coverage_at_risk")


def sampled_metrics(
    answers: GradedAnswers,
    *,
    rng: np.random.Generator,
    resamples: int = 1000,
    points: OperatingPoints = DEFAULT_POINTS,
) -> dict[str, Sampled]:
    """Return every metric that is defined, with its uncertainty, by a bootstrap over whole groups.

    Resamples give the standard errors, and plain percentiles those of metrics that jump only: with
    few wrong answers these are far too narrow. ``loss`` and ``risk_at_coverage`` have Wilson's and
    Jeffreys' interval at the effective number of answers; ``auroc`` Student's on the logit scale,
    and the other areas, ``rpp`` and ``regret`` on the log scale, with one degree of freedom less
    than groups that hold a wrong answer, or a right one. docs/statistics.md has their coverage.

    Absent are metrics that are undefined, that have fewer than two such groups, or, but for
    ``auroc``, of which resamples do not differ. Raises ValueError when there are too few resamples,
    or fewer than two groups.
    """
    drawn = _resampled([answers], rng=rng, resamples=resamples, points=points)[0]
    once = measured(answers, np.ones((1, len(answers)), dtype=np.int64), points=points)
    metrics = {
        name: _sampled(name, float(once[name][0]), drawn[name], answers=answers, points=points)
        for name in once
    }
    return {name: sampled for name, sampled in metrics.items() if sampled is not None}


def sampled_differences(
    now: GradedAnswers,
    before: GradedAnswers,
    *,
    rng: np.random.Generator,
    resamples: int = 1000,
    points: OperatingPoints = DEFAULT_POINTS,
) -> dict[str, Sampled]:
    """Return how every metric changed, ``now - before``, with its uncertainty.

    Both are answers to the same queries in the same order, and resampled together. The change of
    the loss is bounded as by Bonett and Price (J. Educ. Behav. Stat. 37:479-488, 2012), at the
    effective number of answers; those of metrics that jump by percentiles, others by Student's t.
    Raises ValueError as `sampled_metrics`, and for other groups.
    """
    if not np.array_equal(now.groups, before.groups):
        raise ValueError(
            f"need answers to the same queries in the same groups, got {len(now)} and {len(before)}"
        )
    pair = [now, before]
    drawn, earlier = _resampled(pair, rng=rng, resamples=resamples, points=points)
    ones = np.ones((1, len(now)), dtype=np.int64)
    once, first = (measured(answers, ones, points=points) for answers in pair)
    freedom = min(_groups_of(answers)[1] for answers in pair) - 1
    changes = {
        name: _difference(
            name,
            float(once[name][0] - first[name][0]),
            drawn[name] - earlier[name],
            freedom=freedom,
        )
        for name in once
    }
    changes["loss"] = _change_of_loss(now, before, drawn["loss"] - earlier["loss"])
    return {name: sampled for name, sampled in changes.items() if sampled is not None}


def _groups_of(answers: GradedAnswers) -> tuple[int, int]:
    """Return how many groups hold a wrong answer, and how many the rarer of wrong and right."""
    wrong, right = (
        len(np.unique(answers.groups[rows])) for rows in (answers.wrong, ~answers.wrong)
    )
    return wrong, min(wrong, right)


def _resampled(
    tables: Sequence[GradedAnswers],
    *,
    rng: np.random.Generator,
    resamples: int,
    points: OperatingPoints,
) -> list[dict[str, FloatArray]]:
    """Return each metric [R] of each table, in the same resamples of groups."""
    wanted = check_count("resamples", resamples, least=FEWEST_RESAMPLES)
    groups = tables[0].groups
    many = int(groups.max()) + 1
    if many < 2:
        raise ValueError(f"need two groups or more to resample, got {many}")
    parts: list[list[dict[str, FloatArray]]] = [[] for _ in tables]
    for start in range(0, wanted, _AT_ONCE):
        rows = min(_AT_ONCE, wanted - start)
        drawn = rng.integers(many, size=(rows, many)) + many * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * many).reshape(rows, many)
        for table, metrics in zip(tables, parts, strict=True):
            metrics.append(measured(table, times[:, groups], points=points))
    return [
        {name: np.concatenate([part[name] for part in metrics]) for name in metrics[0]}
        for metrics in parts
    ]


def _sampled(
    name: str,
    estimate: float,
    drawn: FloatArray,
    *,
    answers: GradedAnswers,
    points: OperatingPoints,
) -> Sampled | None:
    if np.isnan(estimate):
        return None
    if name in _JUMPING:
        return Percentile(estimate=estimate, resamples=drawn)
    error = float(np.nanstd(drawn))
    if name in ("loss", "risk_at_coverage"):
        counted = answers if name == "loss" else answers.surest(points.coverage)
        return _share(estimate, error, answers, counted)
    groups = _groups_of(answers)[name == "auroc"]
    if groups < 2 or (error == 0 and name != "auroc"):
        return None
    if error == 0:
        return Share(estimate=estimate, size=groups)
    scale = "logit" if name == "auroc" else "log"
    high = np.inf if name in ("excess", "regret") else 1.0
    return Scaled(
        estimate=estimate, error=error, freedom=groups - 1, scale=scale, low=0.0, high=high
    )


def _share(estimate: float, error: float, answers: GradedAnswers, counted: GradedAnswers) -> Share:
    """Return the share of wrong ones among those of the answers that are counted.

    Of answers in groups as many are independent as the wrong ones among all answers tell, by
    Student's t; the surest ones alone have too few to tell. Of a share of all answers it is the
    narrower of that interval and of the one that takes answers of a group to be all alike.
    """
    is_rare = len(counted) < len(answers)
    share = Share(estimate=estimate, size=float(len(counted)), is_rare=is_rare)
    size = len(counted) / _inflation(answers)
    if is_rare and error > 0 and 0 < estimate < 1:
        # Which answers are the surest is chance, too.
        size = min(size, estimate * (1 - estimate) / error**2)
    alike = _alike(counted)
    if alike == len(counted):
        return replace(share, size=size)
    if is_rare:
        return replace(share, size=size, freedom=int(answers.groups.max()))
    _, contrasted = _groups_of(answers)
    if contrasted < 2:
        return replace(share, size=alike)
    varying = replace(share, size=size, freedom=contrasted - 1)
    both = (replace(share, size=alike), varying)
    return min(both, key=_width)


def _inflation(answers: GradedAnswers) -> float:
    """Return how many times as much the share of wrong answers varies as of independent ones."""
    sizes = np.bincount(answers.groups)
    lost = np.bincount(answers.groups, weights=answers.wrong)
    share = lost.sum() / sizes.sum()
    if not 0 < share < 1:
        return 1.0
    spread = ((lost - share * sizes) ** 2).sum()
    return max(1.0, float(spread / (sizes.sum() * share * (1 - share))))


def _alike(answers: GradedAnswers) -> float:
    """Return how many answers there are if those of a group count as one (Kish 1965)."""
    return float(len(answers) ** 2 / (np.bincount(answers.groups) ** 2).sum())


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


def _difference(name: str, change: float, drawn: FloatArray, *, freedom: int) -> Sampled | None:
    if np.isnan(change):
        return None
    if name in _JUMPING:
        return Percentile(estimate=change, resamples=drawn)
    if freedom < 1:
        return None
    reach = np.inf if name in ("excess", "regret") else 1.0
    return Scaled(
        estimate=change,
        error=float(np.nanstd(drawn)),
        freedom=freedom,
        scale="plain",
        low=-reach,
        high=reach,
    )


def _change_of_loss(now: GradedAnswers, before: GradedAnswers, drawn: FloatArray) -> Sampled:
    n = len(now)
    more, fewer = int((now.wrong & ~before.wrong).sum()), int((before.wrong & ~now.wrong).sum())
    change, moved = (more - fewer) / n, (more + fewer) / n
    error, naive = float(drawn.std()), (moved - change**2) / n

    def inflated(inflation: float, freedom: int | None = None) -> Adjusted:
        """Return the change if answers of one group change together: fewer are independent."""
        p, q, m = (more / inflation + 1), (fewer / inflation + 1), n / inflation + 2
        spread = np.sqrt(((p + q) / m - ((p - q) / m) ** 2) / m)
        return Adjusted(estimate=change, centre=(p - q) / m, error=float(spread), freedom=freedom)

    alike = inflated(n / _alike(now))
    freedom = len(np.unique(now.groups[now.wrong != before.wrong])) - 1
    if int(now.groups.max()) + 1 == n or naive <= 0 or error == 0 or freedom < 1:
        return alike
    varying = inflated(max(1.0, error**2 / naive), freedom)
    return min(alike, varying, key=_width)


def _width(sampled: Sampled) -> float:
    interval = sampled.interval()
    return interval.high - interval.low

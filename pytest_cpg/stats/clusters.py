"""Clusters: the gap of a training recipe, from several checkpoints of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from numpy.typing import ArrayLike

from pytest_cpg.stats.counts import check_arm
from pytest_cpg.stats.intervals import Interval, critical_value, student_critical_value
from pytest_cpg.stats.returns import paired_mean


def cluster_interval(
    oracle: Sequence[tuple[int, int]],
    learned: Sequence[tuple[int, int]],
    *,
    level: float = 0.95,
    same_starts: bool = True,
) -> Interval:
    """Bound the gap of a recipe by (successes, episodes) of both arms of each checkpoint.

    The mean of the checkpoints' gaps, each counted once, by Student's interval on them (Ibragimov
    and Mueller, J. Bus. Econ. Stat. 28:453-468, 2010, who show that unequal variances only make it
    conservative at levels from 0.917 on), with two additions:

    - The variance between checkpoints is taken to be at least the mean of the Agresti-Caffo
      variances within them, so that gaps which happen to be equal are not taken for certain.
    - With ``same_starts``, starts shared by all checkpoints have their luck in common, which no
      number of checkpoints averages out. Its variance is at most the mean of those within, and the
      squared half widths add up (Zou and Donner, Statistics in Medicine 27:1693-1702, 2008).

    >>> oracle, learned = [(6, 10), (4, 10), (4, 10)], [(10, 10), (2, 10), (10, 10)]
    >>> ci = cluster_interval(oracle, learned, same_starts=False)
    >>> f"{ci.estimate:+.3f} [{ci.low:+.3f}, {ci.high:+.3f}]"
    '-0.267 [-1.000, +0.768]'
    """
    gaps, variances = [], []
    for first, second in _both_arms(oracle, learned):
        (s, n), (t, m) = check_arm(*first, prefix="oracle_"), check_arm(*second, prefix="learned_")
        gaps.append((s * m - t * n) / (n * m))
        variances.append(
            math.fsum((k + 1) * (e - k + 1) / (e + 2) ** 3 for k, e in ((s, n), (t, m)))
        )
    return _over_checkpoints(gaps, variances, level=level, same_starts=same_starts, most=1.0)


def cluster_return_interval(
    oracle: Sequence[ArrayLike],
    learned: Sequence[ArrayLike],
    *,
    level: float = 0.95,
    same_starts: bool = True,
) -> Interval:
    """Bound the gap of a recipe in mean returns, from returns [N] of both arms of each checkpoint.

    As `cluster_interval`; the variance within is that of the mean difference over the starts.
    """
    means = [paired_mean(*arms) for arms in _both_arms(oracle, learned)]
    gaps, variances = [mean for mean, _, _ in means], [error**2 for _, error, _ in means]
    return _over_checkpoints(gaps, variances, level=level, same_starts=same_starts, most=math.inf)


def _both_arms(oracle: Sequence[Any], learned: Sequence[Any]) -> list[tuple[Any, Any]]:
    if len(oracle) != len(learned):
        raise ValueError(
            f"need both arms of each checkpoint, got {len(oracle)} oracle and {len(learned)} "
            f"learned arms"
        )
    if len(oracle) < 2:
        raise ValueError(f"need at least two checkpoints to judge a recipe, got {len(oracle)}")
    return list(zip(oracle, learned, strict=True))


def _over_checkpoints(
    gaps: Sequence[float],
    variances: Sequence[float],
    *,
    level: float,
    same_starts: bool,
    most: float,
) -> Interval:
    """Return the interval on the mean gap, of at most a size, from gap and variance of each."""
    count = len(gaps)
    within = math.fsum(variances) / count
    estimate = math.fsum(gaps) / count
    spread = math.fsum((gap - estimate) ** 2 for gap in gaps) / (count - 1)
    t = student_critical_value(level, freedom=count - 1)
    squared = t**2 * max(spread, within) / count
    if same_starts:
        squared += critical_value(level) ** 2 * within
    half = math.sqrt(squared)
    return Interval(
        estimate=estimate,
        low=max(-most, estimate - half),
        high=min(most, estimate + half),
        level=float(level),
        method="Student t over checkpoints",
    )

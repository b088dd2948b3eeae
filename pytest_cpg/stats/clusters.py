"""Clusters: the gap of a training recipe, from several checkpoints of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from numpy.typing import ArrayLike

from pytest_cpg.stats.counts import check_arm
from pytest_cpg.stats.intervals import Interval, critical_value
from pytest_cpg.stats.returns import paired_mean
from pytest_cpg.stats.student import student_critical_value


def cluster_interval(
    oracle: Sequence[tuple[int, int]],
    learned: Sequence[tuple[int, int]],
    *,
    level: float = 0.95,
    same_starts: bool = True,
) -> Interval:
    """Bound the gap of a recipe, of which some checkpoints were trained and compared.

    The estimate is the mean of the checkpoints' gaps, each counted once however many episodes it
    had: the recipe is what is judged, and a checkpoint is one sample of it. The interval is
    Student's on these gaps (Ibragimov and Mueller, J. Bus. Econ. Stat. 28:453-468, 2010, who show
    that unequal variances only make it conservative at levels from 0.917 on), with two additions:

    - The variance between checkpoints is taken to be at least the mean of the Agresti-Caffo
      variances within them, so that gaps which happen to be equal are not taken for certain.
    - Starts shared by all checkpoints, and with them the oracle arm, have their luck in common,
      which no number of checkpoints averages out or shows. Its variance is at most the mean of
      those within, and the squared half widths add up (Zou and Donner, Statistics in Medicine
      27:1693-1702, 2008).

    With two checkpoints it hardly ever excludes 0. Student's t takes the gaps to be about normal.
    Of a recipe whose checkpoints either work or fail, ``G`` checkpoints are all of one kind in 1 of
    ``2**G`` runs even if both kinds are equally likely: only six or more make that rare.

    >>> oracle, learned = [(6, 10), (4, 10), (4, 10)], [(10, 10), (2, 10), (10, 10)]
    >>> ci = cluster_interval(oracle, learned, same_starts=False)
    >>> f"{ci.estimate:+.3f} [{ci.low:+.3f}, {ci.high:+.3f}]"
    '-0.267 [-1.000, +0.768]'

    Parameters
    ----------
    oracle, learned : sequence of G (successes, episodes)
        Of each checkpoint, at least two.
    same_starts : bool
        Whether the checkpoints were run from the same starts, or some of them; the wider interval.
    """
    _check_arms(len(oracle), len(learned))
    gaps, variances = [], []
    for first, second in zip(oracle, learned, strict=True):
        s, n = check_arm(*first, prefix="oracle_")
        t, m = check_arm(*second, prefix="learned_")
        gaps.append((s * m - t * n) / (n * m))
        variances.append(
            math.fsum((k + 1) * (e - k + 1) / (e + 2) ** 3 for k, e in ((s, n), (t, m)))
        )
    estimate, half = _over_checkpoints(gaps, variances, level=level, same_starts=same_starts)
    return Interval(
        estimate=estimate,
        low=max(-1.0, estimate - half),
        high=min(1.0, estimate + half),
        level=float(level),
        method=_METHOD,
    )


def cluster_return_interval(
    oracle: Sequence[ArrayLike],
    learned: Sequence[ArrayLike],
    *,
    level: float = 0.95,
    same_starts: bool = True,
) -> Interval:
    """Bound the gap of a recipe in mean returns, oracle minus learned, in units of return.

    As `cluster_interval`, with the mean returns of each checkpoint instead of its rates. The
    variance within a checkpoint is that of the mean difference over its starts.

    >>> oracle, learned = [[3, 5, 4], [3, 5, 4]], [[2, 5, 3], [1, 2, 1]]
    >>> ci = cluster_return_interval(oracle, learned, same_starts=False)
    >>> f"{ci.estimate:+.2f} [{ci.low:+.2f}, {ci.high:+.2f}]"
    '+1.67 [-11.04, +14.37]'

    Parameters
    ----------
    oracle, learned : sequence of G arrays [N]
        Returns of each checkpoint's arms, from the same starts in the same order; at least two
        checkpoints of at least two starts. ``N`` may differ between checkpoints.
    """
    _check_arms(len(oracle), len(learned))
    means = [paired_mean(*arms) for arms in zip(oracle, learned, strict=True)]
    estimate, half = _over_checkpoints(
        [mean for mean, _, _ in means],
        [error**2 for _, error, _ in means],
        level=level,
        same_starts=same_starts,
    )
    return Interval(
        estimate=estimate,
        low=estimate - half,
        high=estimate + half,
        level=float(level),
        method=_METHOD,
    )


_METHOD = "Student t over checkpoints"


def _check_arms(oracle: int, learned: int) -> None:
    if oracle != learned:
        raise ValueError(
            f"need both arms of each checkpoint, got {oracle} oracle and {learned} learned arms"
        )
    if oracle < 2:
        raise ValueError(f"need at least two checkpoints to judge a recipe, got {oracle}")


def _over_checkpoints(
    gaps: Sequence[float], variances: Sequence[float], *, level: float, same_starts: bool
) -> tuple[float, float]:
    """Return the mean gap and the half width of its interval, from the gap and variance of each."""
    count = len(gaps)
    within = math.fsum(variances) / count
    estimate = math.fsum(gaps) / count
    spread = math.fsum((gap - estimate) ** 2 for gap in gaps) / (count - 1)
    t = student_critical_value(level, freedom=count - 1)
    squared = t**2 * max(spread, within) / count
    if same_starts:
        squared += critical_value(level) ** 2 * within
    return estimate, math.sqrt(squared)

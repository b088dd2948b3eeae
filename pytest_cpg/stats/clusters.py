"""Clusters: the gap of a training recipe, from several checkpoints of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_cpg.stats.counts import check_arm
from pytest_cpg.stats.intervals import Interval, critical_value
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

    Parameters
    ----------
    oracle, learned : sequence of G (successes, episodes)
        Of each checkpoint, at least two.
    level : float
        Coverage of the interval, in (0, 1).
    same_starts : bool
        Whether the checkpoints were run from the same starts, or some of them; the wider interval.

    Raises
    ------
    ValueError
        When there are fewer than two checkpoints, when an arm is missing, or when the counts or
        the level are impossible.

    Examples
    --------
    >>> oracle, learned = [(6, 10), (4, 10), (4, 10)], [(10, 10), (2, 10), (10, 10)]
    >>> ci = cluster_interval(oracle, learned, same_starts=False)
    >>> f"{ci.estimate:+.3f} [{ci.low:+.3f}, {ci.high:+.3f}]"
    '-0.267 [-1.000, +0.768]'
    """
    gaps, within = _gaps_and_variances(oracle, learned)
    count = len(gaps)
    estimate = math.fsum(gaps) / count
    spread = math.fsum((gap - estimate) ** 2 for gap in gaps) / (count - 1)
    t = student_critical_value(level, freedom=count - 1)
    squared = t**2 * max(spread, within) / count
    if same_starts:
        squared += critical_value(level) ** 2 * within
    half = math.sqrt(squared)
    return Interval(
        estimate=estimate,
        low=max(-1.0, estimate - half),
        high=min(1.0, estimate + half),
        level=float(level),
        method="Student t over checkpoints",
    )


def _gaps_and_variances(
    oracle: Sequence[tuple[int, int]], learned: Sequence[tuple[int, int]]
) -> tuple[list[float], float]:
    """Return the gap of each checkpoint, and the mean variance of one gap."""
    if len(oracle) != len(learned):
        raise ValueError(
            f"need both arms of each checkpoint, got {len(oracle)} oracle and {len(learned)} "
            f"learned arms"
        )
    if len(oracle) < 2:
        raise ValueError(f"need at least two checkpoints to judge a recipe, got {len(oracle)}")
    gaps, variances = [], []
    for first, second in zip(oracle, learned, strict=True):
        s, n = check_arm(*first, prefix="oracle_")
        t, m = check_arm(*second, prefix="learned_")
        gaps.append((s * m - t * n) / (n * m))
        variances += [(k + 1) * (e - k + 1) / (e + 2) ** 3 for k, e in ((s, n), (t, m))]
    return gaps, math.fsum(variances) / len(gaps)

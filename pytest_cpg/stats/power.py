"""Power: what a gate of a given size can show, and how many episodes a wanted finding takes."""

from __future__ import annotations

import math
from collections.abc import Callable

from pytest_cpg.stats.counts import check_arm, check_count
from pytest_cpg.stats.intervals import agresti_caffo_bounds, critical_value


def smallest_decisive_episodes(*, level: float) -> int:
    """Return the fewest episodes per arm with which a gate can say MODEL BOTTLENECK at all.

    From there on an oracle that always succeeds beside a model that never does gives an
    Agresti-Caffo interval above 0; with fewer episodes no outcome does.

    Raises
    ------
    ValueError
        When the level is impossible.

    Examples
    --------
    >>> smallest_decisive_episodes(level=0.95)
    3
    """
    z = critical_value(level)
    # low > 0 means n^2 (n + 2) > 2 z^2 (n + 1), which n > 2 z is enough for.
    return _smallest(
        lambda n: agresti_caffo_bounds(n, n, 0, n, z=z)[0] > 0, most=math.floor(2 * z) + 1
    )


def smallest_detectable_gap(oracle_successes: int, episodes: int, *, level: float) -> float | None:
    """Return the smallest drop from this oracle count that reads MODEL BOTTLENECK, in (0, 1].

    Every larger drop reads so too. This is what the gate could flag once it is observed, not what
    it finds with some probability. None when even a model without any success is not flagged.

    Parameters
    ----------
    oracle_successes, episodes : int
        The oracle arm; the learned arm is taken to have as many episodes.

    Raises
    ------
    ValueError
        When the counts or the level are impossible.

    Examples
    --------
    >>> smallest_detectable_gap(47, 50, level=0.95)
    0.14
    """
    s, n = check_arm(oracle_successes, episodes, prefix="oracle_")
    z = critical_value(level)

    def flagged(drop: int) -> bool:
        return agresti_caffo_bounds(s, n, s - drop, n, z=z)[0] > 0

    # The squared condition is a convex parabola in the learned rate that is negative at no drop,
    # so that flagged drops have no holes between them.
    return _smallest(flagged, most=s) / n if flagged(s) else None


def episodes_to_resolve(
    oracle_successes: int,
    oracle_episodes: int,
    learned_successes: int,
    learned_episodes: int,
    *,
    level: float = 0.95,
    limit: int = 100_000,
) -> int | None:
    """Return the fewest episodes per arm at which these two rates give an interval without 0.

    The Agresti-Caffo interval is taken at exactly the observed rates, so at counts that need not
    be whole; it excludes 0 at every larger size too. This is no promise about a new run: the
    observed rates are estimates, and if they were true, the interval would exclude 0 in about half
    of the runs of this size. It is the total per arm, not what is missing, and at most the present
    size when the interval of two equally large arms excludes 0 already.

    Parameters
    ----------
    level : float
        Coverage of the interval, in (0, 1).
    limit : int
        The most episodes per arm worth answering.

    Returns
    -------
    int or None
        None when the rates are equal, or when more than ``limit`` episodes would be needed.

    Raises
    ------
    ValueError
        When the counts, the level or the limit are impossible.

    Examples
    --------
    >>> episodes_to_resolve(3, 10, 0, 10)
    14
    """
    oracle = check_arm(oracle_successes, oracle_episodes, prefix="oracle_")
    learned = check_arm(learned_successes, learned_episodes, prefix="learned_")
    most = check_count("limit", limit, least=1)
    z = critical_value(level)

    def resolved(n: int) -> bool:
        expected = [n * successes / episodes for successes, episodes in (oracle, learned)]
        low, high = agresti_caffo_bounds(expected[0], n, expected[1], n, z=z)
        return low > 0 or high < 0

    return _smallest(resolved, most=most) if resolved(most) else None


def _smallest(holds: Callable[[int], bool], *, most: int) -> int:
    """Return the smallest number from 1 to ``most`` that ``holds``, as all above it must."""
    least = 1
    while least < most:
        middle = (least + most) // 2
        if holds(middle):
            most = middle
        else:
            least = middle + 1
    return most

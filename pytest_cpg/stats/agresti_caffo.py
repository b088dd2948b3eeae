"""Agresti and Caffo's interval of two independent arms (Am. Stat. 54:280-288, 2000)."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike

from pytest_cpg.stats.intervals import (
    BoolArray,
    Interval,
    as_floats,
    check_arm,
    check_margin,
    critical_value,
    exceeds,
    smallest,
    smallest_up_to,
    upper_tail,
    wald_bounds,
)
from pytest_cpg.stats.pairing import (
    PairRates,
    joint_chance,
    likely_counts,
    multinomial_chance,
    total_chance,
)


def agresti_caffo_interval(
    oracle_successes: int,
    oracle_episodes: int,
    learned_successes: int,
    learned_episodes: int,
    *,
    level: float = 0.95,
) -> Interval:
    """Bound the gap of two independent arms (Agresti and Caffo, Am. Stat. 54:280-288, 2000).

    The arms may differ in size. Where nearly all of one arm and nearly none of the other succeed,
    the formula leaves [-1, 1]; such a bound is set to -1 or 1, which no difference can pass.

    >>> ci = agresti_caffo_interval(40, 150, 0, 150)
    >>> f"{ci.estimate:+.3f} [{ci.low:+.3f}, {ci.high:+.3f}]"
    '+0.267 [+0.191, +0.335]'
    """
    s, n = check_arm(oracle_successes, oracle_episodes, prefix="oracle_")
    t, m = check_arm(learned_successes, learned_episodes, prefix="learned_")
    low, high = agresti_caffo_bounds(s, n, t, m, z=critical_value(level))
    return Interval(
        # One division of whole numbers rounds once: 47 and 37 of 50 differ by 0.2.
        estimate=(s * m - t * n) / (n * m),
        low=low,
        high=high,
        level=float(level),
        method="Agresti-Caffo 2000",
    )


def agresti_caffo_bounds(
    oracle_successes: float,
    oracle_episodes: float,
    learned_successes: float,
    learned_episodes: float,
    *,
    z: float,
) -> tuple[float, float]:
    """Return the bounds in [-1, 1], for counts that are trusted and need not be whole."""
    s, n, t, m = oracle_successes, oracle_episodes, learned_successes, learned_episodes
    return wald_bounds((s + 1) / (n + 2) - (t + 1) / (m + 2), _variance(s, n, t, m), z)


def _variance(s: Any, n: Any, t: Any, m: Any) -> Any:
    # Counting failures instead of 1 - rate keeps the digits of rates near 1.
    return (s + 1) * (n - s + 1) / (n + 2) ** 3 + (t + 1) * (m - t + 1) / (m + 2) ** 3


def agresti_caffo_above(
    oracle_successes: ArrayLike,
    oracle_episodes: ArrayLike,
    learned_successes: ArrayLike,
    learned_episodes: ArrayLike,
    *,
    gap: float = 0.0,
    z: float,
) -> BoolArray:
    """Return where the interval lies above ``gap``, for counts that broadcast and are trusted."""
    s, n = as_floats(oracle_successes, oracle_episodes)
    t, m = as_floats(learned_successes, learned_episodes)
    excess = (s + 1) / (n + 2) - (t + 1) / (m + 2) - gap
    return exceeds(excess, z**2 * _variance(s, n, t, m))


def agresti_caffo_p_value(
    oracle_successes: int, oracle_episodes: int, learned_successes: int, learned_episodes: int
) -> float:
    """Return the one-sided p-value that goes with `agresti_caffo_interval`, in (0, 1].

    The smallest alpha at which the interval of level ``1 - 2 * alpha`` lies above 0.
    """
    s, n = check_arm(oracle_successes, oracle_episodes, prefix="oracle_")
    t, m = check_arm(learned_successes, learned_episodes, prefix="learned_")
    gap = ((s + 1) * (m + 2) - (t + 1) * (n + 2)) / ((n + 2) * (m + 2))
    return upper_tail(gap / math.sqrt(_variance(s, n, t, m)))


def agresti_caffo_power(rates: PairRates, n: int, m: int, *, z: float, share: float) -> float:
    """Return the chance of an interval above 0 with ``n`` learned and ``m`` oracle episodes."""
    s, t = likely_counts(m, rates.oracle)[:, None], likely_counts(n, rates.learned)
    if share == 0:
        mass = multinomial_chance(m, (s, rates.oracle)) * multinomial_chance(n, (t, rates.learned))
    else:
        mass = joint_chance(rates, n, m, s, t)
    return total_chance(mass[agresti_caffo_above(s, m, t, n, z=z)])


def smallest_decisive_episodes(*, level: float) -> int:
    """Return the fewest episodes per arm of which any outcome gives an interval above 0.

    >>> smallest_decisive_episodes(level=0.95)
    3
    """
    z = critical_value(level)
    # low > 0 means n^2 (n + 2) > 2 z^2 (n + 1), which n > 2 z is enough for.
    return smallest(
        lambda n: agresti_caffo_bounds(n, n, 0, n, z=z)[0] > 0, most=math.floor(2 * z) + 1
    )


def episodes_to_settle(
    oracle_successes: int,
    oracle_episodes: int,
    learned_successes: int,
    learned_episodes: int,
    *,
    margin: float | None = None,
    level: float = 0.95,
    limit: int = 100_000,
) -> int | None:
    """Return the fewest episodes per arm at which exactly these rates settle a gate.

    Without a margin the interval excludes 0 there, with one it ends below the margin, and so it
    does at every larger size. A new run of this size says so about half of the time. None when that
    needs more than ``limit`` episodes.

    >>> episodes_to_settle(3, 10, 0, 10), episodes_to_settle(50, 50, 50, 50, margin=0.1)
    (14, 26)
    """
    s, n = check_arm(oracle_successes, oracle_episodes, prefix="oracle_")
    t, m = check_arm(learned_successes, learned_episodes, prefix="learned_")
    z = critical_value(level)
    if margin is not None:
        check_margin(margin)

    def is_settled(size: int) -> bool:
        low, high = agresti_caffo_bounds(size * s / n, size, size * t / m, size, z=z)
        return low > 0 or high < 0 if margin is None else high < margin

    return smallest_up_to(is_settled, limit)

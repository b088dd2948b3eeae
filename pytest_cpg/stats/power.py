"""Power: Agresti and Caffo's interval of two arms, and the chance that a gate finds a gap.

That of fixed size, by the interval of two independent arms (Am. Stat. 54:280-288, 2000) or by a
paired one, and what it takes to find a gap.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import cache
from typing import Any

from numpy.typing import ArrayLike

from pytest_cpg.stats.intervals import (
    BoolArray,
    Interval,
    as_floats,
    check_arm,
    check_count,
    check_fraction,
    check_margin,
    critical_value,
    exceeds,
    real_or_nan,
    smallest,
    smallest_up_to,
    upper_tail,
    wald_bounds,
)
from pytest_cpg.stats.paired import paired_method
from pytest_cpg.stats.pairing import (
    PairRates,
    joint_chance,
    likely_counts,
    multinomial_chance,
    pair_rates,
    total_chance,
)

# Detectable gaps are rounded up to this part of 1.
_GAP_STEPS = 1000


def gap_power(
    oracle_rate: float,
    learned_rate: float,
    *,
    episodes: int,
    oracle_episodes: int | None = None,
    method: str = "agresti-caffo",
    level: float = 0.95,
    share: float = 0.0,
) -> float:
    """Return the chance that a gate of fixed size says MODEL BOTTLENECK, in [0, 1].

    By exact enumeration; with equal rates it is the false-alarm rate. ``share`` of the starts
    decide for both arms at once, see `pair_rates`: the default of 0 is the cautious choice, as a
    gate with a power of 3/4 or more has no less of it at any other share (docs/statistics.md).

    >>> round(gap_power(0.9, 0.8, episodes=150), 3)
    0.681
    >>> round(gap_power(0.9, 0.8, episodes=150, method="tango", share=0.5), 3)
    0.86

    Parameters
    ----------
    oracle_episodes : int, optional
        Where they are more. Paired methods see the common starts only.
    method : str
        The interval that judges, one of `METHODS`.
    """
    rates = pair_rates(oracle_rate, learned_rate, share=share)
    n = check_count("episodes", episodes, least=1)
    m = n if oracle_episodes is None else check_count("oracle_episodes", oracle_episodes, least=n)
    z = critical_value(level)
    if method == "agresti-caffo":
        return agresti_caffo_power(rates, n, m, z=z, share=share)
    return paired_method(method).power(rates, n, z=z)


# The sessions of a history ask the same of every gate, again and again.
@cache
def detectable_gap(
    oracle_rate: float, episodes: int, *, power: float = 0.8, share: float = 0.0, **gate: Any
) -> float | None:
    """Return the smallest gap that a gate of fixed size finds with this power, in (0, 1].

    Rounded up to thousandths; None when even a model without any success is not found so often.
    Arguments are those of `gap_power`.

    >>> detectable_gap(0.9, 150)
    0.118
    """
    wanted = check_fraction("a power", power, such_as=0.8)
    oracle = pair_rates(oracle_rate, 0.0, share=share).oracle

    def is_found(steps: int) -> bool:
        learned = max(0.0, oracle - steps / _GAP_STEPS)
        return wanted <= gap_power(oracle, learned, episodes=episodes, share=share, **gate)

    if not is_found(_GAP_STEPS):
        return None
    return min(smallest(is_found, most=_GAP_STEPS) / _GAP_STEPS, oracle)


# Gates of one design ask the same.
@cache
def episodes_for_gap(
    oracle_rate: float,
    gap: float,
    *,
    power: float = 0.8,
    oracle_episodes: int | None = None,
    share: float = 0.0,
    limit: int = 10_000,
    **gate: Any,
) -> int | None:
    """Return the fewest episodes from which on a gate of fixed size finds a gap with this power.

    Counts are whole, so that power rises in a sawtooth and may fall back. The size returned has the
    power, the one before it has not, and the next ``20 + 4 sqrt(size)`` have it; power was never
    seen to fall back later than ``4 sqrt(size)`` after it was first reached (docs/statistics.md).
    None when the gap is larger than the oracle's rate, or needs more than ``limit`` episodes. The
    oracle arm has at least ``oracle_episodes``; other arguments are those of `gap_power`.

    >>> episodes_for_gap(0.9, 0.1)
    199
    """
    wanted = check_fraction("a power", power, such_as=0.8)
    if not 0 < real_or_nan(gap) <= 1:
        raise ValueError(f"need a gap above 0 and at most 1, such as 0.1, got {gap!r}")
    most = check_count("limit", limit, least=1)
    fixed = check_count("oracle_episodes", 0 if oracle_episodes is None else oracle_episodes)
    oracle = pair_rates(oracle_rate, 0.0, share=share).oracle
    if gap > oracle:
        return None

    def is_found(n: int) -> bool:
        more = max(n, fixed)
        return wanted <= gap_power(
            oracle, oracle - gap, episodes=n, oracle_episodes=more, share=share, **gate
        )

    # From below, because a power takes the longer to enumerate the more episodes there are.
    least, reached = 1, 1
    while not is_found(reached):
        if reached == most:
            return None
        least, reached = reached + 1, min(2 * reached, most)
    size = n = least + bisect_left(range(least, reached), x=True, key=is_found)
    while n < size + 20 + 4 * math.sqrt(size):
        n += 1
        if not is_found(n):
            size = n + 1
    return size if size <= most else None


def smallest_detectable_gap(
    oracle_successes: int,
    episodes: int,
    *,
    level: float,
    learned_episodes: int | None = None,
    method: str = "agresti-caffo",
) -> float | None:
    """Return the smallest drop from this oracle count that reads MODEL BOTTLENECK, in (0, 1].

    Every larger drop reads so too. A paired interval is taken at its best, where the model solves
    no start that the oracle does not. None when even a model without any success is not flagged.

    >>> smallest_detectable_gap(47, 50, level=0.95)
    0.14
    >>> smallest_detectable_gap(47, 50, level=0.95, method="tango")
    0.08
    """
    s, m = check_arm(oracle_successes, episodes, prefix="oracle_")
    n = (
        m
        if learned_episodes is None
        else check_count("learned_episodes", learned_episodes, least=1)
    )
    z = critical_value(level)
    if method == "agresti-caffo":
        common = s * n // m

        def flagged(drop: int) -> bool:
            return agresti_caffo_bounds(s, m, common - drop, n, z=z)[0] > 0

    else:
        above, common = paired_method(method).above, round(s * n / m)
        s, m = common, n

        def flagged(drop: int) -> bool:
            return bool(above(drop, 0, n, z=z))

    # The squared condition is a convex parabola in the learned rate that is negative at no drop,
    # so that flagged drops have no holes between them.
    if not flagged(common):
        return None
    # Arms of different sizes may differ although the nearest count is taken.
    drop = 0 if flagged(0) else smallest(flagged, most=common)
    return (s * n - (common - drop) * m) / (n * m)


def gap_half_width(
    oracle_rate: float, learned_rate: float, episodes: int, *, level: float = 0.95
) -> float:
    """Return half the width of the Agresti-Caffo interval on a gap, at these rates of each arm.

    It is that of the interval before its ends are cut at -1 and 1, and what ``+-`` means in a
    forecast. Of arms that solve 0.9 and 0.8 of 50 starts,

    >>> round(gap_half_width(0.9, 0.8, 50), 3)
    0.141
    """
    rates = pair_rates(oracle_rate, learned_rate, share=0.0)
    n = check_count("episodes", episodes, least=1)
    return critical_value(level) * math.sqrt(_variance(n * rates.oracle, n, n * rates.learned, n))


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

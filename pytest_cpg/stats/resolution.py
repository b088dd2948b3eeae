"""Resolution: what observed counts can show, and how many episodes they take to show it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from itertools import count

from pytest_cpg.stats.betting import betting_wealth
from pytest_cpg.stats.counts import check_arm, check_count, check_table, real_or_nan
from pytest_cpg.stats.critical_regions import PAIRED_REGIONS, PairedRegion
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


def smallest_decisive_pairs(*, level: float, method: str = "tango") -> int:
    """Return the fewest starts with which a paired gate can say MODEL BOTTLENECK and may.

    A model that loses every start then has an interval above 0. Equal models that differ on each of
    ``n`` starts favour the oracle on all of them in a share ``2**-n`` of runs: with fewer starts
    than this that share is above ``(1 - level) / 2``, and an interval that calls it a gap does not
    keep its level. Bonett and Price's does so with 4 starts at 0.95, in 6.25 % of runs.

    Parameters
    ----------
    level : float
        Coverage of the interval, in (0, 1).
    method : str
        The interval: "bonett-price", "newcombe-paired" or "tango".

    Raises
    ------
    ValueError
        When an argument is impossible.

    Examples
    --------
    >>> smallest_decisive_pairs(level=0.95)
    6
    """
    region, z = _paired_region(method), critical_value(level)
    # Powers of two are exact, their logarithm of a level as typed is not.
    return next(
        n for n in count(1) if 2.0**-n <= (1 - level) / 2 * (1 + 1e-9) and region(0, n, 0, 0, z=z)
    )


def smallest_detectable_gap(
    oracle_successes: int,
    episodes: int,
    *,
    level: float,
    learned_episodes: int | None = None,
    method: str = "agresti-caffo",
) -> float | None:
    """Return the smallest drop from this oracle count that reads MODEL BOTTLENECK, in (0, 1].

    Every larger drop reads so too. This is what the gate could flag once it is observed, not what
    it finds with some probability. A paired interval is taken at its best, where the model solves
    no start that the oracle does not. None when even a model without any success is not flagged.

    Parameters
    ----------
    oracle_successes, episodes : int
        The oracle arm.
    level : float
        Coverage of the interval, in (0, 1).
    learned_episodes : int, optional
        Episodes of the learned arm where they are fewer. Paired methods see the common starts, on
        which the oracle is taken to succeed as often.
    method : str
        The interval that judges: "agresti-caffo" or a paired one.

    Raises
    ------
    ValueError
        When an argument is impossible.

    Examples
    --------
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
        region, common = _paired_region(method), round(s * n / m)
        s, m = common, n

        def flagged(drop: int) -> bool:
            return bool(region(common - drop, drop, 0, n - common, z=z))

    # The squared condition is a convex parabola in the learned rate that is negative at no drop,
    # so that flagged drops have no holes between them.
    if not flagged(common):
        return None
    # Arms of different sizes may differ although the nearest count is taken.
    drop = 0 if flagged(0) else _smallest(flagged, most=common)
    return (s * n - (common - drop) * m) / (n * m)


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
    z = critical_value(level)

    def is_resolved(n: int) -> bool:
        s, t = (n * successes / episodes for successes, episodes in (oracle, learned))
        low, high = agresti_caffo_bounds(s, n, t, n, z=z)
        return low > 0 or high < 0

    return _smallest_up_to(is_resolved, limit)


def paired_episodes_to_resolve(
    *,
    both: int,
    oracle_only: int,
    learned_only: int,
    neither: int,
    method: str = "bonett-price",
    level: float = 0.95,
    limit: int = 100_000,
) -> int | None:
    """Return the fewest starts at which these shares of outcomes give a paired interval without 0.

    As `episodes_to_resolve`: the interval is taken at exactly the observed shares, it excludes 0
    at every larger size too, and if the shares were true it would do so in about half of the runs
    of this size. It is the total, not what is missing.

    Parameters
    ----------
    method : str
        The interval: "bonett-price", "newcombe-paired" or "tango".
    level : float
        Its coverage, in (0, 1).
    limit : int
        The most starts worth answering.

    Returns
    -------
    int or None
        None when each arm alone solved equally many, or when more than ``limit`` starts would be
        needed.

    Raises
    ------
    ValueError
        When an argument is impossible.

    Examples
    --------
    >>> paired_episodes_to_resolve(both=42, oracle_only=5, learned_only=1, neither=2)
    83
    """
    region = _paired_region(method)
    shares = _shares(both, oracle_only, learned_only, neither)
    z = critical_value(level)

    def is_resolved(n: int) -> bool:
        a, b, c, d = (n * share for share in shares)
        return bool(region(a, b, c, d, z=z) or region(a, c, b, d, z=z))

    return _smallest_up_to(is_resolved, limit)


def anytime_episodes_to_resolve(
    *, oracle_only: int, learned_only: int, episodes: int, level: float = 0.95, limit: int = 10_000
) -> int | None:
    """Return about how many starts win a bet at these shares of outcomes, as `betting_wealth`.

    As `episodes_to_resolve`: shares as observed, and the total. Wins and losses are rounded to
    whole numbers, so that the next sizes may fall back by one start.

    Parameters
    ----------
    oracle_only, learned_only, episodes : int
        Starts that one arm alone solved, and all starts.
    level : float
        Coverage of the interval of the bet, in (0, 1).
    limit : int
        The most starts worth answering.

    Returns
    -------
    int or None
        None when each arm alone solved equally many, or when more than ``limit`` starts would be
        needed.

    Raises
    ------
    ValueError
        When an argument is impossible.

    Examples
    --------
    >>> anytime_episodes_to_resolve(oracle_only=6, learned_only=2, episodes=40)
    184
    """
    size = check_count("episodes", episodes, least=1)
    more, fewer = (
        check_count(name, count)
        for name, count in (("oracle_only", oracle_only), ("learned_only", learned_only))
    )
    if more + fewer > size:
        raise ValueError(f"need at least {more + fewer} episodes, got {size}")
    more, fewer = max(more, fewer), min(more, fewer)
    critical_value(level)  # refuses an impossible level

    def is_resolved(n: int) -> bool:
        wins, losses = round(n * more / size), round(n * fewer / size)
        return betting_wealth(wins=wins, losses=losses) >= 2 / (1 - level)

    return _smallest_up_to(is_resolved, limit) if more > fewer else None


def episodes_to_prove_margin(
    oracle_successes: int,
    oracle_episodes: int,
    learned_successes: int,
    learned_episodes: int,
    *,
    margin: float,
    level: float = 0.95,
    limit: int = 100_000,
) -> int | None:
    """Return the episodes per arm from which on these two rates prove a gap below ``margin``.

    The Agresti-Caffo interval ends below the margin at this size and at every larger one. As in
    `episodes_to_resolve` the rates are taken as observed, and the number is the total per arm.

    Parameters
    ----------
    margin : float
        The gap to rule out, in (0, 1).
    level : float
        Coverage of the interval, in (0, 1).
    limit : int
        The most episodes per arm worth answering.

    Returns
    -------
    int or None
        None when the observed gap is not below the margin, or when more than ``limit`` episodes
        would be needed.

    Raises
    ------
    ValueError
        When an argument is impossible.

    Examples
    --------
    >>> episodes_to_prove_margin(50, 50, 50, 50, margin=0.1)
    26
    """
    s, n = check_arm(oracle_successes, oracle_episodes, prefix="oracle_")
    t, m = check_arm(learned_successes, learned_episodes, prefix="learned_")
    allowed = _check_margin(margin)
    z = critical_value(level)

    def is_proven(size: int) -> bool:
        _, high = agresti_caffo_bounds(size * s / n, size, size * t / m, size, z=z)
        return high < allowed

    return _smallest_up_to(is_proven, limit)


def paired_episodes_to_prove_margin(
    *,
    both: int,
    oracle_only: int,
    learned_only: int,
    neither: int,
    margin: float,
    method: str = "bonett-price",
    level: float = 0.95,
    limit: int = 100_000,
) -> int | None:
    """Return the starts from which on these shares of outcomes prove a gap below ``margin``.

    As `episodes_to_prove_margin`, by a paired interval.

    Parameters
    ----------
    margin : float
        The gap to rule out, in (0, 1).
    method, level, limit
        As in `paired_episodes_to_resolve`.

    Raises
    ------
    ValueError
        When an argument is impossible.

    Examples
    --------
    >>> paired_episodes_to_prove_margin(
    ...     both=45, oracle_only=2, learned_only=2, neither=1, margin=0.1
    ... )
    45
    """
    region = _paired_region(method)
    shares = _shares(both, oracle_only, learned_only, neither)
    allowed = _check_margin(margin)
    z = critical_value(level)

    def is_proven(n: int) -> bool:
        a, b, c, d = (n * share for share in shares)
        return bool(region(a, c, b, d, gap=-allowed, z=z))

    return _smallest_up_to(is_proven, limit)


def _paired_region(method: str) -> PairedRegion:
    if method not in PAIRED_REGIONS:
        raise ValueError(f"need a method among {', '.join(PAIRED_REGIONS)}, got {method!r}")
    return PAIRED_REGIONS[method]


def _shares(*table: int) -> tuple[float, ...]:
    counts = check_table(*table)
    return tuple(count / sum(counts) for count in counts)


def _check_margin(margin: float) -> float:
    if not 0 < real_or_nan(margin) < 1:
        raise ValueError(f"need a margin between 0 and 1, such as 0.1, got {margin!r}")
    return float(margin)


def _smallest_up_to(holds: Callable[[int], bool], limit: int) -> int | None:
    most = check_count("limit", limit, least=1)
    return _smallest(holds, most=most) if holds(most) else None


def _smallest(holds: Callable[[int], bool], *, most: int) -> int:
    """Return the smallest number from 1 to ``most`` that ``holds``, as all above it must."""
    return 1 + bisect_left(range(1, most), x=True, key=holds)

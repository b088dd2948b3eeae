"""Confidence intervals on success rates and on their difference, the planning gap."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_cpg.stats.counts import check_arm, check_table, real_or_nan


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A confidence interval on a success rate, on a difference, or on a correlation.

    Attributes
    ----------
    estimate : float
        Raw rate in [0, 1], raw difference of rates or correlation in [-1, 1], or difference of mean
        returns in their own units.
    low, high : float
        Bounds, in the range of ``estimate`` but not centred on it. A difference may lie outside
        them when ``level`` is far below 0.9.
    level : float
        Nominal coverage in (0, 1).
    method : str
        As printed in every report: ``"Agresti-Caffo 2000"``.
    """

    estimate: float
    low: float
    high: float
    level: float
    method: str


def critical_value(level: float) -> float:
    """Return the two-sided standard normal quantile ``z`` of a coverage level.

    Raises
    ------
    ValueError
        When ``level`` is not in (0, 1).
    """
    coverage = real_or_nan(level)
    if not 0 < coverage < 1:
        raise ValueError(f"need a level between 0 and 1, such as 0.95, got {level!r}")
    # statistics brings random, decimal and fractions; a session without a gate needs none of them.
    from statistics import NormalDist

    # The lower tail keeps its digits at levels so near to 1 that (1 + level) / 2 rounds to 1.
    return abs(NormalDist().inv_cdf((1 - coverage) / 2))


def wilson_interval(successes: int, episodes: int, *, level: float = 0.95) -> Interval:
    """Bound a success rate by Wilson's score interval (JASA 22:209-212, 1927).

    Raises
    ------
    ValueError
        When the counts or the level are impossible.

    Examples
    --------
    >>> ci = wilson_interval(7, 50)
    >>> f"{ci.low:.4f} {ci.high:.4f}"
    '0.0695 0.2619'
    """
    s, n = check_arm(successes, episodes)
    z = critical_value(level)
    centre = (s + z**2 / 2) / (n + z**2)
    half = z * math.sqrt(s * (n - s) / n + z**2 / 4) / (n + z**2)
    return Interval(
        estimate=s / n,
        # At the edges the bound is 0 or 1 in theory, and only nearly so in floating point.
        low=0.0 if s == 0 else max(0.0, centre - half),
        high=1.0 if s == n else min(1.0, centre + half),
        level=float(level),
        method="Wilson 1927",
    )


def wilson_episodes_above(bound: float, *, rate: float, level: float) -> int | None:
    """Return the fewest episodes whose Wilson interval at a success rate lies above a bound.

    None where the rate does not. The interval holds what a score test does not reject.

    >>> wilson_episodes_above(0.3, rate=0.4, level=0.95)
    81

    Parameters
    ----------
    bound, rate, level : float
        In (0, 1), in [0, 1] and in (0, 1).
    """
    if rate <= bound:
        return None
    z = critical_value(level)
    return math.floor(z**2 * bound * (1 - bound) / (rate - bound) ** 2) + 1


def agresti_caffo_bounds(
    oracle_successes: float,
    oracle_episodes: float,
    learned_successes: float,
    learned_episodes: float,
    *,
    z: float,
) -> tuple[float, float]:
    """Return the Agresti-Caffo bounds in [-1, 1], for counts that need not be whole.

    Add one success and one failure to each arm, then take the Wald interval (Agresti and Caffo,
    The American Statistician 54:280-288, 2000). The arguments are trusted: expected counts, which
    are fractions, go through here too.
    """
    rates, variances = [], []
    for s, n in ((oracle_successes, oracle_episodes), (learned_successes, learned_episodes)):
        rates.append((s + 1) / (n + 2))
        # Counting failures instead of 1 - rate keeps the digits of rates near 1.
        variances.append((s + 1) * (n - s + 1) / (n + 2) ** 3)
    return _clipped_wald(rates[0] - rates[1], variances[0] + variances[1], z)


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

    Raises
    ------
    ValueError
        When the counts or the level are impossible.

    Examples
    --------
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


def bonett_price_interval(
    *, both: int, oracle_only: int, learned_only: int, neither: int, level: float = 0.95
) -> Interval:
    """Bound the gap of two arms that share their starts, from the four counts of the paired table.

    The adjusted Wald interval of Bonett and Price (J. Educ. Behav. Stat. 37:479-488, 2012): from
    the Laplace estimates ``p = (oracle_only + 1) / (n + 2)`` and
    ``q = (learned_only + 1) / (n + 2)``, ``p - q +- z sqrt((p + q - (p - q)**2) / (n + 2))``,
    cut at [-1, 1]. Without a gap it lies above 0 in at most 2.7 % of runs of 10 to 200 episodes at
    level 0.95, but in up to 5.5 % where the arms disagree on more than half of the starts (exact
    enumeration; independent arms of equal rates never disagree on more than half).

    Raises
    ------
    ValueError
        When the counts or the level are impossible.

    Examples
    --------
    >>> ci = bonett_price_interval(both=35, oracle_only=12, learned_only=2, neither=1)
    >>> f"{ci.estimate:+.2f} [{ci.low:+.3f}, {ci.high:+.3f}]"
    '+0.20 [+0.051, +0.334]'
    """
    agreed, wins, losses, failed = check_table(both, oracle_only, learned_only, neither)
    n = agreed + wins + losses + failed
    low, high = bonett_price_bounds(wins, losses, n, z=critical_value(level))
    return Interval(
        estimate=(wins - losses) / n,
        low=low,
        high=high,
        level=float(level),
        method="Bonett-Price 2012",
    )


def bonett_price_bounds(wins: int, losses: int, pairs: int, *, z: float) -> tuple[float, float]:
    """Return the Bonett-Price bounds in [-1, 1]; see `bonett_price_interval`.

    Parameters
    ----------
    wins, losses : int
        Starts that only the oracle, or only the learned arm solved, of ``pairs``. Trusted.
    """
    p, q = (wins + 1) / (pairs + 2), (losses + 1) / (pairs + 2)
    return _clipped_wald(p - q, (p + q - (p - q) ** 2) / (pairs + 2), z)


def _clipped_wald(centre: float, variance: float, z: float) -> tuple[float, float]:
    half = z * math.sqrt(variance)
    return max(-1.0, centre - half), min(1.0, centre + half)

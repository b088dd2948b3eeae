"""P-values of the planning gap: that of each interval, and McNemar's exact test."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import count

from pytest_cpg.stats.counts import check_arm, check_count, check_table
from pytest_cpg.stats.intervals import Interval, critical_value
from pytest_cpg.stats.paired import newcombe_paired_interval


def agresti_caffo_p_value(
    oracle_successes: int, oracle_episodes: int, learned_successes: int, learned_episodes: int
) -> float:
    """Return the one-sided p-value that goes with `agresti_caffo_interval`, in (0, 1].

    The smallest alpha at which the interval of level ``1 - 2 * alpha`` lies above 0 (Agresti and
    Caffo, Am. Stat. 54:280-288, 2000). It is below 0.5 where the oracle arm did better, and with
    swapped arms it is 1 minus this.

    Raises
    ------
    ValueError
        When the counts are impossible.

    Examples
    --------
    >>> round(agresti_caffo_p_value(47, 50, 37, 50), 4)
    0.0037
    """
    s, n = check_arm(oracle_successes, oracle_episodes, prefix="oracle_")
    t, m = check_arm(learned_successes, learned_episodes, prefix="learned_")
    gap = ((s + 1) * (m + 2) - (t + 1) * (n + 2)) / ((n + 2) * (m + 2))
    variance = (s + 1) * (n - s + 1) / (n + 2) ** 3 + (t + 1) * (m - t + 1) / (m + 2) ** 3
    return _upper_tail(gap / math.sqrt(variance))


def bonett_price_p_value(*, both: int, oracle_only: int, learned_only: int, neither: int) -> float:
    """Return the one-sided p-value that goes with `bonett_price_interval`, in (0, 1].

    As in `agresti_caffo_p_value` (Bonett and Price, J. Educ. Behav. Stat. 37:479-488, 2012).

    Raises
    ------
    ValueError
        When the counts are impossible.

    Examples
    --------
    >>> round(bonett_price_p_value(both=35, oracle_only=12, learned_only=2, neither=1), 4)
    0.0038
    """
    agreed, wins, losses, failed = check_table(both, oracle_only, learned_only, neither)
    n, difference = agreed + wins + losses + failed, wins - losses
    return _upper_tail(difference / math.sqrt(wins + losses + 2 - difference**2 / (n + 2)))


def tango_p_value(*, both: int, oracle_only: int, learned_only: int, neither: int) -> float:
    """Return the one-sided p-value that goes with `tango_interval`, in (0, 1].

    As in `agresti_caffo_p_value`. At a gap of 0 the score test of Tango (Statistics in Medicine
    17:891-908, 1998) is McNemar's without continuity correction (Psychometrika 12:153-157, 1947).

    Raises
    ------
    ValueError
        When the counts are impossible.

    Examples
    --------
    >>> round(tango_p_value(both=35, oracle_only=12, learned_only=2, neither=1), 4)
    0.0038
    """
    _, wins, losses, _ = check_table(both, oracle_only, learned_only, neither)
    if wins == losses:
        return 0.5  # also where no start was decided, which has no statistic
    return _upper_tail((wins - losses) / math.sqrt(wins + losses))


def newcombe_paired_p_value(
    *, both: int, oracle_only: int, learned_only: int, neither: int
) -> float:
    """Return the one-sided p-value that goes with `newcombe_paired_interval`, in (0, 1].

    As in `agresti_caffo_p_value`, by `inverted_p_value`: Newcombe's method 10 (Statistics in
    Medicine 17:2635-2650, 1998) has no closed form for it.

    Raises
    ------
    ValueError
        When the counts are impossible.

    Examples
    --------
    >>> round(newcombe_paired_p_value(both=35, oracle_only=12, learned_only=2, neither=1), 4)
    0.0039
    """
    agreed, wins, losses, failed = check_table(both, oracle_only, learned_only, neither)
    if wins == losses:
        return 0.5
    p = inverted_p_value(
        lambda level: newcombe_paired_interval(
            both=agreed,
            oracle_only=max(wins, losses),
            learned_only=min(wins, losses),
            neither=failed,
            level=level,
        )
    )
    return p if wins > losses else 1 - p


# By the names that the paired intervals have in markers and options.
PAIRED_P_VALUES: dict[str, Callable[..., float]] = {
    "bonett-price": bonett_price_p_value,
    "newcombe-paired": newcombe_paired_p_value,
    "tango": tango_p_value,
}


def inverted_p_value(interval_at: Callable[[float], Interval]) -> float:
    """Return the smallest alpha at which the interval of level ``1 - 2 * alpha`` lies above 0.

    Parameters
    ----------
    interval_at : callable
        Gives the interval of a level in (0, 1), which must only widen as the level rises.

    Returns
    -------
    float
        From 2**-54, where the interval of the highest level below 1 still lies above 0, to 0.5,
        where that of none does.
    """
    above, below = 0.0, 1.0
    # Every level tried is a multiple of 2**-53, as all floats from 0.5 to 1 are: none rounds to 1,
    # and at each of them the comparison of p and alpha is exactly that of the lower bound and 0.
    for _ in range(53):
        level = (above + below) / 2
        if interval_at(level).low > 0:
            above = level
        else:
            below = level
    return (1 - above) / 2


def exact_mcnemar_p_value(*, lost: int, gained: int) -> float:
    """Return the exact two-sided p-value of McNemar's test, in (0, 1].

    Of the starts whose outcome changed, each was lost or gained with chance one half if nothing
    did (McNemar, Psychometrika 12:153-157, 1947; exact by Fay, R Journal 2:53-58, 2010). All ways
    to define a two-sided exact p-value agree at one half. It is 1 when no start changed.

    Parameters
    ----------
    lost, gained : int
        Starts solved only before, and only now.

    Raises
    ------
    ValueError
        When a count is impossible.

    Examples
    --------
    >>> round(exact_mcnemar_p_value(lost=8, gained=1), 3)
    0.039
    """
    fewer, more = sorted((check_count("lost", lost), check_count("gained", gained)))
    if fewer == more:
        return 1.0
    changed = fewer + more
    ways = term = 1
    for k in range(fewer):
        term = term * (changed - k) // (k + 1)
        ways += term
    # A quotient of whole numbers is rounded once, and cannot overflow however large they are.
    return max(2 * ways / (1 << changed), sys.float_info.min)


def fewest_significant_losses(*, level: float) -> int:
    """Return the fewest starts that chance does not explain the loss of, if none was gained.

    By `exact_mcnemar_p_value`: an arm with fewer successes can lose all of them unnoticed.

    Parameters
    ----------
    level : float
        Coverage of the intervals beside it, in (0, 1).

    Examples
    --------
    >>> fewest_significant_losses(level=0.95), fewest_significant_losses(level=0.99)
    (6, 8)
    """
    critical_value(level)  # refuses an impossible level
    return next(k for k in count(1) if exact_mcnemar_p_value(lost=k, gained=0) <= 1 - level)


def _upper_tail(z: float) -> float:
    """Return the chance that a standard normal number exceeds ``z``; never 0."""
    return max(math.erfc(z / math.sqrt(2)) / 2, sys.float_info.min)

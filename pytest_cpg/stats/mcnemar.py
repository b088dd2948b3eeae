"""McNemar's exact test of starts whose outcome changed (Psychometrika 12:153-157, 1947)."""

from __future__ import annotations

import sys
from itertools import count

from pytest_cpg.stats.counts import check_count
from pytest_cpg.stats.intervals import critical_value


def exact_mcnemar_p_value(*, lost: int, gained: int) -> float:
    """Return the exact two-sided p-value of McNemar's test, in (0, 1].

    Of the starts whose outcome changed, each was lost or gained with chance one half if nothing
    did (McNemar, Psychometrika 12:153-157, 1947; exact by Fay, R Journal 2:53-58, 2010). All ways
    to define a two-sided exact p-value agree at one half. It is 1 when no start changed.

    >>> round(exact_mcnemar_p_value(lost=8, gained=1), 3)
    0.039

    Parameters
    ----------
    lost, gained : int
        Starts solved only before, and only now.
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

    >>> fewest_significant_losses(level=0.95), fewest_significant_losses(level=0.99)
    (6, 8)
    """
    critical_value(level)  # refuses an impossible level
    return next(k for k in count(1) if exact_mcnemar_p_value(lost=k, gained=0) <= 1 - level)

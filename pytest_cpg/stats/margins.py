"""Margins: Tango's interval, widened until it proves a margin no more often than it may."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from statistics import NormalDist

import numpy as np

from pytest_cpg.stats.counts import check_count, check_margin, smallest_from
from pytest_cpg.stats.enumeration import farthest_count, multinomial_chance
from pytest_cpg.stats.intervals import Interval, critical_value
from pytest_cpg.stats.paired import fewest_wins
from pytest_cpg.stats.pairing import Pairs
from pytest_cpg.stats.paths import shares_of_disagreement
from pytest_cpg.stats.tango import TANGO

# Critical values are rounded up to hundredths, which errs on the safe side.
_HUNDREDTHS = 100
# Shares of disagreement that are tried. One between them may be worse, by less than `_MISSED` of
# the error (tests/calibration/test_margins_calibration.py).
_SHARES = 241
_MISSED = 1e-3


@cache
def margin_level(episodes: int, *, margin: float, level: float = 0.95) -> float:
    """Return the level, from ``level`` on, at which Tango's interval holds a margin at this size.

    The score test is approximate: at 0.95 it proves a margin that is the gap in up to 5.0 % of
    runs of 10 to 200 episodes, where 2.5 % are meant. At the level returned it does so in at most
    ``(1 - level) / 2`` of runs, whatever the rates and however the arms are paired, and it lies
    above 0 no more often without a gap: by exact enumeration, as `wang_tsiatis_boundary` does for
    several looks.

    >>> round(margin_level(50, margin=0.2), 4)
    0.9576
    """
    n, z = check_count("episodes", episodes, least=1), critical_value(level)
    check_margin(margin)
    alpha = (1 - float(level)) / 2 * (1 - _MISSED)

    def holds(critical: float) -> bool:
        return all(_worst_chance(n, gap, critical) <= alpha for gap in (-margin, 0.0))

    if holds(z):
        return float(level)
    # The larger, the fewer counts lie beyond it.
    least = math.ceil(z * _HUNDREDTHS)
    critical = smallest_from(least, lambda each: holds(each / _HUNDREDTHS), step=_HUNDREDTHS // 5)
    # A little more, for what is lost on the way back: a statistic of 2.00 may be met exactly.
    return 2 * NormalDist().cdf(critical / _HUNDREDTHS + 1e-9) - 1


def margin_interval(pairs: Pairs, *, margin: float, level: float = 0.95) -> Interval:
    """Bound the gap so that a margin is proven no more often than the level says.

    Tango's interval at `margin_level`.

    >>> pairs = Pairs(both=50, oracle_only=0, learned_only=0, neither=0)
    >>> ci = margin_interval(pairs, margin=0.1)
    >>> f"{ci.estimate:+.2f} [{ci.low:+.3f}, {ci.high:+.3f}]"
    '+0.00 [-0.075, +0.075]'
    """
    held = margin_level(pairs.count, margin=margin, level=level)
    return replace(TANGO.interval(pairs, level=held), level=float(level), method="Tango, exact")


def exact_tango_p_value(pairs: Pairs) -> float:
    """Return the one-sided p-value of Tango's test at the worst share of disagreement, in (0, 1].

    The chance of this statistic or more without a gap, however often the arms disagree.

    >>> round(exact_tango_p_value(Pairs(both=35, oracle_only=12, learned_only=2, neither=1)), 5)
    0.00375
    """
    wins, losses = pairs.oracle_only, pairs.learned_only
    if wins <= losses:
        return 1.0
    # What was found counts itself, whatever rounds.
    z = TANGO.statistic(wins, losses, pairs.count) * (1 - 1e-9)
    return max(_worst_chance(pairs.count, 0.0, z), 5e-324)


def _worst_chance(n: int, gap: float, z: float) -> float:
    """Return the chance of an interval above ``gap`` where that is the gap, at the worst share."""
    from scipy.special import bdtrc

    shares = shares_of_disagreement(-gap, _SHARES)[1 if gap == 0 else 0 :, None]
    least = fewest_wins(TANGO.above, np.arange(n + 1), n, gap=gap, z=z)
    reach = farthest_count(n, 0.5)
    first = np.clip(np.floor(n * shares) - reach, 0, max(0, n - 2 * reach)).astype(int)
    disagreed = first + np.arange(min(n, 2 * reach) + 1)
    win = np.clip((1 + gap / shares) / 2, 0, 1)
    tail = bdtrc(least[disagreed] - 1, disagreed, win)
    return float((multinomial_chance(n, (disagreed, shares)) * tail).sum(axis=1).max())

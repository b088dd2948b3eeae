"""Betting: an interval of the gap that holds after every pair at once."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pytest_cpg.stats.counts import check_count, smallest_up_to
from pytest_cpg.stats.intervals import Interval, critical_value
from pytest_cpg.stats.pairing import Pairs
from pytest_cpg.stats.paths import pair_chances, paired_paths
from pytest_cpg.stats.sequential import Characteristics

# A look costs one batch of episodes: from 32 pairs on there is one for every sixteenth more.
_PAIRS_PER_LOOK = 16


def betting_wealth(*, wins: int, losses: int) -> float:
    """Return what has become of 1 by betting on wins, where wins and losses are equally likely.

    The average over bets from 0 to all there is, ``integral of (1 + b)**wins (1 - b)**losses``; by
    Ville's inequality it ever reaches ``1 / alpha`` with chance at most ``alpha`` (Waudby-Smith and
    Ramdas, JRSS B 86:1-27, 2024). Pairs on which the arms agree change nothing.

    >>> round(betting_wealth(wins=8, losses=0), 1)
    56.8

    Parameters
    ----------
    wins, losses : int
        Starts that only the oracle, or only the learned arm solved.
    """
    w = check_count("wins", wins)
    n = w + check_count("losses", losses)
    # The integral is a sum of binomial coefficients; whole numbers keep every digit.
    term = total = 1
    for j in range(1, w + 1):
        term = term * (n + 2 - j) // j
        total += term
    return _quotient(total, (n + 1) * math.comb(n, w))


def anytime_look_sizes(max_episodes: int, *, level: float = 0.95) -> tuple[int, ...]:
    """Return the numbers of complete pairs at which a bet is looked at.

    The first is the smallest at which it can be won. The bet may be looked at as often as one
    likes: the steps only keep batches from becoming small. Raises ValueError when there are fewer
    pairs than the first look takes, or the level is impossible.

    >>> anytime_look_sizes(40)
    (8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, \
32, 34, 36, 38, 40)
    """
    most = check_count("max_episodes", max_episodes)
    stake = _stake(level)
    size = 1
    while betting_wealth(wins=size, losses=0) < stake:
        size += 1
    if most < size:
        raise ValueError(
            f"need at least {size} episodes, where the first look is at level {level:g}, got {most}"
        )
    sizes = []
    while size < most:
        sizes.append(size)
        size += max(1, size // _PAIRS_PER_LOOK)
    return (*sizes, most)


def anytime_interval(pairs: Pairs, *, level: float = 0.95) -> Interval:
    """Bound the gap so that the bounds after all pairs hold together, however many there will be.

    A confidence sequence: the gaps that no bet against them has multiplied by ``2 / (1 - level)``,
    where the bet is averaged as in `betting_wealth`, over all that cannot be ruined (Waudby-Smith
    and Ramdas, JRSS B 86:1-27, 2024). It excludes 0 exactly where that bet has been won.

    >>> ci = anytime_interval(Pairs(both=1, oracle_only=9, learned_only=0, neither=0))
    >>> f"{ci.estimate:+.2f} [{ci.low:+.2f}, {ci.high:+.2f}]"
    '+0.90 [+0.11, +1.00]'
    """
    wins, losses, ties = pairs.oracle_only, pairs.learned_only, pairs.both + pairs.neither
    return Interval(
        estimate=pairs.gap,
        low=_low(wins, losses, ties, level),
        high=-_low(losses, wins, ties, level),
        level=float(level),
        method="betting, any time",
    )


def betting_characteristics(
    max_episodes: int, *, oracle_only: float, learned_only: float, level: float = 0.95
) -> Characteristics:
    """Return what betting does where each start is solved by one arm alone so often.

    Raises ValueError when an argument is impossible, or there are fewer pairs than the first look
    takes.
    """
    chances = pair_chances(oracle_only, learned_only)
    stake = _stake(level)
    # The fewest wins that win the bet, by the number of losses.
    least = np.array([_wins_needed(losses, stake) for losses in range(max_episodes + 1)])
    above = below = used = 0.0
    for pairs, mass, wins, losses in paired_paths(
        anytime_look_sizes(max_episodes, level=level), chances
    ):
        up, down = wins >= least[losses], losses >= least[wins]
        above, below = above + float(mass[up].sum()), below + float(mass[down].sum())
        used += pairs * float((mass if pairs == max_episodes else mass[up | down]).sum())
        mass[up | down] = 0
    return Characteristics(above, below, used)


def anytime_episodes_to_settle(
    pairs: Pairs, *, level: float = 0.95, limit: int = 10_000
) -> int | None:
    """Return about how many starts win a bet at these shares of outcomes, as `betting_wealth`.

    As `agresti_caffo.episodes_to_settle`: shares as observed, and the total. Wins and losses are
    rounded to whole numbers, so that the next sizes may fall back by one start. None when each arm
    alone solved equally many, or when more than ``limit`` starts would be needed.

    >>> anytime_episodes_to_settle(Pairs(both=30, oracle_only=6, learned_only=2, neither=2))
    184
    """
    fewer, more = sorted((pairs.oracle_only, pairs.learned_only))
    stake = _stake(level)

    def is_settled(n: int) -> bool:
        wins, losses = round(n * more / pairs.count), round(n * fewer / pairs.count)
        return betting_wealth(wins=wins, losses=losses) >= stake

    return smallest_up_to(is_settled, limit) if more > fewer else None


@cache
def _wins_needed(losses: int, stake: float) -> int:
    wins = _wins_needed(losses - 1, stake) if losses else 1
    while betting_wealth(wins=wins, losses=losses) < stake:
        wins += 1
    return wins


def _low(wins: int, losses: int, ties: int, level: float) -> float:
    """Return the smallest gap that betting on a larger one has not refuted, in [-1, 1]."""
    if not wins and not ties:
        return -1.0
    stake = _stake(level)
    estimate = (wins - losses) / (wins + losses + ties)
    # What has been won only falls as the gap that is bet against rises, and at 0 it is exact.
    if betting_wealth(wins=wins, losses=losses) >= stake:
        refuted, kept = 0.0, estimate
    else:
        refuted, kept = -1.0, min(0.0, estimate)
    for _ in range(50):
        gap = (refuted + kept) / 2
        if _log_wealth(gap, wins, losses, ties) >= math.log(stake):
            refuted = gap
        else:
            kept = gap
    # Between the two there is nothing left to tell; the larger one still excludes a 0 refuted.
    return kept


def _log_wealth(gap: float, wins: int, losses: int, ties: int) -> float:
    """Return the logarithm of what betting on more than this gap has won.

    With bets ``u / (1 + gap)``, ``u`` from 0 to 1, a win multiplies by ``1 + u (1 - gap) / (1 +
    gap)``, a tie by ``1 - u gap / (1 + gap)`` and a loss by ``1 - u``.
    """
    u, weights = _gauss_legendre((wins + losses + ties) // 2 + 1)
    with np.errstate(divide="ignore"):
        logs = (
            wins * np.log1p(u * (1 - gap) / (1 + gap))
            + ties * np.log1p(-u * gap / (1 + gap))
            + losses * np.log1p(-u)
        )
    top = logs.max()
    return float(top + np.log(weights @ np.exp(logs - top)))


@cache
def _gauss_legendre(nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes in (0, 1) and weights, exact for polynomials of degree ``2 * nodes - 1``."""
    x, weights = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, weights / 2


def _stake(level: float) -> float:
    """Return what one of the two bets must win."""
    critical_value(level)  # refuses an impossible level
    return 2 / (1 - float(level))


def _quotient(over: int, under: int) -> float:
    try:
        return over / under
    except OverflowError:
        return math.inf

"""Sequential looks: where a paired gate may stop early without crying wolf more often."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_cpg.stats.intervals import (
    BoolArray,
    FloatArray,
    Interval,
    check_count,
    check_margin,
    critical_value,
    real_or_nan,
    smallest_from,
)
from pytest_cpg.stats.paired import BONETT_PRICE, TANGO, PairedMethod
from pytest_cpg.stats.pairing import Pairs, shares_of_disagreement

IntArray: TypeAlias = NDArray[np.intp]

FIRST_LOOK = 10
_STEP = 25
# More looks cost power and save little: with more episodes the steps are wider.
_MOST_STEPS = 12
# Shape of the boundary: between Pocock's 1/2, eager to stop, and O'Brien and Fleming's 0.
_DELTA = 0.25
# Constants are rounded up to hundredths, which errs on the safe side.
_HUNDREDTHS = 100
# Shares of disagreement that are tried without and with a margin. One between them may be worse,
# by less than `_MISSED` of the error: by 2.1e-4 of it at most in the enumerations of slow tests.
_SHARES, _SHARES_WITH_MARGIN = 401, 121
_MISSED = 1e-3
# Rows of counts that are stepped at once, so that few of those beyond the last pair are.
_ROWS = 128
# What a gate of the usual size needs, so that it calibrates nothing; a test computes them again.
_USUAL_CONSTANTS = {(50, 0.95): 2.12, (100, 0.95): 2.24, (150, 0.95): 2.22, (300, 0.95): 2.25}


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """What the paired statistic must exceed at each look, of so many complete pairs.

    With a margin, the largest gap that is no loss, the intervals are Tango's, whose error at the
    margin is held as well; without, Bonett and Price's. ``constant`` is the critical value of the
    last look.
    """

    max_episodes: int
    level: float
    margin: float | None
    constant: float
    looks: tuple[int, ...]
    critical_values: tuple[float, ...]


class Characteristics(NamedTuple):
    """The chances that some look ends a gate with an interval above 0, or below it, exactly."""

    above: float
    below: float
    mean_pairs: float


def look_sizes(max_episodes: int) -> tuple[int, ...]:
    """Return the numbers of complete pairs at which a gate may stop: 10, 25, 50, and so on.

    Steps are of 25 pairs, or of a multiple of 25 where more than 12 of them would be needed. Raises
    ValueError when there are fewer pairs than the first look takes.
    """
    most = check_count("max_episodes", max_episodes)
    if most < FIRST_LOOK:
        raise ValueError(
            f"need at least {FIRST_LOOK} episodes, where the first look is, got {most}"
        )
    step = _STEP * -(-most // (_STEP * _MOST_STEPS))
    sizes = {FIRST_LOOK, _STEP, *range(step, most, step)}
    return (*sorted(size for size in sizes if size < most), most)


@cache
def wang_tsiatis_boundary(
    max_episodes: int, *, level: float = 0.95, margin: float | None = None
) -> Boundary:
    """Return the boundary whose one-sided error over all looks is at most ``(1 - level) / 2``.

    Critical values fall as ``constant * (max_episodes / pairs) ** 0.25`` (Wang and Tsiatis,
    Biometrics 43:193-199, 1987). The constant is the smallest in hundredths that holds the error
    for arms of equal rates, however often they disagree, and with a margin that of proving it where
    the gap is the margin, by exact enumeration of all paths.

    >>> boundary = wang_tsiatis_boundary(100)
    >>> boundary.looks, [round(z, 2) for z in boundary.critical_values]
    ((10, 25, 50, 75, 100), [3.98, 3.17, 2.66, 2.41, 2.24])
    """
    sizes = look_sizes(max_episodes)
    z = critical_value(level)
    if margin is not None:
        check_margin(margin)
    tabled = None if margin is not None else _USUAL_CONSTANTS.get((max_episodes, float(level)))
    constant = tabled or _smallest_constant(sizes, z, (1 - float(level)) / 2, margin)
    return Boundary(
        max_episodes=max_episodes,
        level=float(level),
        margin=margin,
        constant=constant,
        looks=sizes,
        critical_values=_critical_values(sizes, constant),
    )


def repeated_interval(boundary: Boundary, look: int, pairs: Pairs) -> Interval:
    """Bound the gap at one look so that the bounds of all looks hold together.

    A repeated confidence interval (Jennison and Turnbull, JRSS B 51:305-361, 1989): the paired
    interval with the critical value of the look.
    """
    if pairs.count != boundary.looks[look]:
        raise ValueError(f"look {look} is at {boundary.looks[look]} pairs, got {pairs.count}")
    wins, losses, z = pairs.oracle_only, pairs.learned_only, boundary.critical_values[look]
    low, high = _method(boundary.margin).bounds(wins, losses, pairs.count, z=z)
    return Interval(
        estimate=pairs.gap,
        low=low,
        high=high,
        level=boundary.level,
        method="Bonett-Price, sequential" if boundary.margin is None else "Tango, sequential",
    )


def paired_statistic(*, wins: int, losses: int, pairs: int, margin: float | None = None) -> float:
    """Return the paired z of no gap: Bonett and Price's, or Tango's where there is a margin."""
    return _method(margin).statistic(wins, losses, pairs)


def boundary_p_value(
    max_episodes: int, statistics: Mapping[int, float], *, margin: float | None = None
) -> float:
    """Return the one-sided p-value of a gate from its `paired_statistic` by pairs at each look.

    The chance of what was found at the looks or more without a gap, at the worst share of starts on
    which the arms disagree; more is what reaches a boundary of a larger constant.
    """
    sizes = look_sizes(max_episodes)
    if not statistics:
        raise ValueError("need the statistic of at least one look, got none")
    reached = max(z * (pairs / max_episodes) ** _DELTA for pairs, z in statistics.items())
    if reached <= 0:
        return 1.0
    # What was found counts itself: a boundary just below it is crossed by it, whatever rounds.
    error = _error_at_no_gap(sizes, reached * (1 - 1e-9), margin)
    return min(1.0, max(error, 5e-324))


def operating_characteristics(
    boundary: Boundary, *, oracle_only: float, learned_only: float
) -> Characteristics:
    """Return what a boundary does where each start is solved by one arm alone so often."""
    chances = pair_chances(oracle_only, learned_only)
    above = below = used = 0.0
    at_looks = zip(paired_paths(boundary.looks, chances), boundary.critical_values, strict=True)
    for (pairs, mass, wins, losses), z in at_looks:
        up = _is_above(wins, losses, pairs, z, boundary.margin)
        down = _is_above(losses, wins, pairs, z, boundary.margin)
        above, below = above + float(mass[up].sum()), below + float(mass[down].sum())
        stopped = mass[up | down].sum() if pairs < boundary.max_episodes else mass.sum()
        used += pairs * float(stopped)
        mass[up | down] = 0
    return Characteristics(above, below, used)


def final_critical_value(critical: float, pairs: int, max_episodes: int) -> float:
    """Return the critical value of a boundary's last look from that of a look at ``pairs``."""
    return critical * math.pow(pairs / max_episodes, _DELTA)


def _method(margin: float | None) -> PairedMethod:
    return BONETT_PRICE if margin is None else TANGO


def _critical_values(sizes: tuple[int, ...], constant: float) -> tuple[float, ...]:
    return tuple(constant * (sizes[-1] / pairs) ** _DELTA for pairs in sizes)


def _smallest_constant(
    sizes: tuple[int, ...], z: float, alpha: float, margin: float | None
) -> float:
    """Return the smallest constant in hundredths that holds the error; errors fall with it."""
    alpha *= 1 - _MISSED

    def holds(hundredths: int) -> bool:
        constant = hundredths / _HUNDREDTHS
        if _error_at_no_gap(sizes, constant, margin) > alpha:
            return False
        return margin is None or _error_at_margin(sizes, constant, margin) <= alpha

    # One look alone needs about z, and more looks need more.
    return smallest_from(int(0.9 * z * _HUNDREDTHS), holds, step=_HUNDREDTHS // 5) / _HUNDREDTHS


def _error_at_no_gap(sizes: tuple[int, ...], constant: float, margin: float | None) -> float:
    """Return the chance to end above 0 without a gap, at the worst share of disagreement.

    Paths are enumerated once, by weights; what ends with ``D`` disagreements then has the chance
    ``d**D (1 - d)**(pairs - D)``, at a share ``d``, for each unit of weight.
    """
    # At share 0 nothing ends.
    shares = shares_of_disagreement(0, _SHARES)[1:]
    logs_of_chances = log_chances(np.stack([shares, 1 - shares]))
    error = np.zeros(len(shares))
    unit, paths = weighted_paths(sizes)
    for (pairs, mass, wins, losses), z in zip(
        paths, _critical_values(sizes, constant), strict=True
    ):
        above = _is_above(wins, losses, pairs, z, margin)
        weights = np.bincount((wins + losses)[above], mass[above], minlength=pairs + 1)
        disagreed = np.flatnonzero(weights)
        logs = logs_of_chances.T @ np.stack([disagreed, pairs - disagreed])
        error += np.exp(logs + np.log(weights[disagreed]) - pairs * math.log(unit)).sum(axis=1)
        mass[above] = 0
    return float(error.max())


def _error_at_margin(sizes: tuple[int, ...], constant: float, margin: float) -> float:
    """Return the chance to prove a margin that is the gap, at the worst share of disagreement."""
    shares = shares_of_disagreement(margin, _SHARES_WITH_MARGIN)
    # A unit of weight has one half for each disagreement.
    logs_of_chances = log_chances(np.stack([shares + margin, shares - margin, 1 - shares]))
    error = np.zeros(len(shares))
    unit, paths = weighted_paths(sizes)
    for (pairs, mass, wins, losses), z in zip(
        paths, _critical_values(sizes, constant), strict=True
    ):
        proven = (mass > 0) & _proves_margin(wins, losses, pairs, z, margin)
        won, lost = wins[proven], losses[proven]
        logs = logs_of_chances.T @ np.stack([won, lost, pairs - won - lost])
        error += np.exp(logs + np.log(mass[proven]) - pairs * math.log(unit)).sum(axis=1)
        mass[proven] = 0
    return float(error.max())


def _is_above(
    wins: IntArray, losses: IntArray, pairs: int, z: float, margin: float | None
) -> BoolArray:
    """Say where the interval of a look lies above 0, for counts [wins, losses]."""
    return (wins + losses <= pairs) & _method(margin).above(wins, losses, pairs, z=z)


def _proves_margin(
    wins: IntArray, losses: IntArray, pairs: int, z: float, margin: float
) -> BoolArray:
    """Say where the interval of a look lies below the margin, for counts [wins, losses]."""
    # Below the margin is above the negative margin with the arms swapped.
    return (wins + losses <= pairs) & TANGO.above(losses, wins, pairs, gap=-margin, z=z)


def pair_chances(win: float, loss: float) -> tuple[float, float, float]:
    """Return the chances of a win, a loss and a tie in one pair, or raise ValueError."""
    p, q = real_or_nan(win), real_or_nan(loss)
    # Chances that were added up elsewhere may pass 1 by their rounding.
    if not (p >= 0 and q >= 0 and p + q <= 1 + 1e-9):
        raise ValueError(f"need two chances from 0, at most 1 together, got {win!r} and {loss!r}")
    return p, q, max(0.0, 1 - p - q)


def paired_paths(
    sizes: tuple[int, ...], chances: tuple[float, float, float]
) -> Iterator[tuple[int, FloatArray, IntArray, IntArray]]:
    """Yield at each look its size, the mass of every [wins, losses], and both counts.

    The receiver sets the mass that ends there to 0. Pairs are added one at a time, and only
    positive numbers are added, so that small masses keep their digits.
    """
    win, loss, tie = chances
    # [1 + wins, 1 + losses]: before the first count there is a border of no mass.
    mass = np.zeros((sizes[-1] + 2, sizes[-1] + 2))
    mass[1, 1], done = 1, 0
    for pairs in sizes:
        for size in range(done + 1, pairs + 1):
            # The rows of the most wins come first: those above still hold the pair before.
            for row in range(size - size % _ROWS, -1, -_ROWS):
                rows, end = slice(row + 1, min(row + _ROWS, size + 1) + 1), size + 2 - row
                above = slice(rows.start - 1, rows.stop - 1)
                mass[rows, 1:end] = (
                    tie * mass[rows, 1:end]
                    + win * mass[above, 1:end]
                    + loss * mass[rows, : end - 1]
                )
        done = pairs
        wins, losses = np.indices((pairs + 1, pairs + 1))
        yield pairs, mass[1 : pairs + 2, 1 : pairs + 2], wins, losses


def weighted_paths(
    sizes: tuple[int, ...],
) -> tuple[float, Iterator[tuple[int, FloatArray, IntArray, IntArray]]]:
    """Return a weight, and the paths in which a tie weighs that, and a win or a loss half of it.

    With 1 the rarest and the most frequent counts of 960 pairs are both floats; with more pairs
    the weight keeps the most frequent ones finite.
    """
    unit = min(1.0, 10 ** (290 / sizes[-1]) / 2)
    return unit, paired_paths(sizes, (unit / 2, unit / 2, unit))


def log_chances(chances: FloatArray) -> FloatArray:
    """Return logarithms, finite at chances of 0 so that no count of something is still 0."""
    logs: FloatArray = np.log(np.maximum(chances, 1e-300))
    return logs

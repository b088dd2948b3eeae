"""Paths: how the outcomes of complete pairs come about from one look to the next."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from pytest_cpg.stats.counts import real_or_nan

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]

# Rows of counts that are stepped at once, so that few of those beyond the last pair are.
_ROWS = 128


def pair_chances(win: float, loss: float) -> tuple[float, float, float]:
    """Return the chances of a win, a loss and a tie in one pair.

    Raises ValueError when one is below 0, or both are more than 1 together.
    """
    p, q = real_or_nan(win), real_or_nan(loss)
    # Chances that were added up elsewhere may pass 1 by their rounding.
    if not (p >= 0 and q >= 0 and p + q <= 1 + 1e-9):
        raise ValueError(f"need two chances from 0, at most 1 together, got {win!r} and {loss!r}")
    return p, q, max(0.0, 1 - p - q)


def paired_paths(
    sizes: tuple[int, ...], chances: tuple[float, float, float]
) -> Iterator[tuple[int, FloatArray, IntArray, IntArray]]:
    """Yield at each look its size, the mass of every [wins, losses], and both counts.

    Whoever receives them sets the mass that ends there to 0. One pair is added at a time, and only
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

    All paths together weigh ``(2 * unit)**pairs``. With 1 the rarest and the most frequent counts
    of 960 pairs are both floats; with more pairs the weight keeps the most frequent ones finite.
    """
    unit = min(1.0, 10 ** (290 / sizes[-1]) / 2)
    return unit, paired_paths(sizes, (unit / 2, unit / 2, unit))


def shares_of_disagreement(least: float, number: int) -> FloatArray:
    """Return shares from ``least`` to 1, evenly spaced in the scale on which counts vary evenly.

    That is the arc sine of the root (Anscombe, Biometrika 35:246-254, 1948). Evenly spaced shares
    miss the worst one where hardly any pair is a tie: there errors swing within a few thousandths.
    """
    shares: FloatArray = np.sin(np.linspace(math.asin(math.sqrt(least)), math.pi / 2, number)) ** 2
    return shares


def log_chances(chances: FloatArray) -> FloatArray:
    """Return logarithms, finite at chances of 0 so that no count of something is still 0."""
    logs: FloatArray = np.log(np.maximum(chances, 1e-300))
    return logs

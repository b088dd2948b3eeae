"""Bonett and Price's interval of arms that share their starts (J. Educ. Behav. Stat. 37, 2012).

The adjusted Wald interval (pages 479-488): from the Laplace estimates ``p = (wins + 1) / (n + 2)``
and ``q = (losses + 1) / (n + 2)``, ``p - q +- z sqrt((p + q - (p - q)**2) / (n + 2))``, cut at
[-1, 1]. Without a gap it lies above 0 in at most 2.7 % of runs of 10 to 200 episodes at level 0.95,
but in up to 5.5 % where the arms disagree on more than half of the starts (exact enumeration;
independent arms of equal rates never disagree on more than half).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.intervals import as_floats, exceeds, wald_bounds
from pytest_cpg.stats.paired import PairedMethod


def _bounds(wins: int, losses: int, pairs: int, *, z: float) -> tuple[float, float]:
    p, q = (wins + 1) / (pairs + 2), (losses + 1) / (pairs + 2)
    return wald_bounds(p - q, (p + q - (p - q) ** 2) / (pairs + 2), z)


def _statistic(wins: int, losses: int, pairs: int) -> float:
    difference = wins - losses
    return difference / math.sqrt(wins + losses + 2 - difference**2 / (pairs + 2))


def _above(
    wins: ArrayLike, losses: ArrayLike, pairs: ArrayLike, *, gap: float = 0.0, z: float
) -> NDArray[np.bool_]:
    b, c, n = as_floats(wins, losses, pairs)
    p, q = (b + 1) / (n + 2), (c + 1) / (n + 2)
    return exceeds(p - q - gap, z**2 * (p + q - (p - q) ** 2) / (n + 2))


BONETT_PRICE = PairedMethod(
    name="Bonett-Price 2012", bounds=_bounds, statistic=_statistic, above=_above
)

"""Rankings of several models on the same starts, and intervals on their ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.counts import check_count
from pytest_cpg.stats.intervals import critical_value

# Two models that each solve half of all starts, independently, differ on every one of n starts in
# the same direction in 2 / 4**n of the runs, and resampling would then tell them apart for certain:
# 1 of 8 at two starts, 1 of 32 at three.
FEWEST_STARTS_TO_RANK = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """``M`` models on the same starts, best first; equal counts share the better rank: 1, 1, 3."""

    names: tuple[str, ...]
    ranks: tuple[int, ...]
    rank_intervals: tuple[tuple[int, int], ...]
    level: float
    resamples: int
    method: str


def rank_models(
    names: Sequence[str],
    outcomes: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 1000,
) -> Ranking:
    """Return the ranking of models by their success counts, of outcomes [M, starts] of bool.

    It is that of Bradley and Terry (Biometrika 39:324-345, 1952) where on each start a model beats
    those that fail where it succeeds, and equal outcomes are half a win for each. Rank intervals
    are percentile bootstrap intervals (Efron and Tibshirani, An Introduction to the Bootstrap,
    1993, chapter 13): all models are resampled together; a model that ties in a resample takes its
    best possible rank there for the lower bound and its worst for the upper. ``resamples`` need one
    in each tail: 40 at level 0.95. docs/statistics.md has their error rates.
    """
    solved = _check_outcomes(names, outcomes)
    critical_value(level)  # refuses an impossible level
    drawn = check_count("resamples", resamples, least=math.ceil(round(2 / (1 - level), 9)))
    starts = solved.shape[1]
    best, worst = _ranks(solved.sum(axis=1))
    # How often each start is in each resample.
    times = rng.multinomial(starts, np.full(starts, 1 / starts), size=drawn)
    resampled_best, resampled_worst = (np.sort(ranks, axis=0) for ranks in _ranks(times @ solved.T))
    cut = math.floor(round(drawn * (1 - level) / 2, 9))
    low = np.minimum(resampled_best[cut], best)
    high = np.maximum(resampled_worst[drawn - 1 - cut], worst)
    order = np.argsort(best, kind="stable")
    return Ranking(
        names=tuple(names[i] for i in order),
        ranks=tuple(int(best[i]) for i in order),
        rank_intervals=tuple((int(low[i]), int(high[i])) for i in order),
        level=float(level),
        resamples=drawn,
        method="success counts, percentile bootstrap",
    )


def _check_outcomes(names: Sequence[str], outcomes: ArrayLike) -> NDArray[np.bool_]:
    if isinstance(names, str) or len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"need different names of at least two models, got {names!r}")
    solved = np.asarray(outcomes)
    if solved.dtype != np.bool_ or solved.ndim != 2 or len(solved) != len(names):
        raise ValueError(
            f"need bool outcomes [{len(names)} models, starts], got {solved.dtype} of shape "
            f"{solved.shape}"
        )
    if solved.shape[1] < FEWEST_STARTS_TO_RANK:
        raise ValueError(f"need at least {FEWEST_STARTS_TO_RANK} starts, got {solved.shape[1]}")
    return solved


def _ranks(counts: NDArray[np.integer[Any]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the best and the worst rank [..., M] that ties in the counts [..., M] leave open."""
    others, counted = counts[..., None, :], counts[..., :, None]
    return 1 + (others > counted).sum(axis=-1), (others >= counted).sum(axis=-1)

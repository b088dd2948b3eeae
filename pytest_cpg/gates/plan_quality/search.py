"""Search: which neighbours of plans are simulated, drawn at random or by an adversary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray

Search: TypeAlias = Literal["random", "adversarial"]

# Of an adversary: what it finds in one it edits further in the next.
_ROUNDS = 4


def explore(
    plans: npt.NDArray[Any],
    values: FloatArray,
    *,
    draw: Callable[[npt.NDArray[Any], int], npt.NDArray[Any]],
    evaluate: Callable[[npt.NDArray[Any]], FloatArray],
    k: int,
    search: Search = "random",
) -> FloatArray:
    """Return the values of neighbours [N, K] of plans [N, ...].

    An adversary spends as many simulations: in four rounds it edits the best that it has found, the
    plan itself at first, so that edits add up where they pay.

    Parameters
    ----------
    values : array [N]
        Of the plans.
    draw : callable
        Maps plans [N, ...] to ``C`` neighbours of each, or fewer if there are no more:
        [N, C, ...].
    evaluate : callable
        Maps neighbours [N, C, ...] to values [N, C]; higher is better.
    """
    best, most, found = plans, values, []
    for count in _counts(k, search):
        tried = draw(best, count)
        if not tried.shape[1]:
            break
        rated = evaluate(tried)
        rows, top = np.arange(len(plans)), rated.argmax(axis=1)
        gains = rated[rows, top] > most
        best = best.copy()
        best[gains] = tried[rows, top][gains]
        most = np.maximum(most, rated[rows, top])
        found.append(rated)
    if not found:
        raise ValueError("a plan has no neighbours: its edits leave it as it is")
    return np.concatenate(found, axis=1)


def _counts(k: int, search: Search) -> list[int]:
    """Return how many neighbours are drawn in each round."""
    rounds = min(k, _ROUNDS) if search == "adversarial" else 1
    return [len(part) for part in np.array_split(np.arange(k), rounds)]

"""Ranking: how near a true end lies to its own prediction, among a model's predictions of many.

H@1 and MRR of Ke et al. (2021), where ties are shared: a model that predicts one and the same for
all finds nothing. A copy of the input finds much, as little moves in a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, WorldModelError
from pytest_cpg.gates.kind import Asked
from pytest_cpg.gates.prediction.kind import World, imagined, stretches
from pytest_cpg.world_models.binding.bound import BoundModel

_STATES = 500
_CURES = {
    "true ends": "The model encodes all of them alike, or nothing happens: look at its encoder, or "
    "ask for a longer horizon.",
    "predictions": "The model predicts a constant: look for an encoder that has collapsed.",
}


def questions(asked: Asked, world: World) -> Sequence[Any]:
    """Return states [N, S], two plans for each [N, 2, H, A], and what the first led to [N, S].

    The second is that of another state. A number [N] is for what is drawn.
    """
    states, plans, reached = stretches(world, asked.values, count=_STATES)
    both = np.stack([plans, np.roll(plans, len(plans) // 2, axis=0)], axis=1)
    return states, both, reached, np.arange(len(states))


def shown(
    model: BoundModel,
    states: FloatArray,
    plans: FloatArray,
    reached: FloatArray,
    numbers: IntArray,
) -> FloatArray:
    """Return what is predicted of both plans, what is true and what was before [B, 4 P]."""
    see = model.observe or model.described
    predicted = imagined(model, states, plans, numbers).reshape(len(states), -1)
    return np.concatenate([predicted, *(see(model.encode(one)) for one in (reached, states))], 1)


def ranks(
    queries: FloatArray, gallery: FloatArray, same: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return how many of a gallery [N, P] are nearer to each query than its own, and how many tie.

    Those of the same number in ``same`` [N] stand for the same, and are not told apart.
    """
    nearer, ties = np.zeros((2, len(queries)))
    # Differences themselves: the published products lose all digits beside an offset.
    for row, query in enumerate(queries):
        with np.errstate(over="ignore"):
            away = ((gallery - query) ** 2).sum(axis=1)
        others = same != same[row]
        nearer[row] = (away[others] < away[row]).sum()
        ties[row] = (away[others] == away[row]).sum()
    return nearer, ties


def missed(nearer: FloatArray, ties: FloatArray) -> FloatArray:
    """Return how far each query [N] is from being found: 0 or 1, or a share of a tie."""
    return np.where(nearer > 0, 1.0, ties / (ties + 1))


def comparable(
    predicted: FloatArray, swapped: FloatArray, true: FloatArray, before: FloatArray
) -> list[FloatArray]:
    """Return all four [N, P] in the columns that plans move, in units of the true ends' spread.

    Raises WorldModelError for a gallery in which nothing can be found.
    """
    for what, rows in (("true ends", true), ("predictions", predicted)):
        if (rows == rows[0]).all():
            raise WorldModelError(
                f"the {what} of all {len(rows)} states are the same: in such a gallery nothing can "
                f"be found. {_CURES[what]}"
            )
    # What no plan moves tells episodes apart, and nothing of the model.
    is_moved = (true != before).any(axis=0) & (true.std(axis=0) > 0)
    if not is_moved.any():
        raise WorldModelError(
            f"of what is seen in all {len(true)} states nothing is moved by any plan: in such a "
            f"gallery nothing can be found. {_CURES['true ends']}"
        )
    scale = 1 / true[:, is_moved].std(axis=0)
    return [part[:, is_moved] * scale for part in (predicted, swapped, true, before)]

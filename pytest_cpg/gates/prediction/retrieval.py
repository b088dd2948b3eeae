"""Retrieval: whether what truly followed is found among a model's predictions of all that did.

H@1 and MRR of Ke et al. (2021), where ties are shared: a model that predicts one and the same for
all finds nothing. A copy of the input finds much, as little moves in a step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, WorldModelError
from pytest_cpg.gates.at_most import Reading
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.gates.prediction.kind import PredictionKind, World, imagined, stretches
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


def _missed(nearer: FloatArray, ties: FloatArray) -> FloatArray:
    return np.where(nearer > 0, 1.0, ties / (ties + 1))


class Retrieval(PredictionKind):
    """The kind `cpg_retrieval`."""

    def reading(self, spec: Asked, model: Any, run: Run) -> Reading:
        """Return the share that is not found, those of what knows no actions, and MRR beside."""
        asked = self.asked(spec, run)
        predicted, swapped, true, before = np.split(self.answers(asked, model, run), 4, axis=1)
        for what, rows in (("true ends", true), ("predictions", predicted)):
            if (rows == rows[0]).all():
                raise WorldModelError(
                    f"the {what} of all {len(rows)} states are the same: in such a gallery nothing "
                    f"can be found. {_CURES[what]}"
                )
        # What no plan moves tells episodes apart, and nothing of the model.
        is_moved = (true != before).any(axis=0) & (true.std(axis=0) > 0)
        if not is_moved.any():
            raise WorldModelError(
                f"of what is seen in all {len(true)} states nothing is moved by any plan: in such "
                f"a gallery nothing can be found. {_CURES['true ends']}"
            )
        scale = 1 / true[:, is_moved].std(axis=0)
        predicted, swapped, true, before = (
            part[:, is_moved] * scale for part in (predicted, swapped, true, before)
        )
        same = np.unique(true, axis=0, return_inverse=True)[1].reshape(-1)
        nearer, ties = ranks(true, predicted, same)
        missed = _missed(nearer, ties)
        with np.errstate(over="ignore"):
            off = np.sqrt(((predicted - true) ** 2).mean())
        facts = {
            "MRR": f"{(1 / (1 + nearer + ties / 2)).mean():.3f}",
            "error": f"{off:.3g} of a number's spread, root mean square",
            "published": f"H@1 {(nearer == 0).mean():.3f}, MRR {(1 / (1 + nearer)).mean():.3f}, "
            f"where a tie is a hit, for comparison only",
        }
        ignorant = {
            who: self.mean(_missed(*ranks(true, gallery, same)), asked, spec)
            for who, gallery in (("copy", before), ("swapped", swapped))
        }
        number, size = self.mean(missed, asked, spec), self.counted(spec, missed)
        return Reading(number, size, missed, ignorant, {"facts": facts})

    def shown(self, result: Any, model: str) -> dict[str, Any]:
        """Return the number, and where to look: at what no shorter horizon tells."""
        card = super().shown(result, model)
        if card["do"] and result.conditions["horizon"] == "1":
            card["do"] = "It is wrong after one step: look at its encoder and its data."
        return card


def retrieval() -> Retrieval:
    """Return the kind `cpg_retrieval`."""
    return Retrieval(
        marker="cpg_retrieval",
        help="whether what followed is found among a world model's predictions (1 - H@1)",
        number="share missed",
        questions=questions,
        error=shown,
        most=1.0,
        unit="of states",
        meaning="What truly followed lies nearer to what it predicts of other states.",
        advice="Compare with horizon=1: an error that grows comes from rollouts, and one that is "
        "there at once from encoder or data.",
        sharpen="Set a lower limit, or a longer horizon, in which actions count for more.",
    )

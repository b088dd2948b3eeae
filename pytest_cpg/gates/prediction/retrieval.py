"""Retrieval: whether what truly followed is found among a model's predictions of all that did."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.gates.at_most import Reading
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.gates.prediction.kind import PredictionKind
from pytest_cpg.gates.prediction.ranking import comparable, missed, questions, ranks, shown


class Retrieval(PredictionKind):
    """The kind `cpg_retrieval`."""

    def reading(self, spec: Asked, model: Any, run: Run) -> Reading:
        """Return the share that is not found, those of what knows no actions, and MRR beside."""
        asked = self.asked(spec, run)
        rows = np.split(self.answers(asked, model, run), 4, axis=1)
        predicted, swapped, true, before = comparable(*rows)
        same = np.unique(true, axis=0, return_inverse=True)[1].reshape(-1)
        nearer, ties = ranks(true, predicted, same)
        errors = missed(nearer, ties)
        with np.errstate(over="ignore"):
            off = np.sqrt(((predicted - true) ** 2).mean())
        facts = {
            "MRR": f"{(1 / (1 + nearer + ties / 2)).mean():.3f}",
            "error": f"{off:.3g} of a number's spread, root mean square",
            "published": f"H@1 {(nearer == 0).mean():.3f}, MRR {(1 / (1 + nearer)).mean():.3f}, "
            f"where a tie is a hit, for comparison only",
        }
        ignorant = {
            who: self.mean(missed(*ranks(true, gallery, same)), asked, spec)
            for who, gallery in (("copy", before), ("swapped", swapped))
        }
        number, size = self.mean(errors, asked, spec), self.counted(spec, errors)
        return Reading(number, size, errors, ignorant, {"facts": facts})

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

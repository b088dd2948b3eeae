"""Counterfactual: whether a model knows which action does what."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.gates.arguments import Argument, name, whole
from pytest_cpg.gates.at_most import Reading
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.gates.prediction.confusion import (
    confused,
    copies,
    guessed,
    predictions,
    questions,
    share_asked,
)
from pytest_cpg.gates.prediction.kind import PredictionKind
from pytest_cpg.gates.rows import Questions
from pytest_cpg.world_models import OracleDynamics
from pytest_cpg.world_models.binding.ensemble import members_of

# States whose predictions tell members apart.
_COMPARED = 64


class Counterfactual(PredictionKind):
    """The kind `cpg_counterfactual`."""

    def reading(self, spec: Asked, model: Any, run: Run) -> Reading:
        """Return the share confused, and those of a copy of the input and of chance."""
        asked = self.asked(spec, run)
        self._check_members(asked, model, run)
        errors = self.answers(asked, model, run)
        truth = OracleDynamics(asked.task)
        copied = self.answers(asked._replace(answer=copies), truth, run)
        others = {"copy": copied, "chance": guessed(*asked.arrays)}
        ignorant = {who: self.mean(wrong, asked, spec) for who, wrong in others.items()}
        facts, stratum = {}, spec.values["stratum"]
        if stratum != "all":
            share = share_asked(asked, spec.values)
            facts["stratum"] = f"{stratum!r}, in which {100 * share:.2g} % of random steps are"
        number, size = self.mean(errors, asked, spec), self.counted(spec, errors)
        return Reading(number, size, errors, ignorant, {"facts": facts})

    def _check_members(self, asked: Questions, model: Any, run: Run) -> None:
        """Raise WorldModelError for an ensemble two of whose members predict the same."""
        states, plans, *_, numbers = (array[:_COMPARED] for array in asked.arrays)
        few = asked._replace(answer=predictions, arrays=(states, plans, numbers))
        predicted = [self.answers(few, member, run) for member in members_of(model)]
        for first, second in combinations(range(len(predicted)), 2):
            if np.array_equal(predicted[first], predicted[second]):
                raise WorldModelError(
                    f"members {first} and {second} of {model!r} predict the same, to the bit. Give "
                    f"members of different seeds or data, or one of them in its place."
                )


def counterfactual() -> Counterfactual:
    """Return the kind `cpg_counterfactual`."""
    return Counterfactual(
        marker="cpg_counterfactual",
        help="whether a learned world model knows which action does what",
        number="share confused",
        questions=questions,
        error=confused,
        most=1.0,
        own=(
            Argument("stratum", name, "all", help="the steps that count, of those the task names"),
            Argument("alternatives", whole(2, 64), 8, help="actions that are tried, of a box"),
        ),
        unit="of actions",
        meaning="Its predictions for an action lie nearer to what another one does.",
        advice="See that actions reach the network in the gate's order and units, and train on "
        "transitions whose actions vary from the same states.",
        sharpen="Set a limit well below the shares of copy and chance.",
    )

"""Response: whether the same parts of the world answer to the same actions as in truth."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.gates.arguments import Argument, one_of
from pytest_cpg.gates.at_most import AtMost, Reading
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.gates.prediction import responses
from pytest_cpg.gates.prediction.direct import direct_answers
from pytest_cpg.gates.prediction.kind import HORIZON
from pytest_cpg.gates.prediction.responses import Responses
from pytest_cpg.world_models import OracleDynamics


class Response(AtMost):
    """The kind `cpg_response`."""

    result = entry_type = Responses

    def reading(self, spec: Asked, model: Any, run: Run) -> Reading:
        """Return the share of pairs in which model and truth differ, and the pairs."""
        asked = self.asked(spec, run)
        task, (states, plans, owners, _) = asked.task, asked.arrays
        parts = responses.parts_of(task)
        causes, _ = responses.varied(task, [np.random.default_rng(0)])
        shape, size = (-1, len(causes), len(parts)), owners.shape[1]
        (true, ends), (own, predicted) = (
            (values[:, :-size].reshape(shape), values[:, -size:])
            for values in (self.answers(asked, who, run) for who in (OracleDynamics(task), model))
        )
        responses.check_places(ends, predicted, parts)
        unit = responses.units_of(true, ends, parts)
        descends = responses.descending(true / unit, task.name)
        if spec.values["answers"] == "direct":
            true, own = direct_answers(task, model, states, plans, descends)
        level = spec.shared(spec.values["confidence"])
        found = responses.compared(true / unit, own / unit, level, spec.values["seed"])
        more = {"causes": tuple(causes), "effects": tuple(parts), **found.strengths}
        more["facts"] = {"in truth": responses.counted(found.strengths["truth"])}
        return Reading(found.number, f"{len(true)} states", ignorant=found.ignorant, more=more)

    def shown(self, result: Any, model: str) -> dict[str, Any]:
        """Return the number, and which parts answer otherwise than in truth."""
        why, figure = responses.mismatches_and_figure(result)
        card = super().shown(result, model)
        return {**card, "why": why or card["why"], "figures": (figure,)}


def _no_logs(source: Any) -> Any:
    raise ValueError(
        f"a log has one action from each state, so that nobody sees what answers to which, got "
        f"{source!r:.60}. Ask cpg_counterfactual of it, or give the task"
    )


def response() -> Response:
    """Return the kind `cpg_response`."""
    return Response(
        marker="cpg_response",
        help="whether the same things answer to the same actions in a world model and in truth",
        number="distance",
        questions=responses.questions,
        error=responses.answers,
        most=1.0,
        own=(
            HORIZON,
            Argument(
                "answers", one_of("all", "direct"), "all", help="those that count; see its page"
            ),
            Argument("transitions", _no_logs, help="cannot be given: see its page"),
        ),
        unit="of answers",
        advice="Train on transitions in which that cause varies while others stay, and see that no "
        "part of the network is cut off from its action.",
        sharpen="Set a lower limit, or ask cpg_counterfactual where everything answers.",
    )

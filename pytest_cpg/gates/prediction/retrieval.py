"""Retrieval: whether what truly followed is found among a model's predictions of all that did.

H@1 and MRR of Ke et al. (2021), where ties are shared: a model that predicts one and the same for
all finds nothing. A copy of the input finds much, as little moves in a step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Task, WorldModelError
from pytest_cpg.gates.arguments import Argument, whole
from pytest_cpg.gates.at_most import Reading
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.gates.prediction.counterfactual import drawn, visited
from pytest_cpg.gates.prediction.logs import TRANSITIONS, Logs, PredictionKind
from pytest_cpg.gates.rows import Questions
from pytest_cpg.world_models.binding.bound import BoundModel

_STATES = 500


def questions(asked: Asked, task: Task) -> Sequence[Any]:
    """Return states [N, S], random plans [N, H, A], and the states [N, S] these lead to."""
    seed = asked.values["seed"]
    states = visited(task, seed, _STATES)
    streams = [np.random.default_rng([seed, row, 5]) for row in range(len(states))]
    plans = task.actions.sample(streams, (asked.values["horizon"],))
    return states, plans, task.rollout(states, plans)[:, -1]


def shown(
    model: BoundModel, states: FloatArray, plans: FloatArray, reached: FloatArray
) -> FloatArray:
    """Return what is predicted, what is true and what was before [B, 3 P], as the model sees it."""
    before, after = (model.encode(part) for part in (states, reached))
    predicted = model.rollout(before, plans)[:, -1]
    see = model.observe or model.described
    return np.concatenate([see(part) for part in (predicted, after, before)], axis=1)


def ranks(queries: FloatArray, gallery: FloatArray, same: IntArray) -> tuple[FloatArray, IntArray]:
    """Return how many of a gallery [N, P] are nearer to each query than its own, and how many tie.

    Those of the same number in ``same`` [N] stand for the same, and are not told apart.
    """
    nearer, ties = np.zeros(len(queries)), np.zeros(len(queries), dtype=np.intp)
    # Differences themselves: the published products lose all digits beside an offset.
    for row, query in enumerate(queries):
        with np.errstate(over="ignore"):
            away = ((gallery - query) ** 2).sum(axis=1)
        others = same != same[row]
        nearer[row] = (away[others] < away[row]).sum()
        ties[row] = (away[others] == away[row]).sum()
    return nearer, ties


class Retrieval(PredictionKind):
    """The kind `cpg_retrieval`."""

    def recorded(self, logs: Logs, values: Mapping[str, Any]) -> Questions:
        """Return what is asked of recorded steps."""
        rows, steps = drawn(logs, values), logs.transitions
        plans = steps.actions[rows[:, None] + np.arange(values["horizon"])]
        reached = steps.next_observations[rows + values["horizon"] - 1]
        states = steps.observations[rows]
        probe = (states[:8], plans[:8, 0])
        return Questions(
            cast(Task, logs), shown, (states, plans, reached), logs.episodes[rows], probe
        )

    def reading(self, spec: Asked, model: Any, run: Run) -> Reading:
        """Return the share that is not found, that of a copy, and MRR among the facts."""
        asked = self.asked(spec, run)
        predicted, true, before = np.split(self.answers(asked, model, run), 3, axis=1)
        for what, rows in (("true ends", true), ("predictions", predicted)):
            if not np.isfinite(rows).all():
                break
            if (rows == rows[0]).all():
                raise WorldModelError(
                    f"the {what} of all {len(rows)} states are the same: in such a gallery nothing "
                    f"can be found. {_CURES[what]}"
                )
        # What no plan moves tells episodes apart, and nothing of the model.
        is_moved = (true != before).any(axis=0) & (true.std(axis=0) > 0)
        scale = 1 / true[:, is_moved].std(axis=0)
        predicted, true, before = (part[:, is_moved] for part in (predicted, true, before))
        same = np.unique(true, axis=0, return_inverse=True)[1].reshape(-1)
        nearer, ties = ranks(true * scale, predicted * scale, same)
        missed = np.where(nearer > 0, 1.0, ties / (ties + 1))
        missed[~np.isfinite(predicted).all(axis=1)] = np.nan
        copies = ranks(true * scale, before * scale, same)
        copied = np.where(copies[0] > 0, 1.0, copies[1] / (copies[1] + 1))
        off = np.sqrt((((predicted - true) * scale) ** 2).mean())
        facts = {
            "MRR": f"{(1 / (1 + nearer + ties / 2)).mean():.3f}",
            "error": f"{off:.3g} of a number's spread, root mean square",
            "published": f"H@1 {(nearer == 0).mean():.3f}, MRR {(1 / (1 + nearer)).mean():.3f}, "
            f"where a tie is a hit, for comparison only",
        }
        return Reading(
            self.mean(missed, asked, spec),
            f"{len(missed)} {'states' if spec.values['transitions'] is None else 'steps'}",
            missed,
            {"copy": self.mean(copied, asked, spec)},
            {"facts": facts},
        )


_CURES = {
    "true ends": "The model encodes all of them alike, or nothing happens: look at its encoder, or "
    "ask for a longer horizon.",
    "predictions": "The model predicts a constant: look for an encoder that has collapsed.",
}


def retrieval() -> Retrieval:
    """Return the kind `cpg_retrieval`."""
    return Retrieval(
        marker="cpg_retrieval",
        help="whether what followed is found among a world model's predictions (1 - H@1)",
        number="share missed",
        questions=questions,
        error=shown,
        most=1.0,
        own=(
            Argument("horizon", whole(1, 1000), 1, help="steps of the plans, as 1, 5 or 10"),
            TRANSITIONS,
        ),
        unit="of states",
        meaning="What truly followed lies nearer to what it predicts of other states.",
        advice="Compare with horizon=1: an error that grows comes from rollouts, and one that is "
        "there at once from encoder or data.",
    )

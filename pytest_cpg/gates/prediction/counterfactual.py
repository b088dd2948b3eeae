"""Counterfactual: whether the prediction for an action is nearest to what that action does.

From one state, the true successors of several actions are told apart by the model's predictions.
The share of predictions that lie nearest to another action's successor is what a planner confuses,
whatever the mean error is. A copy of the input tells no action from another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    ComponentError,
    FiniteActions,
    FloatArray,
    Task,
    WorldModelError,
)
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import Strata
from pytest_cpg.gates.arguments import Argument, name, whole
from pytest_cpg.gates.at_most import AtMost
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.stats import Sampled
from pytest_cpg.world_models.binding.bound import BoundModel

# States that are asked about, and random steps that lead to them at most.
_STATES, _STEPS = 300, 30
# States that tell anything, and actions of a set that are all tried.
_FEWEST, _MOST = 20, 32


def visited(task: Task, seed: int, count: int) -> FloatArray:
    """Return states [count, S], each after another number of random steps from a start."""
    rng = np.random.default_rng(seed)
    states = task.reset(rng.integers(2**31, size=count))
    streams = [np.random.default_rng([seed, row]) for row in range(count)]
    until = rng.integers(_STEPS, size=count)
    for step in range(until.max(initial=0)):
        after = task.step(states, task.actions.sample(streams, ()))
        states = np.where((step < until)[:, None], after, states)
    return states


def questions(asked: Asked, task: Task) -> Sequence[Any]:
    """Return what is asked: a state a row.

    States [N, S], plans [N, J, H, A] that differ in their first action, the states [N, J, S] that
    these lead to, how much the actions change what is observed [N, O], and which plans count
    [N, J].
    """
    values = asked.values
    states = visited(task, values["seed"], _STATES)
    streams = [np.random.default_rng([values["seed"], 1, row]) for row in range(len(states))]
    if isinstance(task.actions, FiniteActions) and len(task.actions.values) <= _MOST:
        first = np.broadcast_to(task.actions.values, (len(states), *task.actions.values.shape))
    else:
        first = task.actions.sample(streams, (values["alternatives"],))
    later = task.actions.sample(streams, (1, values["horizon"] - 1)).repeat(first.shape[1], axis=1)
    plans = np.concatenate([first[:, :, None], later], axis=2)
    count, size = plans.shape[:2]
    begun = np.repeat(states, size, axis=0)
    true = task.rollout(begun, plans.reshape(-1, *plans.shape[2:]))[:, -1]
    seen = task.observe(true).reshape(count, size, -1)
    unit = (seen - seen.mean(axis=1, keepdims=True)).std(axis=(0, 1))
    counts = np.ones((count, size), dtype=np.bool_)
    if values["stratum"] != "all":
        counts = _stratum(task, values["stratum"], begun, plans[:, :, 0]).copy()
    # Where all actions lead to the same, there is nothing to tell apart.
    counts &= (seen != seen[:, :1]).any(axis=(1, 2))[:, None]
    rows = np.flatnonzero(counts.any(axis=1))
    if len(rows) < _FEWEST:
        raise WorldModelError(
            f"{task.name}: actions lead apart in {len(rows)} of {count} states in stratum "
            f"{values['stratum']!r}, and {_FEWEST} are needed. Ask for another stratum, or for a "
            f"longer horizon."
        )
    true = true.reshape(count, size, -1)
    return states[rows], plans[rows], true[rows], np.tile(unit, (len(rows), 1)), counts[rows]


def confused(
    model: BoundModel,
    states: FloatArray,
    plans: FloatArray,
    true: FloatArray,
    unit: FloatArray,
    counts: BoolArray,
) -> FloatArray:
    """Return the share of each state's plans [B] that are taken for another."""
    count, size = plans.shape[:2]
    latents = np.repeat(model.encode(states), size, axis=0)
    predicted = model.rollout(latents, plans.reshape(-1, *plans.shape[2:]))[:, -1]
    reached = model.encode(true.reshape(count * size, -1))
    if model.observe is not None:
        predicted, reached = model.observe(predicted), model.observe(reached)
        moving = unit[0] > 0
        predicted, reached = (part[:, moving] / unit[0, moving] for part in (predicted, reached))
    predicted, reached = (part.reshape(count, size, -1) for part in (predicted, reached))
    away = ((predicted[:, :, None] - reached[:, None]) ** 2).sum(axis=-1)
    differs = (reached[:, :, None] != reached[:, None]).any(axis=-1)
    distance = np.einsum("njj->nj", away)[..., None]
    is_nearer = (differs & (away < distance)).any(axis=-1)
    ties = (differs & (away == distance)).sum(axis=-1)
    wrong = np.where(is_nearer, 1.0, ties / (ties + 1))
    return np.asarray((wrong * counts).sum(axis=1) / counts.sum(axis=1))


def _stratum(task: Task, stratum: str, states: FloatArray, actions: FloatArray) -> BoolArray:
    """Return which steps from states [N J, S] by actions [N, J, A] are in a stratum: [N, J]."""
    flat = actions.reshape(-1, actions.shape[-1])
    strata = task.strata(states, flat) if has(task, Strata) else {}
    if stratum in strata:
        return np.asarray(strata[stratum]).reshape(actions.shape[:2])
    raise ComponentError(
        f"task {task.name!r} has no stratum {stratum!r}. {did_you_mean(stratum, ['all', *strata])}"
    )


class Counterfactual(AtMost):
    """The kind `cpg_counterfactual`."""

    def _of_ignorant(self, spec: Asked, run: Run) -> Sampled | None:
        """Return the number of a copy of the input, in every stratum: in some nothing changes."""
        return super()._of_ignorant(replace(spec, values={**spec.values, "stratum": "all"}), run)


def counterfactual() -> Counterfactual:
    """Return the kind `cpg_counterfactual`."""
    return Counterfactual(
        marker="cpg_counterfactual",
        help="whether a learned world model knows which action does what",
        number="share confused",
        questions=questions,
        error=confused,
        ignorant=copied,
        most=1.0,
        own=(
            Argument("stratum", name, "all", help="the steps that count, of those the task names"),
            Argument("horizon", whole(1, 1000), 1, help="steps until predictions are compared"),
            Argument("alternatives", whole(2, 64), 8, help="actions that are tried, of a box"),
        ),
        unit="of actions",
        meaning="Its predictions for an action lie nearer to what another one does.",
        advice="See that actions reach the network in the gate's order and units, and train on "
        "transitions whose actions vary from the same states.",
    )


def copied(observations: FloatArray, actions: FloatArray) -> FloatArray:
    """Return the observations: what a model says that knows nothing."""
    del actions
    return observations.copy()

"""Counterfactual: whether the prediction for an action is nearest to what that action does.

From one state, the true successors of several actions are told apart by the model's predictions.
The share of predictions that lie nearest to another action's successor is what a planner confuses,
whatever the mean error is. A copy of the input tells no action from another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    ComponentError,
    FiniteActions,
    FloatArray,
    IntArray,
    Task,
    WorldModelError,
)
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import Strata
from pytest_cpg.gates.arguments import Argument, name, whole
from pytest_cpg.gates.at_most import Reading
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.gates.prediction.logs import TRANSITIONS, Logs, PredictionKind
from pytest_cpg.gates.rows import Questions
from pytest_cpg.world_models.binding.bound import BoundModel

# States that are asked about, and random steps that lead to them at most.
_STATES, _STEPS = 300, 30
# States that tell anything, and actions of a set that are all tried.
_FEWEST, _MOST = 20, 32
# Recorded steps that are asked about, and those that a model is checked with.
_LOGGED, _PROBES = 500, 8


def visited(task: Task, seed: int, count: int) -> FloatArray:
    """Return states [count, S], each after another number of random steps from a start."""
    rng = np.random.default_rng([seed, 1])
    states = task.reset(rng.integers(2**31, size=count))
    until = rng.integers(_STEPS, size=count)
    streams = [np.random.default_rng([seed, row, 2]) for row in range(count)]
    for step in range(until.max(initial=0)):
        after = task.step(states, task.actions.sample(streams, ()))
        states = np.where((step < until)[:, None], after, states)
    return states


def questions(asked: Asked, task: Task) -> Sequence[Any]:
    """Return what is asked: a state a row.

    States [N, S], plans [N, J, H, A] that differ in their first action, the states [N, J, S] that
    these lead to, what is observed there [N, J, O], the scale [N, O] in which its columns are
    compared, the first plan with the same end [N, J], and which plans count [N, J].
    """
    values = asked.values
    if values["stratum"] == "all" and getattr(task, "stratum", "all") != "all":
        raise ComponentError(
            f"task {task.name!r} says where episodes start, and no step is chosen by that. Write "
            f"stratum={getattr(task, 'stratum')!r} into the marker."  # noqa: B009
        )
    states = visited(task, values["seed"], _STATES)
    streams = [np.random.default_rng([values["seed"], row, 3]) for row in range(len(states))]
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
    same = (seen[:, :, None] == seen[:, None]).all(axis=-1).argmax(axis=-1)
    # Of differences, as a column that no action changes has a mean that is rounded.
    moved = seen - seen[:, :1]
    unit = (moved - moved.mean(axis=1, keepdims=True)).std(axis=(0, 1))
    scale = np.divide(1.0, unit, out=np.zeros_like(unit), where=unit > 0)
    counts = np.ones((count, size), dtype=np.bool_)
    if values["stratum"] != "all":
        counts = _stratum(task, values["stratum"], begun, plans[:, :, 0]).copy()
    # Where all actions lead to the same, there is nothing to tell apart.
    counts &= (same != 0).any(axis=1)[:, None]
    rows = np.flatnonzero(counts.any(axis=1))
    if len(rows) < _FEWEST:
        shorter = " or a shorter horizon" if values["horizon"] > 1 else ""
        raise WorldModelError(
            f"{task.name}: actions lead apart in {len(rows)} of {count} states in stratum "
            f"{values['stratum']!r}, and {_FEWEST} are needed. Ask for another stratum{shorter}, "
            f"or of another task."
        )
    true = true.reshape(count, size, -1)
    scales = np.tile(scale, (len(rows), 1))
    return states[rows], plans[rows], true[rows], seen[rows], scales, same[rows], counts[rows]


def confused(
    model: BoundModel,
    states: FloatArray,
    plans: FloatArray,
    true: FloatArray,
    seen: FloatArray,
    scale: FloatArray,
    same: IntArray,
    counts: BoolArray,
) -> FloatArray:
    """Return the share of each state's plans [B] that are taken for another; NaN of no number."""
    predicted = _imagined(model, states, plans)
    if model.observe is not None:
        predicted, reached = (_scaled(part, scale[0]) for part in (predicted, seen))
    else:
        count, size = plans.shape[:2]
        reached = model.described(model.encode(true.reshape(count * size, -1)))
        reached = reached.reshape(count, size, -1)
    away = np.empty((*plans.shape[:2], plans.shape[1]))
    # One by one, as pictures would fill the memory.
    for plan in range(plans.shape[1]):
        away[:, plan] = _apart(predicted[:, plan, None], reached)
    wrong = _taken(away, same[:, :, None] != same[:, None])
    return np.asarray(np.where(counts, wrong, 0.0).sum(axis=1) / counts.sum(axis=1))


def mistaken(
    model: BoundModel,
    states: FloatArray,
    plans: FloatArray,
    reached: FloatArray,
    scale: FloatArray,
    same: IntArray,
) -> FloatArray:
    """Return whether another plan's prediction is nearer to what was reached by the first [B]."""
    predicted, is_seen = _imagined(model, states, plans), model.observe is not None
    if is_seen:
        predicted, reached = (_scaled(part, scale[0]) for part in (predicted, reached))
    else:
        reached = model.described(model.encode(reached))
    away = _apart(predicted, reached[:, None])
    # What is known to lead exactly there does the same as what was done.
    differs = (same != 0) & ~((away == 0) & (away[:, :1] == 0) & is_seen)
    return _taken(away[:, None], differs[:, None])[:, 0]


def _imagined(model: BoundModel, states: FloatArray, plans: FloatArray) -> FloatArray:
    """Return what a model predicts of plans [B, J, H, A]: observations, or latents, [B, J, O]."""
    count, size = plans.shape[:2]
    latents = np.repeat(model.encode(states), size, axis=0)
    reached = model.rollout(latents, plans.reshape(-1, *plans.shape[2:]))[:, -1]
    shown = model.described(reached) if model.observe is None else model.observe(reached)
    return np.asarray(shown.reshape(count, size, -1))


def _scaled(observations: FloatArray, scale: FloatArray) -> FloatArray:
    """Return the columns of observations that anything moves, in units of how much it does."""
    return np.asarray(observations[..., scale > 0] * scale[scale > 0])


def _apart(predicted: FloatArray, reached: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(((predicted - reached) ** 2).sum(axis=-1))


def _taken(away: FloatArray, differs: BoolArray) -> FloatArray:
    """Return how wrong the choices of the nearest are [B, Q], of distances [B, Q, J].

    The right one of query q is number q. A tie is shared.
    """
    queries = range(away.shape[1])
    right = away[:, queries, queries][..., None]
    is_nearer = (differs & (away < right)).any(axis=-1)
    ties = (differs & (away == right)).sum(axis=-1)
    wrong = np.where(is_nearer, 1.0, ties / (ties + 1))
    return np.where(np.isfinite(away).all(axis=-1), wrong, np.nan)


def _stratum(task: Task, stratum: str, states: FloatArray, actions: FloatArray) -> BoolArray:
    """Return which steps from states [N J, S] by actions [N, J, A] are in a stratum: [N, J]."""
    flat = actions.reshape(-1, actions.shape[-1])
    strata = task.strata(states, flat) if has(task, Strata) else {}
    if stratum in strata:
        chosen = np.asarray(strata[stratum])
        if chosen.shape == states.shape[:1] and chosen.dtype == np.bool_:
            return chosen.reshape(actions.shape[:2])
        raise ComponentError(
            f"task {task.name!r}: strata()[{stratum!r}] is {chosen.dtype} {chosen.shape}. Return "
            f"a bool for each of {len(states)} steps."
        )
    raise ComponentError(
        f"task {task.name!r} has no stratum {stratum!r}. {did_you_mean(stratum, ['all', *strata])}"
    )


def copied(observations: FloatArray, actions: FloatArray) -> FloatArray:  # noqa: ARG001
    """Predict that nothing changes: what knows nothing of actions."""
    return observations.copy()


def drawn(logs: Logs, values: Mapping[str, Any]) -> IntArray:
    """Return at which recorded steps [N] stretches begin that are asked about."""
    first, horizon = logs.stretches(values["horizon"]), values["horizon"]
    if len(first) < _FEWEST:
        raise WorldModelError(
            f"transitions: {logs.name} has {len(first)} stretches of {horizon} steps in a row, and "
            f"{_FEWEST} are needed. Record more, or ask for a shorter horizon."
        )
    rng = np.random.default_rng([values["seed"], 4])
    return np.sort(rng.choice(first, size=min(_LOGGED, len(first)), replace=False))


def logged(logs: Logs, values: Mapping[str, Any]) -> Questions:
    """Return what is asked of recorded steps: which of several actions was done."""
    steps, first = logs.transitions, drawn(logs, values)
    rows = first[:, None] + np.arange(values["horizon"])
    last = rows[:, -1]
    others, taken = np.unique(steps.actions, axis=0, return_inverse=True)
    if len(others) <= _MOST:
        tried = (taken[first, None] + np.arange(len(others))) % len(others)
    else:
        rng = np.random.default_rng([values["seed"], 6])
        elsewhere = rng.integers(len(steps), size=(len(first), values["alternatives"] - 1))
        tried = np.concatenate([taken[first, None], taken[elsewhere]], axis=1)
    # What is done is another action, or it is the same plan again.
    same = np.where(tried == tried[:, :1], 0, np.arange(tried.shape[1]))
    plans = steps.actions[rows][:, None].repeat(tried.shape[1], axis=1)
    plans[:, :, 0] = others[tried]
    change = (steps.next_observations[last] - steps.observations[first]).std(axis=0)
    if not change.any():
        raise WorldModelError(
            f"transitions: in {logs.name} every step changes the same, whatever is done. Are "
            f"next_observations those after the actions?"
        )
    scale = np.divide(1.0, change, out=np.zeros_like(change), where=change > 0)
    states = steps.observations[first]
    arrays = (states, plans, steps.next_observations[last], np.tile(scale, (len(rows), 1)), same)
    return Questions(
        cast(Task, logs),
        mistaken,
        arrays,
        clusters=logs.episodes[first],
        probe=(states[:_PROBES], plans[:_PROBES, 0, 0]),
    )


class Counterfactual(PredictionKind):
    """The kind `cpg_counterfactual`."""

    def recorded(self, logs: Logs, values: Mapping[str, Any]) -> Questions:
        """Return what is asked of recorded steps."""
        return logged(logs, values)

    def reading(self, spec: Asked, model: Any, run: Run) -> Reading:
        """Return the share confused, and those of a copy of the input and of chance.

        The copy's is over all steps: in some strata nothing moves.
        """
        asked = every = self.asked(spec, run)
        errors = self.answers(asked, model, run)
        if spec.values["stratum"] != "all":
            every = self.asked(replace(spec, values={**spec.values, "stratum": "all"}), run)
        copy = self.mean(self.answers(every, copied, run), every, spec)
        if spec.values["transitions"] is None:
            same, counts = asked.arrays[-2:]
            guessed = (same[:, :, None] != same[:, None]).mean(axis=-1)
            guessed = np.where(counts, guessed, 0.0).sum(axis=1) / counts.sum(axis=1)
        else:
            guessed = (asked.arrays[-1] != 0).mean(axis=1)
        return Reading(
            self.mean(errors, asked, spec),
            f"{len(errors)} {'states' if spec.values['transitions'] is None else 'steps'}",
            errors,
            {"copy": copy, "chance": self.mean(guessed, asked, spec)},
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
            Argument("horizon", whole(1, 1000), 1, help="steps until predictions are compared"),
            Argument("alternatives", whole(2, 64), 8, help="actions that are tried, of a box"),
            TRANSITIONS,
        ),
        unit="of actions",
        meaning="Its predictions for an action lie nearer to what another one does.",
        advice="See that actions reach the network in the gate's order and units, and train on "
        "transitions whose actions vary from the same states.",
    )

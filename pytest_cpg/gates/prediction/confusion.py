"""Confusion: which action's prediction is nearest to what an action does.

From one state, the true successors of several actions are told apart by the model's predictions,
and the other way round. The share of actions that are taken for another is what a planner confuses,
whatever the mean error is. A copy of the input tells no action from another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

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
from pytest_cpg.contracts.arrays import as_numbers
from pytest_cpg.contracts.task import observed, stratum_of
from pytest_cpg.gates.kind import Asked
from pytest_cpg.gates.prediction.kind import (
    World,
    imagined,
    stretches,
    visited,
)
from pytest_cpg.gates.prediction.logs import Logs
from pytest_cpg.gates.rows import Questions
from pytest_cpg.world_models.binding.bound import BoundModel

_STATES = 300
# Numbers that are observed at most, as pictures would fill the memory.
_NUMBERS = 2**25
# States that tell anything, and actions of a set that are all tried.
_FEWEST, _MOST = 20, 32


def questions(asked: Asked, world: World) -> Sequence[Any]:
    """Return what is asked: a state a row.

    States [N, S], plans [N, J, H, A] that differ in their first action, the states [N, Q, S] that
    the first of these lead to, what is observed there [N, Q, O], the scale [N, O] in which its
    columns are compared, which plans do else than these [N, Q, J], which count [N, Q], and a
    number [N] for what is drawn.
    """
    if isinstance(world, Logs):
        states, plans, reached, unit, differs = recorded(world, asked.values)
        counts = np.ones(reached.shape[:2], dtype=np.bool_)
    else:
        states, plans, reached, unit, differs = tried(world, asked.values)
        counts = _counts(world, asked.values, states, plans, differs)
    seen = world.observe(reached)
    scale = np.divide(1.0, unit, out=np.zeros_like(unit), where=unit > 0)
    numbers = np.arange(len(states))
    arrays = (states, plans, reached, seen, np.tile(scale, (len(states), 1)), differs, counts)
    rows = np.flatnonzero(counts.any(axis=1))
    return [array[rows] for array in (*arrays, numbers)]


def tried(task: Task, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return states, plans, their ends, by how much plans change what is seen, and which differ."""
    states = visited(task, values["seed"], _states(task, values))
    streams = [np.random.default_rng([values["seed"], row, 3]) for row in range(len(states))]
    if (every := _all_actions(task)) is not None:
        first = np.broadcast_to(every, (len(states), *every.shape))
    else:
        first = task.actions.sample(streams, (values["alternatives"],))
    later = task.actions.sample(streams, (1, values["horizon"] - 1)).repeat(first.shape[1], axis=1)
    plans = np.concatenate([first[:, :, None], later], axis=2)
    begun = np.repeat(states, first.shape[1], axis=0)
    ends = task.rollout(begun, plans.reshape(-1, *plans.shape[2:]))[:, -1]
    reached = ends.reshape(*first.shape[:2], -1)
    seen = observed(task, reached)
    # Of differences, as a column that no action changes has a mean that is rounded.
    unit = np.sqrt(np.mean([(row - row[0]).var(axis=0) for row in seen], axis=0))
    same = np.array([_first_alike(row + 0.0) for row in seen])
    return states, plans, reached, unit, same[:, :, None] != same[:, None]


def _all_actions(task: Task) -> FloatArray | None:
    """Return all actions [J, A] of a small set; None of any other."""
    space = task.actions
    return space.values if isinstance(space, FiniteActions) and len(space.values) <= _MOST else None


def _states(task: Task, values: Mapping[str, Any]) -> int:
    """Return how many states are asked about."""
    every = _all_actions(task)
    tries = values["alternatives"] if every is None else len(every)
    return max(_FEWEST, min(_STATES, _NUMBERS // (tries * task.observation_size)))


def _first_alike(rows: FloatArray) -> list[int]:
    """Return for each row [J] the first that is equal to it."""
    first: dict[bytes, int] = {}
    return [first.setdefault(row.tobytes(), number) for number, row in enumerate(rows)]


def recorded(logs: Logs, values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what `tried` does of recorded steps, with the end of what was done alone."""
    states, done, ends = stretches(logs, values)
    rows = logs.drawn(values["horizon"], seed=values["seed"])[:, :1]
    others, taken = np.unique(logs.transitions.actions, axis=0, return_inverse=True)
    taken = taken.reshape(-1)
    if len(others) <= _MOST:
        tried = (taken[rows] + np.arange(len(others))) % len(others)
    else:
        rng = np.random.default_rng([values["seed"], 6])
        elsewhere = rng.integers(len(taken), size=(len(rows), values["alternatives"] - 1))
        tried = taken[np.concatenate([rows, elsewhere], axis=1)]
    plans = done[:, None].repeat(tried.shape[1], axis=1)
    plans[:, :, 0] = others[tried]
    unit = (ends - states).std(axis=0)
    if not unit.any():
        raise WorldModelError(
            f"transitions: in {logs.name} every step changes the same, whatever is done. Are "
            f"next_observations those after the actions?"
        )
    return states, plans, ends[:, None], unit, (tried != tried[:, :1])[:, None]


def _counts(
    task: Task, values: Mapping[str, Any], states: FloatArray, plans: FloatArray, differs: BoolArray
) -> BoolArray:
    """Return which plans [N, J] are in the stratum, of states whose actions lead apart."""
    stratum, usual = values["stratum"], getattr(task, "stratum", "all")
    if stratum == "all" != usual:
        raise ComponentError(
            f"task {task.name!r} says where episodes start, and no step is chosen by that. Write "
            f"stratum={usual!r} into the marker."
        )
    counts = np.repeat(np.any(differs, axis=(1, 2))[:, None], plans.shape[1], axis=1)
    if stratum != "all":
        begun, first = np.repeat(states, plans.shape[1], axis=0), plans[:, :, 0]
        chosen = stratum_of(task, stratum, begun, first.reshape(-1, first.shape[-1]))
        counts = counts & chosen.reshape(plans.shape[:2])
    found = int(counts.any(axis=1).sum())
    if found < _FEWEST:
        shorter = " or a shorter horizon" if values["horizon"] > 1 else ""
        raise WorldModelError(
            f"{task.name}: actions lead apart in {found} of {len(states)} states in stratum "
            f"{stratum!r}, and {_FEWEST} are needed. Ask for another stratum{shorter}, "
            f"or of another task."
        )
    return counts


def confused(
    model: BoundModel,
    states: FloatArray,
    plans: FloatArray,
    reached: FloatArray,
    seen: FloatArray,
    scale: FloatArray,
    differs: BoolArray,
    counts: BoolArray,
    numbers: IntArray,
) -> FloatArray:
    """Return the share of each state's actions [B] that are taken for another.

    Asked both ways: of which action the prediction lies nearest to an end, and, where all ends are
    known, whose end lies nearest to a prediction. By the second alone a copy would be right
    wherever nothing moves.
    """
    predicted, is_seen = imagined(model, states, plans, numbers), model.observe is not None
    if is_seen:
        is_moved = scale[0] > 0
        predicted, reached = (
            part[..., is_moved] * scale[0, is_moved] for part in (predicted, as_numbers(seen))
        )
    else:
        latents = model.described(model.encode(reached.reshape(-1, reached.shape[-1])))
        reached = latents.reshape(*reached.shape[:2], -1)
    # One by one, as pictures would fill the memory.
    with np.errstate(over="ignore"):
        away = np.stack(
            [((predicted - end[:, None]) ** 2).sum(axis=-1) for end in reached.swapaxes(0, 1)],
            axis=1,
        )
    if away.shape[1] == away.shape[2]:
        both = [_taken(way, differs) for way in (away, away.swapaxes(1, 2))]
        wrong = np.mean(both, axis=0)
    else:
        # What is predicted to lead exactly there may do the same as what was done.
        is_there = (away == 0) & (away[:, :, :1] == 0) & is_seen
        wrong = _taken(away, differs & ~is_there)
    return np.asarray(np.where(counts, wrong, 0.0).sum(axis=1) / counts.sum(axis=1))


def copies(model: BoundModel, *rows: Any) -> FloatArray:
    """Return what `confused` does of a model that sees as this one does, and predicts no change."""

    def still(latents: FloatArray, plans: FloatArray) -> FloatArray:
        return np.repeat(latents[:, None], plans.shape[1], axis=1)

    return confused(replace(model, imagine=still), *rows)


def predictions(
    model: BoundModel, states: FloatArray, plans: FloatArray, numbers: IntArray
) -> FloatArray:
    """Return what a model predicts of plans [B, J, H, A]: [B, J O]."""
    return imagined(model, states, plans, numbers).reshape(len(states), -1)


def guessed(*rows: Any) -> FloatArray:
    """Return the share of each state's actions [N] that a guess takes for another."""
    differs, counts = rows[5:7]
    return np.asarray(np.where(counts, differs.mean(axis=-1), 0.0).sum(axis=1) / counts.sum(axis=1))


def share_asked(asked: Questions, values: Mapping[str, Any]) -> float:
    """Return the share of random steps that are in the stratum."""
    counts = asked.arrays[6]
    return float(counts.sum() / (_states(asked.task, values) * counts.shape[1]))


def _taken(away: FloatArray, differs: BoolArray) -> FloatArray:
    """Return how wrong the choices of the nearest are [B, Q], of distances [B, Q, J].

    The right one of query q is number q. A tie is shared.
    """
    queries = range(away.shape[1])
    right = away[:, queries, queries][..., None]
    ties = (differs & (away == right)).sum(axis=-1)
    return np.where((differs & (away < right)).any(axis=-1), 1.0, ties / (ties + 1))

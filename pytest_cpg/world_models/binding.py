"""Binding: any world model made into what the episode loop calls, after checking it.

The result of a row must not depend on the batch it is in, or an episode would end otherwise alone
than among others. Float products round by the shape of the batch (numpy in nearly every row,
torch for small ones), so whatever is learned is always called with exactly `TILE` rows, short
tiles padded by repeating the last row. That is done here, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import ActionSpace, FiniteActions, FloatArray, Task, WorldModelError
from pytest_cpg.world_models.callables import adapt, adapt_dynamics, agree
from pytest_cpg.world_models.conventions import ArrayFunction, describe
from pytest_cpg.world_models.oracle import OracleDynamics
from pytest_cpg.world_models.torch_state import inference

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

# Rows per call of a learned model. On the default MLP, 2500 rows in such tiles cost a quarter more
# CPU time than in one piece; in tiles of 50 rows they cost 2.7 times as much.
TILE = 512
# Steps imagined to check a model; enough to tell the horizon's axis from the others.
_HORIZON = 3
# Distinct actions that a model must tell apart.
_ACTIONS = 4

_HOW = """\
Return a function, for instance:
    @pytest.fixture
    def learned_dynamics():
        return lambda observations, actions: ...  # [B, O] and [B, A] to the next [B, O]
or a torch module called like that, or an object with rollout(latents, actions)."""


class Methods(NamedTuple):
    """The three functions of a bound model; shapes as in `BoundModel`."""

    encode: ArrayFunction
    rollout: ArrayFunction
    score: ArrayFunction


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundModel:
    """A world model, learned or oracle, bound to a task.

    Every row's result is the same bits in any batch, order or position.

    Attributes
    ----------
    actions : ActionSpace
    swapped : tuple of str
        What differs from the oracle arm: ``"dynamics"``, ``"decoder"``, ``"score"``.
    seconds_per_row : float or None
        Measured cost of one row and step of a model that takes one row at a time, else None.
    ignores_action : bool
        Different actions gave identical predictions although the task does react to them.
    """

    actions: ActionSpace
    swapped: tuple[str, ...] = ()
    seconds_per_row: float | None = None
    ignores_action: bool = False
    methods: Methods = field(repr=False)

    def encode(self, states: FloatArray) -> FloatArray:
        """Map simulator states [B, S] to latents [B, Z]."""
        return self.methods.encode(states)

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        return self.methods.rollout(latents, actions)

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate latents [B, H, Z] by distance to the goal [B, H], float64; lower is better."""
        return self.methods.score(latents)


def bind(
    learned: Any, task: Task, *, probe_states: FloatArray, probe_actions: FloatArray
) -> BoundModel:
    """Return a world model as the episode loop uses it, checked on a few rows.

    Parameters
    ----------
    learned : OracleDynamics, world model, torch module or callable
        A world model has ``rollout(latents [B, Z], actions [B, H, A]) -> [B, H, Z]`` and may have
        ``encode`` (default: latents are observations), ``score`` (default: the task's) and
        ``decode`` (default: none; the task's score reads what it gives). A module or callable is
        ``dynamics(observations [B, O], actions [B, A]) -> [B, O]``. numpy arrays and torch tensors
        are both accepted.
    probe_states, probe_actions : array [P, S], array [P, A]
        Rows to check with; the more they differ, the more a check can find.

    Raises
    ------
    WorldModelError
        When it is none of these, or breaks its contract. Predictions that are not finite pass: the
        episode loop can say where they occur.
    """
    if isinstance(learned, OracleDynamics):
        if learned.task.name != task.name:
            raise WorldModelError(
                f"these are the true dynamics of {learned.task.name!r}, and the gate is about "
                f"{task.name!r}. Take the fixture oracle_dynamics of this test."
            )
        return BoundModel(
            actions=task.actions,
            methods=Methods(lambda states: states, learned.rollout, learned.score),
        )
    _check_kind(learned)
    with inference(learned):
        bind_kind = _bind_model if callable(getattr(learned, "rollout", None)) else _bind_callable
        bound = bind_kind(learned, task, probe_states, probe_actions)
        return replace(bound, ignores_action=_ignores_action(bound, task, probe_states))


def tiled(function: ArrayFunction) -> ArrayFunction:
    """Return a batched function that is only ever called with `TILE` rows."""

    def call(*arrays: FloatArray) -> FloatArray:
        count = len(arrays[0])
        results: FloatArray = np.empty(0)
        for first in range(0, count, TILE):
            rows = np.minimum(np.arange(first, first + TILE), count - 1)
            # np.take gives C order whatever the argument's: products round by memory order too.
            tile = function(*(np.take(array, rows, axis=0) for array in arrays))
            if not first:
                results = np.empty((count, *tile.shape[1:]))
            results[first : first + TILE] = tile[: count - first]
        return results

    return call


def _check_kind(learned: object) -> None:
    """Raise WorldModelError for what is evidently no world model."""
    if learned is None:
        given = "None (does the fixture end in a return?)"
    elif isinstance(learned, type):
        given = f"the class {describe(learned)} instead of an object of it"
    elif isinstance(learned, Task):
        given = f"the task {learned.name!r}, whose true dynamics are OracleDynamics(task)"
    elif not callable(learned) and not callable(getattr(learned, "rollout", None)):
        given = f"{type(learned).__name__!r}, which can neither be called nor has it a rollout"
    else:
        return
    raise WorldModelError(f"the world model is {given}. {_HOW}")


def _bind_callable(
    learned: Callable[..., Any], task: Task, states: FloatArray, actions: FloatArray
) -> BoundModel:
    """Bind plain dynamics: latents are observations, the task rates them."""
    dynamics = adapt_dynamics(learned, _observed(task, states), actions)

    def rollout(observations: FloatArray, plans: FloatArray) -> FloatArray:
        imagined = np.empty((*plans.shape[:2], observations.shape[1]))
        for step in range(plans.shape[1]):
            observations = dynamics.step(observations, plans[:, step])
            imagined[:, step] = observations
        return imagined

    is_batched = dynamics.seconds_per_row is None
    return BoundModel(
        actions=task.actions,
        swapped=("dynamics",),
        seconds_per_row=dynamics.seconds_per_row,
        methods=Methods(
            encode=lambda states: _observed(task, states),
            rollout=tiled(rollout) if is_batched else rollout,
            score=_task_score(task),
        ),
    )


def _bind_model(learned: Any, task: Task, states: FloatArray, actions: FloatArray) -> BoundModel:
    """Bind an object with a rollout, and with encode, score and decode as far as it has them."""
    observations = _observed(task, states)
    encode: ArrayFunction = np.array
    if callable(getattr(learned, "encode", None)):
        encode = tiled(
            adapt(
                learned.encode,
                observations,
                shape=lambda given: (len(given), None),
                promise="encode(observations [B, O]) -> latents [B, Z]",
            )
        )
        _check_rows(learned, "encode", encode, observations)
    latents = encode(observations)
    plans = np.stack([np.roll(actions, -step, axis=0) for step in range(_HORIZON)], axis=1)
    rollout = tiled(
        adapt(
            learned.rollout,
            latents,
            plans,
            shape=lambda given, plans: (*plans.shape[:2], given.shape[1]),
            promise="rollout(latents [B, Z], actions [B, H, A]) -> the latents after each action, "
            "without the one before [B, H, Z]",
        )
    )
    _check_rows(learned, "rollout", rollout, latents, plans)
    score, swapped = _score_of(learned, task, rollout(latents, plans))
    return BoundModel(
        actions=task.actions,
        swapped=swapped,
        methods=Methods(lambda states: encode(_observed(task, states)), rollout, score),
    )


def _score_of(
    learned: Any, task: Task, imagined: FloatArray
) -> tuple[ArrayFunction, tuple[str, ...]]:
    """Return the score a model is planned with, and what it swaps with it."""
    if callable(getattr(learned, "score", None)):
        own = tiled(
            adapt(
                learned.score,
                imagined,
                shape=lambda latents: latents.shape[:-1],
                promise="score(latents [..., Z]) -> distances to the goal [...]",
            )
        )
        _check_rows(learned, "score", own, imagined)
        return own, ("dynamics", "score")
    if callable(getattr(learned, "decode", None)):
        decode = adapt(
            learned.decode,
            imagined,
            shape=lambda latents: (*latents.shape[:-1], task.observation_size),
            promise=f"decode(latents [..., Z]) -> observations [..., {task.observation_size}]",
        )
        _check_rows(learned, "decode", tiled(decode), imagined)
        rate = _task_score(task)
        decoded = tiled(decode)
        return lambda latents: rate(decoded(latents)), ("dynamics", "decoder")
    if imagined.shape[-1] != task.observation_size:
        raise WorldModelError(
            f"{describe(learned)} has neither a score nor a decode, so its latents must be "
            f"observations of size {task.observation_size}; they have size {imagined.shape[-1]}. "
            f"Add score(latents [..., {imagined.shape[-1]}]) -> [...] or decode(latents) -> "
            f"[..., {task.observation_size}]."
        )
    return _task_score(task), ("dynamics",)


def _observed(task: Task, states: FloatArray) -> FloatArray:
    return np.array(task.observe(states), dtype=np.float64)


def _task_score(task: Task) -> ArrayFunction:
    """Return the task's score of observations [B, H, O]."""
    return tiled(lambda observations: np.asarray(task.score(observations), dtype=np.float64))


def _check_rows(learned: object, name: str, function: ArrayFunction, *probe: FloatArray) -> None:
    """Raise WorldModelError unless rows come out alone as they do among others."""
    together = function(*probe)
    for row in (0, len(together) - 1):
        alone = function(*(array[row : row + 1] for array in probe))
        if not agree(together[row : row + 1], alone):
            raise WorldModelError(
                f"{describe(learned)}: {name} gives another result for a row alone than for the "
                f"same row among others. A result must depend on its own row alone: put a batch "
                f"norm into eval mode, and normalise by constants."
            )


def _ignores_action(bound: BoundModel, task: Task, states: FloatArray) -> bool:
    """Say whether predictions are the same for different actions where the task's are not."""
    choices = _choices(task.actions)
    starts = np.repeat(states[:_ACTIONS], len(choices), axis=0)
    plans = np.tile(choices, (len(starts) // len(choices), 1))[:, None].repeat(_HORIZON, axis=1)

    def is_same(imagined: FloatArray) -> bool:
        groups = imagined.reshape(-1, len(choices), *imagined.shape[1:])
        return bool((groups == groups[:, :1]).all())

    predicted = bound.rollout(bound.encode(starts), plans)
    return is_same(predicted) and not is_same(task.observe(task.rollout(starts, plans)))


def _choices(actions: ActionSpace) -> FloatArray:
    """Return a few distinct actions [M, A], the extremes among them."""
    if isinstance(actions, FiniteActions):
        count = len(actions.values)
        picks = np.unique(np.linspace(0, count - 1, min(count, _ACTIONS)).round().astype(int))
        return np.take(actions.values, picks, axis=0)
    return np.stack([actions.low, (actions.low + actions.high) / 2, actions.high])

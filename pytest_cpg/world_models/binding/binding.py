"""Binding: any world model made into what the episode loop calls, after checking it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, Task, WorldModelError
from pytest_cpg.contracts.arrays import is_picture, rolled_out
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import observed, seen
from pytest_cpg.contracts.world_model import Cost, Reward, Rollout, Score
from pytest_cpg.world_models.binding.bound import BoundModel, LatentModel, OracleDynamics, Rescored
from pytest_cpg.world_models.binding.callables import adapt, adapt_dynamics
from pytest_cpg.world_models.binding.conventions import (
    ArrayFunction,
    attempt,
    batch_multiple,
    describe,
    floats,
    is_same,
    probe_noise,
    probe_plans,
    senders,
)
from pytest_cpg.world_models.binding.ensemble import (
    Ensemble,
    ensemble_rollout,
    members_alone,
)
from pytest_cpg.world_models.binding.gradients import PlanGradient
from pytest_cpg.world_models.binding.latent import (
    PICTURES,
    bind_latent,
    bind_parts,
    noise_size_of,
    unchanged,
)
from pytest_cpg.world_models.binding.rating import Rating, by_score, task_score
from pytest_cpg.world_models.binding.tiling import TILE, check_rows, tiled, tiled_for
from pytest_cpg.world_models.binding.torch_state import holds_network, inference

__all__ = ["TILE", "BoundModel", "bind", "tiled"]

_UNASKED = (
    "the model has a reward and no rollout, and its reward is not asked: to plan by it, write "
    "rollout(latents, actions)"
)
_HOW = """\
Return a function, for instance:
    @pytest.fixture
    def learned_dynamics():
        return lambda observations, actions: ...  # [B, O] and [B, A] to the next [B, O]
or a torch module called like that, or an object with rollout(latents, actions)."""


_MOST_NAMES = 3
_NO_ROLLOUT = """\
which has encode and step, and no rollout. Add it:
    def rollout(self, latents, actions):  # [B, Z] and [B, H, A] to [B, H, Z]
        after = []
        for step in range(actions.shape[1]):
            latents = self.step(latents, actions[:, step])
            after.append(latents)
        return np.stack(after, axis=1)  # torch.stack(after, dim=1) of tensors"""
# What others call the method that predicts.
_STEPS = ("predict", "step", "forward", "transition", "dynamics")
# What takes a model that rates whole plans alone.
_WHOLE = "take StableWorldModel for an object with get_cost(info, candidates)"


def bind(
    learned: Any,
    task: Task,
    *,
    probe_states: FloatArray,
    probe_actions: FloatArray,
    rates: bool = True,
) -> BoundModel:
    """Return a world model as the episode loop uses it, checked on a few rows.

    Raises WorldModelError when it is none of these, or breaks its contract. Predictions that are
    not finite pass: the episode loop can say where they occur.

    Parameters
    ----------
    learned : OracleDynamics, world model, torch module or callable
        A world model has ``rollout(latents [B, Z], actions [B, H, A]) -> [B, H, Z]`` and may have
        what `WorldModel` names. A module or callable is
        ``dynamics(observations [B, O], actions [B, A]) -> [B, O]``, an `Ensemble` several of them.
        numpy arrays and torch tensors are both accepted.
    probe_states, probe_actions : array [P, S], array [P, A]
        Rows to check with; the more they differ, the more a check can find.
    rates : bool
        Whether it will be asked how good plans are. Else it is asked for predictions alone: neither
        model nor task need a score, and none is read.
    """
    if isinstance(learned, OracleDynamics):
        if learned.task.name != task.name:
            raise WorldModelError(
                f"these are the true dynamics of {learned.task.name!r}, and the gate is about "
                f"{task.name!r}. Take the fixture oracle_dynamics of this test."
            )
        return BoundModel(
            actions=task.actions,
            may_diverge=True,
            members=None,
            encode=lambda states: states,
            imagine=learned.rollout,
            score=learned.score,
            observe=partial(observed, task),
        )
    if isinstance(learned, Rescored):
        whole = bind(learned.learned, task, probe_states=probe_states, probe_actions=probe_actions)
        if whole.rescored is None:
            raise WorldModelError(
                f"{describe(learned.learned)} swaps {', '.join(whole.swapped)} and nothing that "
                f"rates true states, so there is nothing to rescore."
            )
        return whole.rescored
    refused = no_model(learned)
    if refused:
        raise WorldModelError(f"the world model is {refused}")
    with inference(learned):
        bind_kind = bind_latent if has(learned, Rollout) else _bind_callable
        try:
            bound = bind_kind(learned, task, probe_states, probe_actions, rates=rates)
        except WorldModelError as error:
            if not callable(getattr(learned, "get_cost", None)):
                raise
            raise WorldModelError(
                f"{error}\nIt has a get_cost, as models of stable-worldmodel have. Of these take "
                f"StableWorldModel(model, action_size={task.actions.size}, info=...) from "
                f"pytest_cpg.world_models."
            ) from error.__cause__
        if bound.noise_size or bound.seconds_per_row is not None or not bound.rates_steps:
            return bound

        def rate(latents: FloatArray, plans: FloatArray) -> FloatArray:
            return bound.score(bound.rollout(latents, plans))

        probe = bound.encode(probe_states), probe_actions
        gradient = PlanGradient(learned, task, rate, *probe, swapped=bound.swapped)
        return replace(bound, gradient=gradient)


def no_model(learned: object, *, how: str = _HOW) -> str:
    """Say what something is that is evidently no world model, and what to give instead."""
    if learned is None:
        return f"None (does the fixture end in a return?). {how}"
    if isinstance(learned, type):
        return (
            f"the class {describe(learned)}, not an object of it.\n  Return {learned.__name__}(...)"
        )
    if isinstance(learned, Task):
        return f"the task {learned.name!r}, whose true dynamics are OracleDynamics(task). {how}"
    if callable(learned) or isinstance(learned, OracleDynamics | Rescored | Ensemble):
        return ""
    if has(learned, Rollout):
        return ""
    what = f"{type(learned).__name__!r}, "
    if isinstance(learned, str | os.PathLike):
        path = os.fspath(learned)
        return (
            f"a path, {path!r}, not a model.\n"
            f"  Name files in the marker:  @pytest.mark.cpg(..., model={path!r})"
        )
    if isinstance(learned, list | tuple):
        what = f"a {type(learned).__name__} of {len(learned)}, not a model."
        return f"{what}\n  Return the model in it alone"
    if isinstance(learned, Mapping):
        models = [key for key, value in learned.items() if callable(value)]
        if models:
            return f"a dict with {models[0]!r}, not a model.\n  Return the model in it alone"
        some = [*map(str, [*learned][:_MOST_NAMES]), *["..."] * (len(learned) > _MOST_NAMES)]
        return (
            f"a state dict ({', '.join(some)}), not a network.\n"
            f"  Build the network, then load it:\n"
            f"      net = Network(); net.load_state_dict(weights); return net"
        )
    if has(learned, Cost):
        return (
            f"{what}whose cost rates plans that nothing imagines: add a rollout, or {_WHOLE}. {how}"
        )
    if hasattr(learned, "encode") and hasattr(learned, "step"):
        return f"{what}{_NO_ROLLOUT}"
    for name in _STEPS:
        if callable(getattr(learned, name, None)):
            return f"{what}which has {name}, and cannot be called.\n  Return model.{name}"
    return f"{what}which can neither be called nor has it a rollout. {how}"


def _bind_callable(
    learned: Callable[..., Any],
    task: Task,
    states: FloatArray,
    actions: FloatArray,
    *,
    rates: bool,
) -> BoundModel:
    """Bind plain dynamics: latents are observations, which the task rates, or the model's score."""
    observations, noise_size = seen(task, states), noise_size_of(learned)
    if is_picture(observations):
        raise WorldModelError(
            f"{describe(learned)} maps observations to the next ones, and models of {task.name} "
            f"are given pictures {list(observations.shape[1:])} of 8 bits. {PICTURES}"
        )
    plans, drawn = probe_plans(actions), probe_noise(len(actions), noise_size)
    seconds_per_row = None
    if isinstance(learned, Ensemble):
        rollout, seconds_per_row = ensemble_rollout(learned, observations, actions, plans)
    elif noise_size:
        sizes = (observations.shape[1], actions.shape[1])
        promise = (
            f"dynamics(observations [B, {sizes[0]}], actions [B, {sizes[1]}], noise "
            f"[B, {noise_size}]) -> the next observations [B, {sizes[0]}], as its noise_size "
            f"promises"
        )
        probe = (observations, actions, drawn[0][:, 0])
        step = adapt(learned, *probe, promise=promise)
        check_rows(learned, "the model", tiled(step), *probe)
        rollout = tiled_for(learned, partial(rolled_out, step), (observations, plans, *drawn))
    else:
        dynamics = adapt_dynamics(learned, observations, actions)
        seconds_per_row = dynamics.seconds_per_row
        rollout = partial(rolled_out, dynamics.step)
        if seconds_per_row is None:
            stays = holds_network(learned) or _is_jax(learned, observations, actions)
            if stays and batch_multiple(learned) == 1:
                imagined = attempt(native_rollout(learned), observations, plans)
                if is_same(imagined, rollout(observations, plans)):
                    rollout = native_rollout(learned)
            rollout = tiled_for(learned, rollout, (observations, plans))
    if not rates:
        rating = Rating(())
    elif has(learned, Score):
        rating = by_score(learned, rollout(observations, plans, *drawn))
    else:
        rating = Rating((), task_score(task, observations[:, None]))
    model = LatentModel(
        encode=partial(seen, task),
        update=None,
        rollout=rollout,
        rating=rating,
        observe=unchanged,
        members=members_alone(learned, observations, actions),
    )
    bound = bind_parts(model, task, noise_size=noise_size, state_size=states.shape[1])
    # An ensemble's are for gates that compare returns.
    is_unused = rates and has(learned, Reward) and not isinstance(learned, Ensemble)
    return replace(bound, seconds_per_row=seconds_per_row, notes=(_UNASKED,) * is_unused)


def _is_jax(function: Callable[..., Any], *arrays: FloatArray) -> bool:
    """Say whether a function gives an array of JAX for these numpy arrays."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(attempt(function, *map(np.array, arrays)), jax.Array)


def native_rollout(dynamics: Callable[..., Any]) -> ArrayFunction:
    """Return the rollout whose steps pass on what dynamics gives, which comes to numpy at the end.

    So nothing travels between the steps of arrays of JAX, and of tensors, on another device or
    not: of 64 plans, steps of a small network take half the time.
    """
    send, torch = senders(dynamics)[0].send, sys.modules.get("torch")

    def rollout(observations: FloatArray, plans: FloatArray) -> FloatArray:
        current, reached = send(observations), []
        for t in range(plans.shape[1]):
            before, current = current, dynamics(current, send(plans[:, t]))
            if np.shape(current) != np.shape(before):
                raise WorldModelError(
                    f"shape {[*np.shape(current)]} came back for observations of shape "
                    f"{[*np.shape(before)]}. Return one row for each that is given"
                )
            # A module may write to what it is given.
            reached.append(current.clone() if hasattr(current, "clone") else current)
        if torch is not None and all(isinstance(step, torch.Tensor) for step in reached):
            return floats(torch.stack(reached, 1))
        return np.stack([floats(step) for step in reached], axis=1)

    return rollout

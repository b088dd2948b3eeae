"""Latent models: an object with a rollout, and with what else it brings, checked and bound."""

from __future__ import annotations

import inspect
import math
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray, IntArray, Task, WorldModelError
from pytest_cpg.contracts.arrays import is_picture
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import SlowPictures, seen
from pytest_cpg.contracts.world_model import (
    METHODS,
    Decoder,
    Encoder,
    Memory,
    Noise,
    OwnPlan,
    OwnPolicy,
    RatesStates,
    Reward,
    Rollout,
    Score,
    TerminalValue,
)
from pytest_cpg.world_models.binding.bound import Acting, BoundModel, LatentModel, witness
from pytest_cpg.world_models.binding.callables import adapt, agree
from pytest_cpg.world_models.binding.conventions import (
    ArrayFunction,
    binds,
    describe,
    probe_noise,
    probe_plans,
)
from pytest_cpg.world_models.binding.ensemble import members_alone
from pytest_cpg.world_models.binding.nested_states import flattened
from pytest_cpg.world_models.binding.own_planner import OwnPlanner
from pytest_cpg.world_models.binding.rating import (
    Rating,
    by_rows,
    cost_of,
    differs,
    is_blind,
    rating_of,
    unrated,
)
from pytest_cpg.world_models.binding.tiling import (
    TILE,
    is_thread_safe,
    method_of,
    tile_of,
    tiled,
)
from pytest_cpg.world_models.binding.torch_state import is_elsewhere

PICTURES = (
    "Add encode(pictures [B, F, H, W, C]) -> latents [B, Z], and rollout(latents, actions) that "
    "goes on from there."
)
# Pixels of a call, and the least power of two of pictures in it. A call costs as much as a few
# pictures of 64 x 64 do, and one plan fills its call with copies.
_PIXELS, _FEWEST = 2**19, 3
# "decoder" and "rewards" are as near to a method's name as this.
_LIKENESS = 0.85
_OTHER_COST = (
    "the cost of a plan is another than the score of its last step: objective='terminal' plans by "
    "the cost, any other by the score, and there is no third arm"
)
_BLIND_COST = (
    "the model's cost rated all plans alike that it was tried on, from each of several states: it "
    "may ignore the actions, and then plans are chosen blindly"
)


def bind_latent(
    learned: Any, task: Task, states: FloatArray, actions: FloatArray, *, rates: bool
) -> BoundModel:
    """Bind an object with a rollout, and with all else that it has."""
    for name in METHODS:
        method = getattr(learned, name, None)
        if method is not None and not callable(method):
            raise WorldModelError(
                f"{describe(learned)} has {name} = {method!r}, which cannot be called. Write a "
                f"method {name}, or give what it is another name."
            )
    noise_size = noise_size_of(learned)
    observations = seen(task, states)
    whole, learned = learned, flattened(learned, observations)
    encode = _encode_of(learned, observations)
    latents = encode(observations)
    plans = probe_plans(actions)
    noise = probe_noise(len(latents), noise_size)
    names = f", noise [B, H, {noise_size}]" if noise_size else ""
    promise = (
        f"rollout(latents [B, Z], actions [B, H, A]{names}) -> the latents after each action, "
        f"without the one before [B, H, Z]"
    )
    rollout = method_of(learned, promise, latents, plans, *noise)
    imagined = rollout(latents, plans, *noise)
    if rates:
        rating = rating_of(learned, task, latents, plans, imagined)
    else:
        rating = unrated(learned, task, imagined)
    cost = cost_of(learned, latents, plans, *noise) if rates else None
    is_other = cost is not None and differs(cost, rating, latents, plans, imagined, *noise)
    there = _there(learned, rating, latents, plans, *noise, reached=imagined)
    if cost is not None:
        there["whole"] = lambda latents, *more: cost(rating.own(latents), *more)
    model = LatentModel(
        encode=lambda states: encode(seen(task, states)),
        update=_update_of(learned, task, latents, actions, observations),
        rollout=rollout,
        rating=rating,
        observe=_observer_of(learned, task, rating, imagined),
        # Tiles on several threads come all at once.
        rows=0 if is_thread_safe(learned) else tile_of(learned),
        **there,
        acting=Acting(learned, task, latents, actions, noise_size)
        if has(learned, OwnPolicy)
        else None,
        members=members_alone(whole, latents, actions),
    )
    # A latent that is encoded has no plan behind it, which some rate by.
    bound = replace(
        bind_parts(
            model,
            task,
            noise_size=noise_size,
            state_size=states.shape[1],
            rates_states=not is_other and _rates_states(learned, task),
        ),
        has_own_cost=cost is not None,
        notes=(
            *misspelt(whole),
            *filter(None, [getattr(whole, "note", "")]),
            *(_unused(whole, is_nested=learned is not whole) if rates else ()),
            *[_OTHER_COST] * (is_other and rating.rates_steps),
            *[_BLIND_COST] * (cost is not None and is_blind(cost, latents, plans, *noise)),
        ),
    )
    if not rates or not has(learned, OwnPlan):
        return bound
    planner = OwnPlanner(learned, task, latents, own=rating.own)
    return replace(bound, planner=planner, swapped=(*bound.swapped, "planner"))


def _rates_states(learned: Any, task: Task) -> bool:
    """Say whether true states are to be encoded and rated: as the model says, if it does."""
    if has(learned, RatesStates):
        return bool(learned.rates_states)
    return not has(task, SlowPictures)


def _encode_of(learned: Any, observations: FloatArray) -> ArrayFunction:
    """Return what maps observations [B, O] to latents [B, Z]: themselves, where nothing does."""
    if has(learned, Encoder):
        promise = f"encode({_named(observations)}) -> latents [B, Z]"
        return method_of(learned, promise, observations, rows=_rows_of(observations))
    if is_picture(observations):
        raise WorldModelError(
            f"{describe(learned)} has no encode, and is given pictures "
            f"{list(observations.shape[1:])} of 8 bits. {PICTURES}"
        )
    if has(learned, Memory):
        raise WorldModelError(
            f"{describe(learned)} has an update and no encode. Add encode(observations [B, O]) -> "
            f"latents [B, Z]: what it knows at an episode's start."
        )
    return np.array


def _named(observations: npt.NDArray[Any]) -> str:
    """Return what a promise calls what a model is given."""
    return "pictures [B, F, H, W, C]" if observations.ndim > 2 else "observations [B, O]"


def _rows_of(observations: npt.NDArray[Any]) -> int | None:
    """Return how many pictures a call has: few, as each is much; None of other observations.

    Small ones are called with as many rows as any other.
    """
    pixels = math.prod(observations.shape[1:])
    if observations.ndim == 2 or pixels * TILE <= _PIXELS:
        return None
    return 1 << max(_FEWEST, int(math.log2(_PIXELS / pixels)))


def _there(
    learned: Any,
    rating: Rating,
    latents: FloatArray,
    plans: FloatArray,
    *noise: FloatArray,
    reached: FloatArray,
) -> dict[str, ArrayFunction]:
    """Return ``journey`` and ``whole`` of a model on another device, where they agree with it."""
    if rating.reward is None or not is_elsewhere(learned):
        return {}
    from pytest_cpg.world_models.binding.tensors import plans_there

    there, size = plans_there(learned), latents.shape[1]
    if there is None:
        return {}

    def journey(latents: FloatArray, plans: FloatArray, *noise: FloatArray) -> FloatArray:
        rows = there(rating.own(latents), plans[:, None], *(part[:, None] for part in noise))
        rated = (rows[..., column] for column in range(size, rows.shape[2]))
        return rating.joined(latents, rows[..., :size], *rated)

    def ends(
        latents: FloatArray, plans: FloatArray, lengths: IntArray, *noise: FloatArray
    ) -> FloatArray:
        rated = there(rating.own(latents), plans, *noise, lengths=lengths)
        count, horizon = plans.shape[1:3]
        begun, last = np.repeat(latents, count, axis=0), np.repeat(lengths, count)
        values = rated[:, horizon:].T
        return rating.earned(begun, last, rated[:, :horizon], *values).reshape(plans.shape[:2])

    begun, lengths = rating.begun(latents), np.arange(len(latents)) % plans.shape[1] + 1
    try:
        along = journey(begun, plans, *noise)
        costs = ends(begun, plans[:, None], lengths, *(part[:, None] for part in noise))
    # Methods that take arrays alone may raise anything for tensors.
    except Exception:
        return {}
    is_same = agree(along, rating.along(begun, plans, reached))
    same_costs = agree(costs, rating.costs(begun, plans, reached, lengths)[:, None])
    return {"journey": journey, "whole": ends} if is_same and same_costs else {}


def _observer_of(
    learned: Any, task: Task, rating: Rating, imagined: FloatArray
) -> ArrayFunction | None:
    """Return what maps a planner's latents [..., Z] to observations [..., O]; None without one.

    A decoder that gives something else, such as pictures, is none: only what rates plans has to be
    usable.
    """
    # Latents that the task itself rates are observations.
    if not rating.swapped:
        return unchanged
    if not has(learned, Decoder):
        return None
    try:
        promise = f"decode(latents [..., Z]) -> observations [..., {task.observation_size}]"
        decode = adapt(learned.decode, imagined, promise=promise)
    except WorldModelError:
        return None
    seen = tiled(decode, probe=(imagined,))
    return lambda latents: seen(rating.own(latents))


def unchanged(latents: FloatArray) -> FloatArray:
    """Return observations as they are."""
    return latents


def noise_size_of(learned: Any) -> int:
    """Return how many normal numbers a model draws in each step; 0 for a deterministic one."""
    size = stated_noise_size(learned)
    function = learned.rollout if has(learned, Rollout) else learned
    if not size and binds(function, 2) is False and binds(function, 3):
        third = list(inspect.signature(function).parameters)[2]
        raise WorldModelError(
            f"{describe(function)} needs a third argument, {third!r}, and the model has no "
            f"noise_size. If it is noise, set noise_size to the whole number of normal numbers "
            f"that it draws in each step; else give {third!r} a default."
        )
    return size


def stated_noise_size(learned: Any) -> int:
    """Return the noise_size that a model says it has, 0 where it says none."""
    size = learned.noise_size if has(learned, Noise) else 0
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
        raise WorldModelError(
            f"{describe(learned)} has the noise_size {size!r}; give the whole number of normal "
            f"numbers that it draws in each step, or leave it out."
        )
    return int(size)


def misspelt(learned: Any) -> tuple[str, ...]:
    """Return a clause for each method that looks like one of the contract's, and is not read."""
    # A network's layers may be called anything.
    kinds = [k for k in type(learned).__mro__ if not k.__module__.startswith(("builtins", "torch"))]
    names = {*getattr(learned, "__dict__", ()), *(name for kind in kinds for name in vars(kind))}
    missing = [name for name in METHODS if getattr(learned, name, None) is None]
    return tuple(
        f"the model has a method {name!r} that nothing calls: is it meant to be {close[0]!r}?"
        for name in sorted(names.difference(METHODS))
        if not name.startswith("_") and callable(getattr(learned, name, None))
        if (close := get_close_matches(name, missing, n=1, cutoff=_LIKENESS))
    )


def _unused(learned: Any, *, is_nested: bool) -> list[str]:
    """Return a clause for each part of a model that is left out, as it is written."""
    notes = []
    if is_nested and not has(learned, Memory):
        notes.append(
            "the model's state is nested and it has no update, so every plan begins from what "
            "encode makes of one observation: if it is to remember more, add update(latents, "
            "actions, observations)"
        )
    rewards = ["reward"] * has(learned, Reward) + ["terminal_value"] * has(learned, TerminalValue)
    if has(learned, Score) and rewards:
        notes.append(
            f"the model has a score, which rates its plans, and its {' and '.join(rewards)} "
            f"{'is' if len(rewards) == 1 else 'are'} not asked: to plan by rewards, leave out score"
        )
    return notes


def _update_of(
    learned: Any, task: Task, latents: FloatArray, actions: FloatArray, observations: FloatArray
) -> ArrayFunction | None:
    """Return what carries latents across a real step, of a model that has it."""
    if not has(learned, Memory):
        return None
    promise = (
        f"update(latents [B, Z], actions [B, A], {_named(observations)}) -> the latents once these "
        f"actions have led to these [B, Z]"
    )
    rows = _rows_of(observations)
    update = method_of(learned, promise, latents, actions, observations, rows=rows)
    return lambda latents, actions, states: update(latents, actions, seen(task, states))


def bind_parts(
    model: LatentModel, task: Task, *, noise_size: int, state_size: int, rates_states: bool = True
) -> BoundModel:
    """Return a model in the latents that planners see."""
    rating, carry, acting = model.rating, model.update, model.acting
    is_rated = rating.rates_steps and (rates_states or not rating.swapped)

    def rollout(latents: FloatArray, actions: FloatArray, *noise: FloatArray) -> FloatArray:
        if model.journey is not None:
            return model.journey(latents, actions, *noise)
        reached = model.rollout(rating.own(latents), actions, *noise)
        return rating.along(latents, actions, reached)

    def costs(
        latents: FloatArray, actions: FloatArray, lengths: IntArray, *noise: FloatArray
    ) -> FloatArray:
        scores = np.empty(len(latents))
        for first in range(0, len(latents), model.rows or max(1, len(latents))):
            own = slice(first, first + (model.rows or len(latents)))
            begun, plans = latents[own], actions[own]
            reached = model.rollout(rating.own(begun), plans, *(part[own] for part in noise))
            rated = rating.costs(begun, plans, reached, lengths[own])
            # No rating may hide that a plan led anywhere.
            finite = np.isfinite(reached).all(axis=(1, 2))
            scores[own] = np.where(finite, rated, np.nan)
        return scores

    def update(latents: FloatArray, actions: FloatArray, states: FloatArray) -> FloatArray:
        return rating.begun(carry(rating.own(latents), actions, states))  # type: ignore[misc]

    def alone(member: ArrayFunction, latents: FloatArray, actions: FloatArray) -> FloatArray:
        return rating.along(latents, actions, member(rating.own(latents), actions))

    def policy_plans(latents: FloatArray, noise: FloatArray) -> FloatArray:
        return acting.followed(rating.own(latents), noise)  # type: ignore[union-attr]  # below

    return BoundModel(
        actions=task.actions,
        costs=model.whole or by_rows(costs),
        rates_steps=rating.rates_steps,
        swapped=("dynamics", *rating.swapped),
        noise_size=noise_size,
        witness=witness(model, task, state_size) if is_rated else None,
        encode=lambda states: rating.begun(model.encode(states)),
        imagine=rollout,
        score=rating.scores,
        update=update if carry else None,
        observe=model.observe,
        policy_plans=policy_plans if acting else None,
        has_noisy_policy=acting is not None and acting.is_noisy,
        members=tuple(partial(alone, member) for member in model.members),
    )

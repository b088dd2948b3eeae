"""Binding: whatever a user calls an ensemble, made into rollouts of all its members."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Act, EnsembleRollout, Imagined, Reward
from pytest_cpg.world_models.binding.binding import no_model
from pytest_cpg.world_models.binding.callables import adapt, adapt_dynamics, agree
from pytest_cpg.world_models.binding.conventions import (
    ArrayFunction,
    Sender,
    describe,
    first_that_works,
    floats,
    senders,
)
from pytest_cpg.world_models.binding.ensemble import Ensemble
from pytest_cpg.world_models.binding.latent import stated_noise_size
from pytest_cpg.world_models.binding.rating import reads_both_ends
from pytest_cpg.world_models.binding.torch_state import inference
from pytest_cpg.world_models.ensembles.rollout import (
    ClipBounds,
    Step,
    Stepped,
    Terminated,
    imagine,
)

_HOW = """\
Return several models at once, as one of
    an object with members = E
        and step(observations [E, B, O], actions [E, B, A])
        -> (next observations [E, B, O], rewards [E, B])
    an object with members = E and rollout(observations, act, horizon)
    Ensemble([...], reward=...) of dynamics(observations [B, O], actions [B, A])
    train_ensemble(transitions, seed=0)"""
_STEP = "step(observations, actions) -> (next observations [E, B, O], rewards [E, B])"
_ROLLOUT = (
    "rollout(observations, act, horizon) -> (rewards [E, B, H], observations [E, B, H, O], "
    "terminated [E, B, H])"
)

_Rollout: TypeAlias = Callable[[FloatArray, Act, int], Imagined]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundEnsemble:
    """An ensemble whose members imagine from the same rows; predictions are clipped."""

    members: int
    clip_bounds: ClipBounds | None
    _model: Any
    _imagine: _Rollout

    def rollout(self, observations: FloatArray, act: Act, horizon: int) -> Imagined:
        """Return what is imagined in ``horizon`` steps from observations [E, B, O].

        Raises WorldModelError when a prediction is not finite, or has another shape than was
        promised.
        """
        with inference(self._model):
            return self._imagine(observations, act, horizon)


def bind_ensemble(
    model: Any,
    *,
    observations: FloatArray,
    actions: FloatArray,
    terminated: Terminated | None = None,
    seed: int = 0,
) -> BoundEnsemble:
    """Return the rollouts of an ensemble, checked on rows of observations [P, O], actions [P, A].

    An episode ends where the model says so, or ``terminated`` of observations [..., O]. Every
    rollout of a model that draws draws the same, by the seed. Raises WorldModelError, saying what
    the model lacks, or how it breaks its promise.
    """
    refused = no_model(model, how=_HOW) if model is None or isinstance(model, type) else ""
    if refused:
        raise WorldModelError(f"the world model is {refused}")
    with inference(model):
        members, noise_size, clip_bounds = _members_of(model), 0, None
        bound = partial(BoundEnsemble, members=members, _model=model)
        if isinstance(model, Ensemble):
            # Its `noise_size` is for plans, and here all members imagine.
            step, kind = _dynamics_step(model, observations, actions), np.dtype(np.float64)
        else:
            starts, taken = (
                np.repeat(np.asarray(rows, dtype=np.float64)[None], members, axis=0)
                for rows in (observations, actions)
            )
            if has(model, EnsembleRollout):
                rollout = _own_rollout(model, starts, taken, terminated)
                return bound(clip_bounds=None, _imagine=rollout)
            noise_size = stated_noise_size(model)
            step, kind = _model_step(model, starts, taken, noise_size)
            clip_bounds = _clip_bounds_of(model, observations.shape[1])

    def stepped(observations: FloatArray, act: Act, horizon: int) -> Imagined:
        rng = np.random.default_rng(seed)
        shape = (*observations.shape[:2], noise_size)
        return imagine(
            step,
            # In the numbers that it predicts itself: policies take a fifth of the time in float32.
            observations.astype(kind),
            act,
            horizon,
            terminated=terminated,
            clip_bounds=clip_bounds,
            draw=(lambda: rng.standard_normal(shape)) if noise_size else None,
        )

    return bound(clip_bounds=clip_bounds, _imagine=stepped)


def _members_of(model: Any) -> int:
    """Return how many members a model has, or raise WorldModelError for what is no ensemble."""
    able = [name for name in ("step", "rollout") if callable(getattr(model, name, None))]
    if not able and not isinstance(model, Ensemble):
        what = "one model" if callable(model) else f"a {type(model).__name__}"
        raise WorldModelError(
            f"{describe(model)} is {what} with neither step nor rollout of several members, and "
            f"confidence is how far members agree. {_HOW}"
        )
    members = len(model.members) if isinstance(model, Ensemble) else getattr(model, "members", None)
    if members is None:
        raise WorldModelError(
            f"{describe(model)} has a {able[0]} and does not say how many members it has. Give it "
            f"members, a whole number of 2 or more. {_HOW}"
        )
    if isinstance(members, bool) or not isinstance(members, int | np.integer):
        raise WorldModelError(
            f"{describe(model)} has the members {members!r:.60}; give their number, E, such as 10."
        )
    if members < 2:
        raise WorldModelError(
            f"{describe(model)} has {members} member{'s' * (members != 1)}, and confidence is how "
            f"far members agree: give it 2 or more, best 10."
        )
    return int(members)


def _clip_bounds_of(model: Any, size: int) -> ClipBounds | None:
    bounds = getattr(model, "clip_bounds", None)
    if bounds is None:
        return None
    if not isinstance(bounds, ClipBounds):
        raise WorldModelError(
            f"{describe(model)} has the clip_bounds {bounds!r:.60}; give "
            f"ClipBounds(low=..., high=...), or ClipBounds.of(transitions)."
        )
    if bounds.low.shape != (size,):
        raise WorldModelError(
            f"{describe(model)} clips observations of size {len(bounds.low)}, and was given "
            f"size {size}."
        )
    return bounds


def _model_step(
    model: Any, observations: FloatArray, actions: FloatArray, noise_size: int
) -> tuple[Step, np.dtype[Any]]:
    """Return a model's own step in the first way to call it that works, and its kind of numbers."""
    noise = np.random.default_rng(0).standard_normal((*observations.shape[:2], noise_size))
    probe = [observations, actions, *[noise] * (noise_size > 0)]

    def through(sender: Sender) -> Step:
        def step(*arrays: FloatArray) -> Stepped:
            return _stepped(model.step(*map(sender.send, arrays)), arrays[0].shape)

        return step

    ways = ((sender.label, through(sender)) for sender in senders(model.step))
    step, stepped = first_that_works(ways, *probe, of=model, promise=_STEP)
    first, again, alone = (
        np.concatenate([taken.observations, taken.rewards[..., None]], axis=-1)
        for taken in (stepped, step(*probe), step(*(array[:, :1] for array in probe)))
    )
    if not np.array_equal(first, again, equal_nan=True):
        raise WorldModelError(
            f"{describe(model)}: step gave different results for identical calls, so no verdict on "
            f"it could be repeated. Return the mean, or set noise_size and take the noise "
            f"[E, B, noise_size] as third argument."
        )
    if not agree(first[:, 0], alone[:, 0]):
        raise WorldModelError(
            f"{describe(model)}: step gives another result for a row alone than for the same row "
            f"among others. Put a batch norm into eval mode, and normalise by constants."
        )
    return step, stepped.observations.dtype


def _stepped(answer: Any, shape: tuple[int, ...]) -> Stepped:
    """Return what a step gave, or raise WorldModelError for what is not of observations' shape."""
    if not isinstance(answer, tuple | list) or len(answer) not in (2, 3):
        raise WorldModelError(
            f"{_what(answer)} came back; return (next observations {list(shape)}, rewards "
            f"{list(shape[:2])}), and third, if you like, what has terminated"
        )
    after = _shaped("next observations", floats(answer[0]), shape)
    rewards = _shaped("rewards", floats(answer[1]), shape[:2])
    if str(getattr(answer[0], "dtype", "")).endswith("float32"):
        after = after.astype(np.float32)
    return Stepped(after, rewards, _truths(answer[2], shape[:2]) if len(answer) == 3 else None)


def _what(answer: Any) -> str:
    size = f" of {len(answer)}" if isinstance(answer, tuple | list | dict) else ""
    return f"a {type(answer).__name__}{size}"


def _truths(flags: Any, shape: tuple[int, ...]) -> Any:
    values = np.asarray(flags.detach().cpu() if hasattr(flags, "detach") else flags)
    if _shaped("terminated", values, shape).dtype != np.bool_:
        raise WorldModelError(f"terminated of dtype {values.dtype} came back; return true or false")
    return values.copy()


def _shaped(name: str, values: Any, shape: tuple[int, ...]) -> Any:
    if values.shape != shape:
        raise WorldModelError(
            f"{name} of shape {list(values.shape)} came back, expected {list(shape)}"
        )
    return values


def _own_rollout(
    model: Any, observations: FloatArray, actions: FloatArray, terminated: Terminated | None
) -> _Rollout:
    """Return the rollout of a model that does its own stepping; it is not clipped here."""

    def through(sender: Sender) -> _Rollout:
        def rollout(observations: FloatArray, act: Act, horizon: int) -> Imagined:
            answer = model.rollout(sender.send(observations), _as_asked(act), horizon)
            if not isinstance(answer, tuple | list) or len(answer) != 3:
                raise WorldModelError(
                    f"{_what(answer)} came back; return Imagined(rewards, observations, terminated)"
                )
            shape = (*observations.shape[:2], horizon)
            rewards = _shaped("rewards", floats(answer[0]), shape)
            after = _shaped("observations", floats(answer[1]), (*shape, observations.shape[2]))
            ended = _truths(answer[2], shape)
            # Its steps are taken once more, so that episodes end where they have to.
            return imagine(
                lambda _, t: Stepped(*(part[:, :, t] for part in (after, rewards, ended))),
                np.array(observations, dtype=np.float64),
                lambda t, _: np.array(t),
                horizon,
                terminated=terminated,
            )

        return rollout

    probe = (observations, lambda _, __: actions, 2)
    ways = ((sender.label, through(sender)) for sender in senders(model.rollout))
    rollout, imagined = first_that_works(ways, *probe, of=model, promise=_ROLLOUT)
    if not np.array_equal(imagined.rewards, rollout(*probe).rewards, equal_nan=True):
        raise WorldModelError(
            f"{describe(model)}: rollout gave different results for identical calls, so no verdict "
            f"on it could be repeated. Draw noise from a generator seeded at its start."
        )
    return rollout


def _as_asked(act: Act) -> Callable[[int, Any], Any]:
    """Return actions in the kind that observations come in: arrays, or tensors as they are."""

    def asked(step: int, observations: Any) -> Any:
        actions = act(step, floats(observations))
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(observations, torch.Tensor):
            return torch.tensor(actions, dtype=observations.dtype, device=observations.device)
        return actions

    return asked


def _dynamics_step(ensemble: Ensemble, observations: FloatArray, actions: FloatArray) -> Step:
    """Return the step of several dynamics, each for its own rows, and their rewards.

    Raises WorldModelError, naming the member that is not usable, or has no reward.
    """
    steps, rewards = [], []
    for number, member in enumerate(ensemble.members):
        try:
            steps.append(adapt_dynamics(member, observations, actions).step)
            own = member.reward if has(member, Reward) else None
            reward = ensemble.reward or own
            if reward is None:
                raise WorldModelError(
                    f"{describe(member)} predicts no rewards, and returns are sums of rewards. "
                    f"Write Ensemble([...], reward=function), called with observations [B, O], "
                    f"actions [B, A] and next observations [B, O], or give each member a reward."
                )
            probe = (observations, actions, steps[-1](observations, actions))
            rewards.append(_reward_of(reward, *probe))
        except WorldModelError as error:
            raise WorldModelError(f"member {number} of the Ensemble: {error}") from error.__cause__

    def step(before: FloatArray, taken: FloatArray) -> Stepped:
        after = np.stack([call(*row) for call, *row in zip(steps, before, taken, strict=True)])
        rows = zip(rewards, before, taken, after, strict=True)
        return Stepped(after, np.stack([reward(*row) for reward, *row in rows]))

    return step


def _reward_of(reward: Callable[..., Any], *probe: FloatArray) -> ArrayFunction:
    """Return rewards as a function of observations, actions and next observations."""
    count = 3 if reads_both_ends(reward) else 2
    names = ", next observations [B, O]" * (count == 3)
    promise = f"reward(observations [B, O], actions [B, A]{names}) -> [B]"
    head = adapt(reward, *probe[:count], promise=promise)
    return lambda *rows: head(*rows[:count])

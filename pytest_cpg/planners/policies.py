"""Policies: networks, mixtures and planners that act on what they observe, and what each does."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    CpgError,
    Dynamics,
    FiniteActions,
    FloatArray,
    Planner,
    Task,
)
from pytest_cpg.contracts.arrays import rolled_out
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import Policy, is_warm_started
from pytest_cpg.contracts.streams import Stream

# Products that OpenBLAS leaves to one thread. Its others wait by spinning, which takes processors
# from the model that is asked next.
_ONE_THREAD = 2**18


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TanhNetwork:
    """A network whose layers all end in tanh, the last one too.

    It is evaluated in float64 and rounded to float32 at the end, as the public benchmark does it
    (koulanurag/opcc, whose actors have two hidden layers of 64).
    """

    weights: Sequence[FloatArray]
    biases: Sequence[FloatArray]
    # What the outputs in [-1, 1] are stretched to: the bounds of a box, or the box around a finite
    # set, of which the nearest action is taken. None leaves them as they are.
    actions: ActionSpace | None = None

    def __post_init__(self) -> None:
        for name in ("weights", "biases"):
            layers = tuple(np.array(layer, dtype=np.float64) for layer in getattr(self, name))
            for layer in layers:
                layer.flags.writeable = False
            object.__setattr__(self, name, layers)
        _check_layers(self.weights, self.biases)
        if self.actions is not None and self.actions.size != len(self.biases[-1]):
            raise ValueError(
                f"the last layer gives {len(self.biases[-1])} numbers, and an action has "
                f"{self.actions.size}: give it as many rows as an action has numbers"
            )

    @classmethod
    def drawn(
        cls,
        observation_size: int,
        actions: ActionSpace,
        *,
        rng: np.random.Generator,
        hidden: Sequence[int] = (64, 64),
        gain: float = 1.0,
    ) -> TanhNetwork:
        """Return a network with Gaussian weights.

        Their deviation is ``gain`` over the root of a layer's inputs; more of it makes actions
        change faster with what is observed.
        """
        sizes = [observation_size, *hidden, actions.size]
        weights = [
            rng.normal(size=(after, before)) * gain / np.sqrt(before)
            for before, after in pairwise(sizes)
        ]
        biases = [0.1 * gain * rng.normal(size=after) for after in sizes[1:]]
        return cls(weights=weights, biases=biases, actions=actions)

    @property
    def observation_size(self) -> int:
        """Numbers in one observation, ``O``."""
        return int(self.weights[0].shape[1])

    def act(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to actions [B, A] of float32; in float32 where those are."""
        rows_seen = np.asarray(observations)
        kind = np.float32 if rows_seen.dtype == np.float32 else np.float64
        layers: list[tuple[FloatArray, FloatArray]] = [
            (weight.T.astype(kind), bias.astype(kind))
            for weight, bias in zip(self.weights, self.biases, strict=True)
        ]
        rows = max(1, _ONE_THREAD // max(weight.size for weight in self.weights))
        values = np.empty((len(rows_seen), len(self.biases[-1])), dtype=kind)
        for first in range(0, len(rows_seen), rows):
            part: FloatArray = rows_seen[first : first + rows].astype(kind)
            for weight, bias in layers:
                part = part @ weight + bias
                np.tanh(part, out=part)
            values[first : first + rows] = part
        if self.actions is not None:
            values = self.actions.nearest(_stretched(values, self.actions))
        return np.asarray(values, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class FunctionPolicy:
    """A function as a policy: it maps observations [B, O] to actions [B, A], both numpy arrays.

    With a ``noise_size`` it is called with observations, step and noise, too; see `Policy`.
    """

    function: Callable[..., FloatArray]
    noise_size: int | None = None

    def act(self, observations: FloatArray, *step_and_noise: Any) -> FloatArray:
        """Map observations [B, O] to actions [B, A]; see `Policy`."""
        return self.function(observations, *step_and_noise)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NoiseMixture:
    """A policy whose every action is mixed with noise that means nothing, a share of it in [0, 1].

    The noise is uniform over the box and a fixed function of seed and observation that turns
    ``frequency`` times while that changes by 1: the mixture is a `Policy`, without memory. Of a
    finite set, the action nearest to the mixture is taken.
    """

    policy: Policy
    actions: ActionSpace
    share: float
    seed: int
    frequency: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share of noise must be from 0 to 1, got {self.share!r}")
        if not 0 < self.frequency < float("inf"):
            raise ValueError(f"frequency must be a positive number, got {self.frequency!r}")
        if noise_size_of(self.policy) is not None:
            raise ValueError(
                f"{self.policy!r:.60} has a noise_size, and what is mixed sees no step and no "
                f"noise: mix within its act(), of the noise that it is given"
            )

    def act(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to actions [B, A]; see `Policy`."""
        observed = np.asarray(observations, dtype=np.float64)
        rng = np.random.default_rng(self.seed)
        directions = rng.normal(size=(observed.shape[-1], self.actions.size))
        phases = rng.random(self.actions.size)
        turns = self.frequency * (observed @ directions) + phases
        # A triangle wave of a uniform phase is uniform in [-1, 1].
        noise = 4 * np.abs(turns - np.floor(turns) - 0.5) - 1
        wanted = np.asarray(self.policy.act(observations), dtype=np.float64)
        mixed = (1 - self.share) * wanted + self.share * _stretched(noise, self.actions)
        return np.asarray(self.actions.nearest(mixed), dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannerPolicy:
    """The first action of the plan that a planner makes from each observation.

    A plan is made anew at every step, and always from the same random numbers, so that an
    observation has one action.
    """

    # One that begins no plan from the last one: there is no memory.
    planner: Planner
    # What it plans in: maps observations [B, O] and actions [B, A] to the next observations.
    dynamics: Dynamics
    # Whose actions there are, and whose score of observations rates plans.
    task: Task
    seed: int

    def __post_init__(self) -> None:
        if is_warm_started(self.planner):
            raise ValueError(
                f"{self.planner!r} begins each plan from the last one, and a policy has no memory: "
                f"give it warm_start=False"
            )

    def act(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to actions [B, A]; see `Policy`."""
        observed = np.asarray(observations, dtype=np.float64)
        rngs = [np.random.default_rng(self.seed) for _ in range(len(observed))]
        remaining = np.full(len(observed), self.planner.horizon)
        world = _SeenWorld(self.task, self.dynamics)
        plans = self.planner.plan(world, observed, rngs, remaining)
        return np.array(plans.actions[:, 0])


@dataclass(frozen=True, slots=True)
class _SeenWorld:
    """A planning model whose latents are observations."""

    task: Task
    dynamics: Dynamics

    @property
    def actions(self) -> ActionSpace:
        return self.task.actions

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        return rolled_out(
            lambda *rows: np.asarray(self.dynamics(*rows), dtype=np.float64), latents, actions
        )

    def score(self, latents: FloatArray) -> FloatArray:
        return self.task.score(latents)

    def observe(self, latents: FloatArray) -> FloatArray:
        return latents


def _check_layers(weights: Sequence[FloatArray], biases: Sequence[FloatArray]) -> None:
    if not weights or len(weights) != len(biases):
        raise ValueError(
            f"need one bias for each of at least one weight, got {len(weights)} weights and "
            f"{len(biases)} biases"
        )
    before = weights[0].shape[-1]
    for number, (weight, bias) in enumerate(zip(weights, biases, strict=True), 1):
        if weight.ndim != 2 or bias.ndim != 1 or weight.shape != (len(bias), before):
            raise ValueError(
                f"layer {number} has weights {weight.shape} and biases {bias.shape}: need "
                f"[out, {before}] and [out]"
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise ValueError(f"layer {number} has weights that are not finite: train it again")
        before = len(bias)


def _stretched(unit: FloatArray, space: ActionSpace) -> FloatArray:
    """Return numbers in [-1, 1] [..., A] stretched to the box of, or around, an action space."""
    return (space.low + space.high) / 2 + (space.high - space.low) / 2 * unit


# Relative, and of actions near 0: what the order of a sum may change.
_ROUNDING = 1e-5
# What policies that are compared may do in place of drawing their actions.
_SEEDED = "Draw from the noise that a policy with noise_size is given, or return the mean"


def actions_of(
    policy: Any, observations: FloatArray, *, step: int = 0, starts: FloatArray | None = None
) -> Any:
    """Return what a policy says to observations [B, O], given its step and noise if it has some.

    The noise of a step depends on the row's start alone, of ``starts`` [K, O], ``B`` a multiple of
    ``K``, or here for None, rounded to float32: the same in truth and in imagination, for every
    member of a model, alone and in any batch.
    """
    size = noise_size_of(policy)
    if size is None:
        return policy.act(np.array(observations))
    begun = np.asarray(observations if starts is None else starts, dtype=np.float32)
    noise = np.empty((len(begun), size))
    for row, start in enumerate(begun if size else ()):
        seed = int.from_bytes(hashlib.sha256(start.tobytes()).digest()[:16], "big")
        noise[row] = Stream.POLICY.of(seed, step).standard_normal(size)
    again = len(observations) // max(1, len(begun))
    return policy.act(np.array(observations), step, np.tile(noise, (again, 1)))


def noise_size_of(policy: Any) -> int | None:
    """Return how much noise a policy takes, or raise ValueError; None where it sees no step."""
    size = getattr(policy, "noise_size", None)
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0):
        return size
    raise ValueError(
        f"{policy!r:.60} has noise_size {size!r}: write how many numbers act(observations, step, "
        f"noise) is given for each action, 0 or more"
    )


def checked_actions(
    policy: Policy,
    name: str,
    observations: FloatArray,
    space: ActionSpace | None,
    *,
    step: int = 0,
    starts: FloatArray | None = None,
) -> FloatArray:
    """Return what a policy does on observations [B, O]: possible actions [B, A] of float64.

    As `answered`; raises CpgError for actions that are not possible, too. The space is None where
    nobody knows what is possible.
    """
    size = None if space is None else space.size
    actions = answered(policy, name, observations, size, step=step, starts=starts)
    if space is None:
        return actions
    check_possible(actions, space, name)
    # float32 rounds what is exactly possible.
    return space.nearest(actions)


def answered(
    policy: Policy,
    name: str,
    observations: FloatArray,
    size: int | None,
    *,
    step: int = 0,
    starts: FloatArray | None = None,
) -> FloatArray:
    """Return what a policy says to observations [B, O]: finite numbers [B, A] of float64.

    Raises CpgError with the policy's name when it gives anything else. ``size`` is that of an
    action; None where nobody knows.
    """
    answer = actions_of(policy, observations, step=step, starts=starts)
    try:
        actions = np.array(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise CpgError(
            f"{name} gave {answer!r:.60}, which is no array of numbers ({error}): return actions "
            f"[B, A]"
        ) from None
    wanted = size or (actions.shape[-1] if actions.ndim == 2 else "A")
    if actions.shape != (len(observations), wanted):
        raise CpgError(
            f"{name} gave actions of shape {actions.shape} for {len(observations)} observations: "
            f"return shape ({len(observations)}, {wanted})"
        )
    broken = ~np.isfinite(actions).all(axis=1)
    if broken.any():
        row = int(broken.argmax())
        raise CpgError(
            f"{name} gave the action {actions[row]} for observation {row}, {observations[row]}: "
            f"return finite numbers"
        )
    return actions


def check_possible(actions: FloatArray, space: ActionSpace, name: str) -> None:
    """Raise CpgError unless all actions [B, A] are possible, but for what float32 rounds."""
    off = np.abs(space.nearest(actions) - actions)
    outside = (off > np.finfo(np.float32).eps * np.maximum(1, np.abs(actions))).any(axis=1)
    if outside.any():
        row = int(outside.argmax())
        possible = f"{space.low} to {space.high}"
        cure = "Clip what it returns, or scale it from the units that it was trained in."
        if isinstance(space, FiniteActions):
            possible = f"one of {len(space.values)} actions such as {space.values[0]}"
            cure = "Return the nearest of the task's actions.values."
        raise CpgError(
            f"{name} left the action space: row {row} is {actions[row]}, and possible is "
            f"{possible}. {cure}"
        )


def check_policy(policy: object, name: str) -> None:
    """Raise ValueError unless something has the method of a `Policy`."""
    if not has(policy, Policy):
        fix = f"give FunctionPolicy({name})" if callable(policy) else "write a class with it"
        raise ValueError(
            f"{name} is {policy!r:.60}, which has no method act(observations [B, O]) -> actions "
            f"[B, A]: {fix}"
        )
    noise_size_of(policy)


def check_repeats(
    policy: Policy, name: str, observations: FloatArray, acted: FloatArray, *, cure: str = _SEEDED
) -> None:
    """Raise CpgError where a policy, asked again about observations [B, O], acts otherwise."""
    again = np.asarray(actions_of(policy, observations), dtype=np.float64)
    if again.shape != acted.shape or not np.allclose(again, acted, rtol=_ROUNDING, atol=_ROUNDING):
        raise CpgError(
            f"{name} gave {acted[0]} and then {again[0]} for one and the same observation, so no "
            f"result could be repeated. {cure}; put dropout into eval mode; keep no state between "
            f"calls."
        )

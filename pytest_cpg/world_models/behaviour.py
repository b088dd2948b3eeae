"""Behaviour: what acts while transitions are collected, as whoever collects names it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    ComponentError,
    CpgError,
    FloatArray,
    IntArray,
    Planner,
    Plans,
    Task,
)
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import Policy, is_warm_started
from pytest_cpg.contracts.task import seen
from pytest_cpg.contracts.world_model import OwnPolicy, Rollout
from pytest_cpg.world_models.binding.binding import bind
from pytest_cpg.world_models.binding.bound import OracleDynamics
from pytest_cpg.world_models.binding.conventions import binds, describe
from pytest_cpg.world_models.binding.torch_state import inference

Rngs: TypeAlias = Sequence[np.random.Generator]
#: A name, a planner, a planner and its model, a model with a policy, or a policy.
Acting: TypeAlias = (
    str | Planner | tuple[Planner, Any] | OwnPolicy | Policy | Callable[[FloatArray], Any]
)
#: What acts, and in which share of the episodes.
Shares: TypeAlias = Mapping[Hashable, float] | list[tuple[Acting, float]]
_FORMS = (
    'Give "random", "held-8" (each action kept for 8 steps), a planner, (planner, model), a model '
    "with a policy, a function from observations [B, O] to actions [B, A], or a mapping of these "
    "to their shares of the episodes"
)
_HELD = re.compile(r"held-([1-9]\d{0,5})")
# States that a model is checked on before it is planned with.
_PROBES = 8
# Relative: what float32 rounds of a possible action. Of shares: what adding them up does.
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class _Random:
    """Random actions to the end of the episode, each kept for ``hold`` steps."""

    hold: int

    def plan(self, world: Any, latents: FloatArray, rngs: Rngs, remaining: IntArray) -> Plans:
        del latents
        steps = int(remaining.max())
        drawn = world.actions.sample(rngs, (-(-steps // self.hold),))
        return Plans(np.repeat(drawn, self.hold, axis=1)[:, :steps], remaining)


@dataclass(frozen=True, slots=True)
class _Answering:
    """What a policy answers to what is seen of the true states."""

    policy: Any
    task: Task
    steps: int

    def plan(self, world: Any, latents: FloatArray, rngs: Rngs, remaining: IntArray) -> Plans:
        del world
        observations, size = seen(self.task, latents), getattr(self.policy, "noise_size", None)
        # All rows are at one step, as every plan is of one action.
        noise = (
            []
            if size is None
            else [
                self.steps - int(remaining[0]),
                np.stack([rng.standard_normal(size) for rng in rngs]),
            ]
        )
        act = self.policy.act if has(self.policy, Policy) else self.policy
        answer = np.asarray(act(observations, *noise), dtype=np.float64)
        return Plans(answer[:, None] if answer.ndim == 2 else answer, np.ones_like(remaining))


class _Own:
    """What a model's own policy does, of the noise that it draws."""

    def plan(self, world: Any, latents: FloatArray, rngs: Rngs, remaining: IntArray) -> Plans:
        noise = np.stack([rng.standard_normal((1, world.actions.size)) for rng in rngs])
        return Plans(world.policy_plans(latents, noise), np.ones_like(remaining))


def shares_of(policy: Acting | Shares) -> list[tuple[Acting, float]]:
    """Return what acts and in which share of the episodes.

    Raises ValueError for shares that are wrong, ComponentError for a name that no policy has.
    """
    if not isinstance(policy, Mapping | list):
        return shares_of([(policy, 1.0)])
    pairs: list[Any] = list(policy.items()) if isinstance(policy, Mapping) else policy
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[1], Real):
            raise ValueError(
                f"policy has {pair!r:.80}, which is no policy with a share of the episodes: write "
                f"(policy, 0.5) in a list, or policy: 0.5 in a mapping"
            )
    for acting, _ in pairs:
        if isinstance(acting, str) and acting != "random" and not _HELD.fullmatch(acting):
            raise ComponentError(f"no policy named {acting!r}. {_FORMS}.")
    shares = [float(share) for _, share in pairs]
    total = sum(shares)
    if not shares or not min(shares) > 0 or not abs(total - 1) <= _ROUNDING:
        cure = "write numbers above 0 that add up to 1"
        if abs(total - 100) <= 100 * _ROUNDING:
            cure = f"shares are parts of 1, so write {shares[0] / 100:g} for {shares[0]:g}"
        elif total < 1 and any(not isinstance(acting, str) for acting, _ in pairs):
            cure += ". Of equal policies a mapping keeps one: give a list of (policy, share)"
        raise ValueError(f"policy has the shares {shares}, which add up to {total:g}: {cure}")
    return [(acting, share) for (acting, _), share in zip(pairs, shares, strict=True)]


def turns(shares: Sequence[float]) -> Iterator[int]:
    """Yield whose turn each episode is, without end: whose share is most behind, the first of them.

    >>> list(itertools.islice(turns([0.75, 0.25]), 8))
    [0, 0, 1, 0, 0, 0, 1, 0]
    """
    counts = np.zeros(len(shares))
    for episodes in itertools.count(1):
        behind = np.asarray(shares) * episodes - counts
        turn = int(np.argmax(np.round(behind, 9)))
        counts[turn] += 1
        yield turn


def followed(
    acting: Acting,
    task: Task,
    starts: FloatArray,
    rngs: Rngs,
    *,
    steps: int,
    noise: tuple[float, Rngs],
) -> tuple[FloatArray, FloatArray]:
    """Return the states [N, T, S] that a policy leads to from starts [N, S], and its actions.

    ``noise`` is the share of steps at which a random action is done in place of its own, and one
    stream for each episode.
    """
    planner, model = _planner_of(acting, task, steps=steps)
    rows_probed, share = np.arange(_PROBES) % len(starts), noise[0]
    with inference(model):
        probes = [np.random.default_rng(row) for row in range(_PROBES)]
        world = bind(
            model,
            task,
            probe_states=starts[rows_probed],
            probe_actions=task.actions.sample(probes, (1,))[:, 0],
            rates=not isinstance(planner, _Own),
        )
        if isinstance(planner, _Own) and world.policy_plans is None:
            raise ComponentError(f"policy: {_named(acting)} has no policy of its own. {_FORMS}.")
        planner = world.planner or planner
        at, taken = starts.copy(), np.zeros(len(starts), dtype=np.int64)
        states = np.empty((len(starts), steps, starts.shape[1]))
        actions = np.empty((len(starts), steps, task.actions.size))
        latents: FloatArray | None = None
        memory: FloatArray | None = None
        while (rows := np.flatnonzero(taken < steps)).size:
            if latents is None or world.update is None:
                fresh = world.encode(at[rows])
                latents = np.zeros((len(starts), fresh.shape[1])) if latents is None else latents
                latents[rows] = fresh
            drawn, remaining = [rngs[row] for row in rows.tolist()], steps - taken[rows]
            begun = None if memory is None else memory[rows]
            warm = {"memory": begun} if is_warm_started(planner) else {}
            plans = Plans(*planner.plan(world, latents[rows], drawn, remaining, **warm))
            if plans.memory is not None:
                if memory is None:
                    memory = np.zeros((len(starts), *plans.memory.shape[1:]))
                memory[rows] = plans.memory
            chosen = _possible(plans, remaining, task.actions, acting)
            if share:
                instead = [noise[1][row] for row in rows.tolist()]
                swapped = np.stack([rng.random(chosen.shape[1]) < share for rng in instead])
                drawn_anew = task.actions.sample(instead, (chosen.shape[1],))
                chosen = np.where(swapped[..., None], drawn_anew, chosen)
            if (plans.lengths == steps).all():
                return task.rollout(starts, chosen), chosen
            for t in range(int(plans.lengths.max())):
                going = plans.lengths > t
                on, acted = rows[going], chosen[going, t]
                at[on] = task.step(at[on], acted)
                states[on, taken[on]], actions[on, taken[on]] = at[on], acted
                taken[on] += 1
                if world.update is not None:
                    latents[on] = world.update(latents[on], acted, at[on])
    return states, actions


def _planner_of(acting: Acting, task: Task, *, steps: int) -> tuple[Any, Any]:
    """Return what plans, and the model that it plans in; the truth where it needs none."""
    truth = OracleDynamics(task)
    if isinstance(acting, str):
        held = _HELD.fullmatch(acting)
        return _Random(int(held[1]) if held else 1), truth
    if isinstance(acting, type):
        raise ComponentError(
            f"policy is the class {acting.__name__}, not an object of it: write "
            f"{acting.__name__}(...)"
        )
    if isinstance(acting, tuple) and len(acting) == 2 and isinstance(acting[0], Planner):
        return acting
    if isinstance(acting, Planner):
        return acting, truth
    if has(acting, OwnPolicy) and has(acting, Rollout):
        return _Own(), acting
    if has(acting, Policy):
        return _Answering(acting, task, steps), truth
    # What a torch module's own __call__ takes says nothing.
    called: Any = getattr(acting, "forward", acting)
    if has(acting, Rollout) or (
        callable(acting) and binds(called, 1) is False and binds(called, 2)
    ):
        raise ComponentError(
            f"policy: {describe(acting)} is a model without a policy: write (planner, model)"
        )
    if callable(acting):
        return _Answering(acting, task, steps), truth
    raise ComponentError(f"policy is {acting!r:.60}. {_FORMS}.")


def _possible(plans: Plans, remaining: IntArray, space: ActionSpace, acting: Acting) -> FloatArray:
    """Return planned actions [N, H, A] that are possible, or raise CpgError with what acted."""
    actions, rows = np.asarray(plans.actions, dtype=np.float64), len(remaining)
    if actions.ndim != 3 or actions.shape[::2] != (rows, space.size):
        shape = (actions.shape[0], *actions.shape[2:]) if actions.ndim > 2 else actions.shape
        raise CpgError(
            f"policy {_named(acting)} gave actions of shape {shape} for {rows} observations: "
            f"return shape ({rows}, {space.size})"
        )
    most = np.minimum(remaining, actions.shape[1])
    if not ((np.asarray(plans.lengths) >= 1) & (plans.lengths <= most)).all():
        raise CpgError(
            f"policy {_named(acting)} plans {np.unique(plans.lengths)} steps: return lengths from "
            f"1 to min(horizon, remaining)"
        )
    nearest = space.nearest(actions)
    off = np.abs(nearest - actions) > _ROUNDING * np.maximum(1, np.abs(actions))
    if off.any() or not np.isfinite(actions).all():
        row = np.argwhere(off | ~np.isfinite(actions))[0]
        raise CpgError(
            f"policy {_named(acting)} gave the action {actions[row[0], row[1]]}, and possible is "
            f"{space.low} to {space.high}: clip what it returns, or take the nearest of the "
            f"task's actions"
        )
    return nearest


def _named(acting: Any) -> str:
    return str(getattr(acting, "__name__", None) or f"{acting!r:.60}")

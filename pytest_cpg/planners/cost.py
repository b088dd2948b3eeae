"""The cost of one plan, in imagined model steps, and a planner that may have more of them."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from pytest_cpg.contracts import ActionSpace, FloatArray, IntArray, Planner
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import RolloutSteps, is_warm_started

# Fields that say how many plans a planner looks at.
_WIDTHS = ("candidates", "samples", "width")


def rollout_steps_per_plan(planner: Planner, actions: ActionSpace, *, budget: int) -> int:
    """Count the model steps that one plan imagines, by asking for one in an empty world.

    Of a planner that is warm started, a plan that begins from another one.
    """
    if has(planner, RolloutSteps):
        return int(planner.rollout_steps)
    world = _EmptyWorld(actions)
    memory = _asked(planner, world, budget)
    if not is_warm_started(planner):
        return world.steps
    first, _ = world.steps, _asked(planner, world, budget, memory)
    return world.steps - first


def reads_steps(planner: Planner, actions: ActionSpace, *, budget: int) -> bool:
    """Say whether a planner asks for scores of steps, by asking for a plan in an empty world."""
    if has(planner, RolloutSteps):
        return False
    world = _CostlyWorld(actions)
    _asked(planner, world, budget)
    return world.is_scored


def widened(planner: Planner, times: int) -> Planner | None:
    """Return a planner that looks at so many times the plans; None where no field says how many.

    >>> from pytest_cpg.planners import MPPI
    >>> widened(MPPI(samples=8), 4).samples
    32
    """
    if not is_dataclass(planner):
        return None
    names = {field.name for field in fields(planner)}
    wider = {name: times * getattr(planner, name) for name in _WIDTHS if name in names}
    return replace(planner, **wider) if wider else None


def _asked(planner: Planner, world: _EmptyWorld, budget: int, memory: Any = None) -> Any:
    """Ask for a plan that begins from a memory, and return what it leaves."""
    warm: Any = {"memory": memory} if is_warm_started(planner) else {}
    rngs = [np.random.default_rng(0)]
    plans = planner.plan(world, np.zeros((1, 1)), rngs, np.array([budget]), **warm)
    return getattr(plans, "memory", None)


class _EmptyWorld:
    """A planning model in which nothing happens."""

    def __init__(self, actions: ActionSpace) -> None:
        self.actions = actions
        self.steps = 0

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        self.steps += actions.shape[0] * actions.shape[1]
        return np.zeros((*actions.shape[:2], latents.shape[1]))

    def score(self, latents: FloatArray) -> FloatArray:
        return np.zeros(latents.shape[:2])


class _CostlyWorld(_EmptyWorld):
    """An empty world that rates whole plans, and notes whether scores of steps were asked for."""

    is_scored = False

    def plan_costs(self, latents: FloatArray, plans: FloatArray, lengths: IntArray) -> FloatArray:
        del latents, lengths
        return np.zeros(plans.shape[:2])

    def score(self, latents: FloatArray) -> FloatArray:
        self.is_scored = True
        return super().score(latents)

"""The cost of one plan, in imagined model steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.contracts import ActionSpace, FloatArray, Planner


def rollout_steps_per_plan(planner: Planner, actions: ActionSpace, *, budget: int) -> int:
    """Count the model steps that one plan imagines, by asking for one in an empty world.

    Of a planner that is warm started, a plan that begins from another one. One that needs more
    than an empty world says so itself, in ``rollout_steps``.
    """
    known = getattr(planner, "rollout_steps", None)
    if known is not None:
        return int(known)
    world = _EmptyWorld(actions)
    question: Any = (world, np.zeros((1, 1)), [np.random.default_rng(0)], np.array([budget]))
    if not getattr(planner, "is_warm_started", False):
        planner.plan(*question)
        return world.steps
    plan: Any = planner.plan
    memory = plan(*question, memory=None).memory
    first, _ = world.steps, plan(*question, memory=memory)
    return world.steps - first


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

"""A planner of one's own: greedy one-step lookahead, contributed through the hook."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import Plans
from pytest_cpg.planners import score_plans


@dataclass(frozen=True, slots=True, kw_only=True)
class OneStep:
    """Try every action of a finite set once and take the one that looks best."""

    horizon: int = 1
    name: ClassVar[str] = "one-step"

    def plan(self, world_model, latents, rngs, remaining):
        actions = world_model.actions.values
        plans = np.broadcast_to(actions[:, None], (len(latents), len(actions), 1, actions.shape[1]))
        best = score_plans(world_model, latents, plans)[..., 0].argmin(axis=1)
        return Plans(actions[best][:, None], np.ones(len(latents), dtype=int))


def pytest_cpg_planners():
    """Name the planner, so that markers can ask for it."""
    return {"one-step": OneStep}

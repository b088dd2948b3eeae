"""Runs of arms, for tests that need no whole design."""

from dataclasses import dataclass

import numpy as np

from pytest_cpg.contracts import Plans
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design
from pytest_cpg.planners import RandomShooting
from pytest_cpg.world_models.binding.bound import BoundModel

FEW = RandomShooting(candidates=4, horizon=3)


def run_of(name, task, planner, model, starts, **more):
    """Return a run; further options are of `ArmRun` or of its design.

    A model that is not bound has what a bound one is asked for: encode, rollout, score of states.
    """
    if not isinstance(model, BoundModel):
        model = BoundModel(
            actions=task.actions,
            may_diverge=getattr(model, "may_diverge", False),
            encode=model.encode,
            imagine=model.rollout,
            score=model.score,
        )
    seen = ("progress", "on_step", "on_plan")
    observers = {key: more.pop(key) for key in seen if key in more}
    design = Design(task=task, planner=planner, episodes=len(starts.episodes), **more)
    return ArmRun(name, design, model, starts, **observers)


def arm_of(name, task, planner, model, starts, **more):
    """Run every episode to its end, and return the arm."""
    return run_of(name, task, planner, model, starts, **more).advance(len(starts.episodes))


@dataclass(frozen=True)
class Sure:
    """A user's planner that says how sure it is."""

    inner: RandomShooting = FEW
    cache_key: str | None = "sure 1"
    boldness: float = 1.0
    levels: tuple[float, ...] = (0.0, 1.0)
    gains: object = None
    name = "sure"
    horizon = 3

    def plan(self, world_model, latents, rngs, remaining):
        plans = self.inner.plan(world_model, latents, rngs, remaining)
        return Plans(plans.actions, plans.lengths, np.sin(latents[:, 0] * self.boldness))

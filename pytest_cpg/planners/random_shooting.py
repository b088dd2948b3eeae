"""Random shooting, the best of random plans; and chance, which every planner must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, PlanningModel, Plans
from pytest_cpg.planners.search import Choice, Rngs, Search, Ties, cheapest, score_plans


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomShooting(Search):
    """Uniform random plans, the best one executed up to its earliest best step.

    Defaults are of the published acrobot-swingup experiment (50 candidates of 15 steps).

    Attributes
    ----------
    candidates : int
        Plans imagined per decision, ``K``.
    ties : "earliest" or "published"
        See `cut_at_best`.
    """

    candidates: int = 50
    horizon: int = 15
    ties: Ties = "earliest"
    name: ClassVar[str] = "random-shooting"

    def plan(
        self, world_model: PlanningModel, latents: FloatArray, rngs: Rngs, remaining: IntArray
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        plans = world_model.actions.sample(rngs, (self.candidates, self.horizon))
        scores = score_plans(world_model, latents, plans)
        return cheapest(plans, *Choice.of(self).rate(scores, remaining))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance(Search):
    """Uniform random actions, ``horizon`` of them at a time; the world model is never asked."""

    horizon: int = 25
    name: ClassVar[str] = "chance"

    def plan(
        self, world_model: PlanningModel, latents: FloatArray, rngs: Rngs, remaining: IntArray
    ) -> Plans:
        """Draw actions for ``N`` episodes; see `Planner.plan`."""
        del latents
        actions = world_model.actions.sample(rngs, (self.horizon,))
        return Plans(actions, np.minimum(remaining, self.horizon))

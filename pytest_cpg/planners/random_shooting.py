"""Random shooting, the best of random plans; and chance, which every planner must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, PlanningModel, Plans
from pytest_cpg.planners.candidates import cheapest, score_plans
from pytest_cpg.planners.objective import Choice
from pytest_cpg.planners.settings import Ties, check_settings


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomShooting:
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

    def __post_init__(self) -> None:
        check_settings(self)

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        plans = world_model.actions.sample(rngs, (self.candidates, self.horizon))
        scores = score_plans(world_model, latents, plans)
        return cheapest(plans, *Choice.of(self).rate(scores, remaining))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """Uniform random actions; the world model is never asked.

    Attributes
    ----------
    horizon : int
        Actions drawn at a time. Blocks only save calls: none of them looks at the world.
    """

    horizon: int = 25
    name: ClassVar[str] = "chance"

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
    ) -> Plans:
        """Draw actions for ``N`` episodes; see `Planner.plan`."""
        del latents
        actions = world_model.actions.sample(rngs, (self.horizon,))
        return Plans(actions, np.minimum(remaining, self.horizon))

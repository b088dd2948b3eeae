"""Chance: uniform random actions without any model, the floor every planner must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, PlanningModel, Plans


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

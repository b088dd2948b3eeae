"""Persistent planner: any planner's search, several times over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Planner, PlanningModel, Plans

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistent:
    """A planner that searches several times, and keeps the plan with the best score.

    Attributes
    ----------
    planner : Planner
    times : int
    """

    planner: Planner
    times: int

    @property
    def name(self) -> str:
        """The planner's own name."""
        return self.planner.name

    @property
    def horizon(self) -> int:
        """The planner's own horizon."""
        return self.planner.horizon

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        best: FloatArray | None = None
        actions: FloatArray = np.empty(0)
        lengths: IntArray = np.empty(0, dtype=np.int64)
        within = np.arange(self.horizon) < remaining[:, None]
        for _ in range(self.times):
            found = self.planner.plan(world_model, latents, rngs, remaining)
            scores = world_model.score(world_model.rollout(latents, found.actions))
            values = np.where(within, scores, np.inf).min(axis=1)
            if best is None:
                best, actions, lengths = values, found.actions.copy(), found.lengths.copy()
                continue
            is_better = values < best
            actions[is_better], lengths[is_better] = (
                found.actions[is_better],
                found.lengths[is_better],
            )
            best = np.minimum(best, values)
        return Plans(actions, lengths)

"""Cross-entropy method: sample plans, refit the sampling distribution to the best, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, PlanningModel, Plans
from pytest_cpg.planners.candidates import BestPlans, take
from pytest_cpg.planners.distributions import Spread, plan_distribution
from pytest_cpg.planners.objective import Choice
from pytest_cpg.planners.settings import Objective, Ties, check_settings, written

# Settings of the published experiment, which a report always names.
_PUBLISHED = ("iterations", "samples", "elites", "horizon", "smoothing", "ties")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CEM:
    """Cross-entropy method (Rubinstein 1999) over plans, the best plan seen is executed.

    Finite action sets get an independent categorical distribution per step, boxes an independent
    Gaussian. Defaults are of the published acrobot-swingup experiment.

    Attributes
    ----------
    iterations, samples, elites : int
        Rounds of sampling, plans per round ``K``, and how many of them the next round is fitted to.
    smoothing : float
        Weight in [0, 1) that keeps the fit from collapsing: of the uniform distribution for a
        finite set, of the previous mean and deviation for a box.
    ties, objective, execute
        See `rate`.
    correlation : float
        Of the noise of neighbouring steps, in (-1, 1).
    initial_deviation, minimum_deviation : float
        Of a box: deviation at first, and below which it never falls, in halves of the box's width.
    warm_start : bool
        Begin from the last plan's distribution, shifted by the executed steps.
    """

    iterations: int = 3
    samples: int = 24
    elites: int = 6
    horizon: int = 15
    smoothing: float = 0.1
    ties: Ties = "earliest"
    objective: Objective = "best"
    execute: int | None = None
    correlation: float = 0.0
    initial_deviation: float = 1.0
    minimum_deviation: float = 0.0
    warm_start: bool = False
    name: ClassVar[str] = "cem"

    def __post_init__(self) -> None:
        check_settings(self)

    def __repr__(self) -> str:
        return written(self, _PUBLISHED)

    @property
    def is_warm_started(self) -> bool:
        """Whether a plan begins from the last one."""
        return self.warm_start

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
        memory: FloatArray | None = None,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        spread = Spread(
            horizon=self.horizon,
            smoothing=self.smoothing,
            initial=self.initial_deviation,
            minimum=self.minimum_deviation,
            correlation=self.correlation,
        )
        distribution = plan_distribution(world_model.actions, spread, len(latents), memory)
        chosen = BestPlans(len(latents), self.horizon, world_model.actions.size)
        for _ in range(self.iterations):
            plans = distribution.draw(rngs, self.samples)
            costs, lengths = Choice.of(self).rate_plans(world_model, latents, plans, remaining)
            ranking = chosen.offer(plans, costs, lengths)
            distribution.fit(take(plans, ranking[:, : self.elites]))
        kept = distribution.shifted(chosen.lengths) if self.warm_start else None
        return Plans(chosen.actions, chosen.lengths, memory=kept)

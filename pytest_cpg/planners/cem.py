"""Cross-entropy method and iCEM: sample plans, refit their distribution to the best, repeat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, PlanningModel, Plans
from pytest_cpg.planners.distributions import Spread, plan_distribution, shift
from pytest_cpg.planners.search import (
    BestPlans,
    Choice,
    Objective,
    Rngs,
    Search,
    Ties,
    check_settings,
    take,
    written,
)

# Settings of the published experiment, which a report always names.
_PUBLISHED = ("iterations", "samples", "elites", "horizon", "smoothing", "ties")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CEM(Search):
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
        rngs: Rngs,
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
        memory_after = distribution.shifted(chosen.lengths) if self.warm_start else None
        return Plans(chosen.actions, chosen.lengths, memory=memory_after)


@dataclass(frozen=True, slots=True, kw_only=True)
class ICEM(Search):
    """Improved cross-entropy method (Pinneri et al., CoRL 2020, algorithm 1).

    Kept elites and the mean take the place of drawn plans, where the paper adds them: every
    iteration imagines exactly as many plans as it says, with and without a warm start. Plans over
    a finite set are drawn by the ranks of coloured noise, so that actions last.

    Attributes
    ----------
    iterations, samples, elites : int
        Rounds, plans in the first of them, and plans that each next one is fitted to.
    decay : float
        At least 1: a round has the samples of the last one divided by it, and twice the elites at
        least.
    colour : float
        Exponent of the noise's power spectrum, of ``1 / f**colour``.
    keep : float
        Share in [0, 1] of the elites that are candidates again, in the next round and, shifted by
        what was executed, in the next plan.
    initial_deviation, smoothing
        As in `CEM`.
    objective, execute
        See `rate`.
    """

    iterations: int = 3
    samples: int = 32
    elites: int = 6
    horizon: int = 15
    decay: float = 1.25
    colour: float = 2.0
    keep: float = 0.3
    initial_deviation: float = 0.5
    smoothing: float = 0.1
    objective: Objective = "sum"
    execute: int | None = 1
    name: ClassVar[str] = "icem"
    is_warm_started: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)
        if 2 * self.elites > self.samples:
            raise ValueError(
                f"elites must not exceed half of samples {self.samples}, got {self.elites}"
            )

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Rngs,
        remaining: IntArray,
        memory: FloatArray | None = None,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        count, size = len(latents), world_model.actions.size
        kept_count = round(self.keep * self.elites)
        kept_shape = (count, kept_count, self.horizon, size)
        begun: FloatArray | None = None
        carried: FloatArray = np.empty((count, 0, *kept_shape[2:]))
        if memory is not None:
            cut = memory.shape[1] - int(np.prod(kept_shape[1:]))
            begun = memory[:, :cut].reshape(count, self.horizon, -1)
            carried = memory[:, cut:].reshape(kept_shape)
        spread = Spread(
            horizon=self.horizon,
            smoothing=self.smoothing,
            initial=self.initial_deviation,
            colour=self.colour,
        )
        distribution = plan_distribution(world_model.actions, spread, count, begun)
        chosen = BestPlans(count, self.horizon, size)
        for iteration in range(self.iterations):
            candidates = [carried]
            if iteration == self.iterations - 1:
                candidates.append(distribution.mode[:, None])
            count_so_far = sum(part.shape[1] for part in candidates)
            drawn = distribution.draw(rngs, self._samples_of(iteration) - count_so_far)
            plans = np.concatenate([*candidates, drawn], axis=1)
            costs, lengths = Choice.of(self).rate_plans(world_model, latents, plans, remaining)
            ranking = chosen.offer(plans, costs, lengths)
            carried = take(plans, ranking[:, :kept_count])
            distribution.fit(take(plans, ranking[:, : self.elites]))
        tails = world_model.actions.sample(rngs, kept_shape[1:3])
        after = [shift(carried[:, k], chosen.lengths, tails[:, k]) for k in range(kept_count)]
        parts = [distribution.shifted(chosen.lengths), *after]
        return Plans(
            chosen.actions,
            chosen.lengths,
            memory=np.concatenate([part.reshape(count, -1) for part in parts], axis=1),
        )

    def _samples_of(self, iteration: int) -> int:
        """Count the plans of a round, kept ones included."""
        return max(int(self.samples * self.decay**-iteration), 2 * self.elites)

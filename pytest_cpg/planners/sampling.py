"""Sampling searches: CEM and iCEM refit a distribution to the best plans, MPPI weighs all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, PlanningModel, Plans
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import Actor
from pytest_cpg.planners.confidence import with_confidences
from pytest_cpg.planners.distributions import Spread, draw_noise, plan_distribution, shift
from pytest_cpg.planners.search import (
    BestPlans,
    Confidence,
    Objective,
    Rngs,
    Search,
    Ties,
    check_settings,
    rate,
    rate_plans,
    score_plans,
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
    """

    #: Rounds of sampling, plans per round ``K``, and how many of them the next round is fitted to.
    iterations: int = 3
    samples: int = 24
    elites: int = 6
    horizon: int = 15
    #: Weight in [0, 1) that keeps the fit from collapsing: of the uniform distribution for a
    #: finite set, of the previous mean and deviation for a box.
    smoothing: float = 0.1
    #: See `rate`.
    ties: Ties = "earliest"
    objective: Objective = "best"
    execute: int | None = None
    #: Of the noise of neighbouring steps, in (-1, 1).
    correlation: float = 0.0
    #: Of a box: deviation at first, and below which it never falls, in halves of the box's width.
    initial_deviation: float = 1.0
    minimum_deviation: float = 0.0
    #: Begin from the last plan's distribution, shifted by the executed steps.
    warm_start: bool = False
    #: What plans say of how sure they are, see `with_confidences`; it changes none of them.
    confidence: Confidence | None = field(default=None, repr=False)
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
        distribution = plan_distribution(world_model.actions, Spread.of(self), len(latents), memory)
        chosen = BestPlans(len(latents), self.horizon, world_model.actions.size)
        first: FloatArray = np.empty((len(latents), 0))
        for iteration in range(self.iterations):
            plans = distribution.draw(rngs, self.samples)
            costs, lengths = rate_plans(self, world_model, latents, plans, remaining)
            first = costs if iteration == 0 else first
            ranking = chosen.offer(plans, costs, lengths)
            elites = take(plans, ranking[:, : self.elites])
            distribution.fit(elites)
        memory_after = distribution.shifted(chosen.lengths) if self.warm_start else None
        plan = Plans(chosen.actions, chosen.lengths, memory=memory_after)
        asked = world_model, latents, remaining
        return with_confidences(self, *asked, plan, costs=first, elites=elites)


@dataclass(frozen=True, slots=True, kw_only=True)
class ICEM(Search):
    """Improved cross-entropy method (Pinneri et al., CoRL 2020, algorithm 1).

    Kept elites and the mean take the place of drawn plans, where the paper adds them: every
    iteration imagines exactly as many plans as it says, with and without a warm start. Plans over
    a finite set are drawn by the ranks of coloured noise, so that actions last.
    """

    #: Rounds, plans in the first of them, and plans that each next one is fitted to.
    iterations: int = 3
    samples: int = 32
    elites: int = 6
    horizon: int = 15
    #: At least 1: a round has the samples of the last one divided by it, and twice the elites at
    #: least.
    decay: float = 1.25
    #: Exponent of the noise's power spectrum, of ``1 / f**colour``.
    colour: float = 2.0
    #: Share in [0, 1] of the elites that are candidates again, in the next round and, shifted by
    #: what was executed, in the next plan.
    keep: float = 0.3
    #: As in `CEM`.
    initial_deviation: float = 0.5
    smoothing: float = 0.1
    #: See `rate`.
    objective: Objective = "sum"
    execute: int | None = 1
    #: What plans say of how sure they are, see `with_confidences`; it changes none of them.
    confidence: Confidence | None = field(default=None, repr=False)
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
        distribution = plan_distribution(world_model.actions, Spread.of(self), count, begun)
        chosen = BestPlans(count, self.horizon, size)
        first: FloatArray = np.empty((count, 0))
        for iteration in range(self.iterations):
            candidates = [carried]
            if iteration == self.iterations - 1:
                candidates.append(distribution.mode[:, None])
            # Of a round, kept ones included.
            samples = max(int(self.samples * self.decay**-iteration), 2 * self.elites)
            samples -= sum(part.shape[1] for part in candidates)
            drawn = distribution.draw(rngs, samples)
            plans = np.concatenate([*candidates, drawn], axis=1)
            costs, lengths = rate_plans(self, world_model, latents, plans, remaining)
            ranking = chosen.offer(plans, costs, lengths)
            first = costs if iteration == 0 else first
            carried = take(plans, ranking[:, :kept_count])
            elites = take(plans, ranking[:, : self.elites])
            distribution.fit(elites)
        tails = world_model.actions.sample(rngs, kept_shape[1:3])
        after = [shift(carried[:, k], chosen.lengths, tails[:, k]) for k in range(kept_count)]
        parts = [distribution.shifted(chosen.lengths), *after]
        memory_after = np.concatenate([part.reshape(count, -1) for part in parts], axis=1)
        plan = Plans(chosen.actions, chosen.lengths, memory=memory_after)
        asked = world_model, latents, remaining
        return with_confidences(self, *asked, plan, costs=first, elites=elites)


# Settings that a report always names.
_USUAL = (
    *("iterations", "samples", "horizon", "temperature", "deviation", "correlation", "smoothing"),
    *("objective", "execute"),
)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MPPI(Search):
    """Model predictive path integral control (Williams et al., ICRA 2017, equation 22).

    Plans are drawn around the last mean, shifted by the executed steps, and their mean by
    ``exp(-cost / temperature)`` is executed. Over a finite set the weights are of actions,
    step by step, and the most likely ones are executed.
    """

    #: Rounds, and plans in each of them.
    iterations: int = 2
    samples: int = 50
    horizon: int = 15
    #: Above 0, in standard deviations of the candidates' costs: no task has to be known to choose
    #: it. Small ones follow the best plan, large ones the mean of all.
    temperature: float = 0.3
    #: Of a box's noise, in halves of the box's width.
    deviation: float = 0.5
    #: Of the noise of neighbouring steps, in (-1, 1).
    correlation: float = 0.0
    #: As in `CEM`.
    smoothing: float = 0.0
    #: See `rate`. Without ``execute``, the chosen plan is imagined too, and cut at its best step.
    objective: Objective = "sum"
    execute: int | None = 1
    #: So many of the best plans are weighed; by default all.
    elites: int | None = None
    #: Whether the temperature is in the costs' own unit instead.
    raw_temperature: bool = False
    #: The deviation is fitted to the weighed plans, too, between this and ``deviation``; by
    #: default it stays what it was.
    minimum_deviation: float | None = None
    #: So many of the candidates are what the model's own policy would do, drawn anew for each
    #: plan, where it has one; see `contracts.world_model.OwnPolicy`. Without noise that is one.
    policy_plans: int = 0
    #: Whether one of the weighed plans, drawn by its weight, is executed in place of their mean.
    draws_elite: bool = False
    name: ClassVar[str] = "mppi"
    is_warm_started: ClassVar[bool] = True

    def __repr__(self) -> str:
        return written(self, _USUAL)

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Rngs,
        remaining: IntArray,
        memory: FloatArray | None = None,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        spread = Spread.of(self, initial_deviation=self.deviation)
        distribution = plan_distribution(world_model.actions, spread, len(latents), memory)
        begun = self._begun(world_model, latents, rngs)
        for _ in range(self.iterations):
            plans = distribution.draw(rngs, self.samples)
            plans[:, : begun.shape[1]] = begun
            costs, _ = rate_plans(self, world_model, latents, plans, remaining)
            if self.elites is not None:
                best = np.argsort(costs, axis=1, kind="stable")[:, : self.elites]
                plans, costs = take(plans, best), np.take_along_axis(costs, best, axis=1)
            weights = path_weights(costs, self.temperature, raw=self.raw_temperature)
            distribution.weigh(plans, weights)
        chosen = _drawn(plans, weights, rngs) if self.draws_elite else distribution.mode
        if self.execute is None:
            scores = score_plans(world_model, latents, chosen[:, None])
            lengths = rate(scores, remaining)[1][:, 0]
        else:
            lengths = np.minimum(remaining, self.execute)
        return Plans(chosen, lengths, memory=distribution.shifted(lengths))

    def _begun(self, world_model: PlanningModel, latents: FloatArray, rngs: Rngs) -> FloatArray:
        """Return what the model's policy would do [N, P, H, A]; no plan of a world without one."""
        episodes, size = len(latents), world_model.actions.size
        # Drawn in any world: the arms of an episode go on with the same noise.
        noise = draw_noise(rngs, (self.policy_plans, self.horizon, size))
        if not self.policy_plans or not has(world_model, Actor):
            return noise[:, :0]
        count = self.policy_plans if world_model.has_noisy_policy else 1
        rows = np.repeat(latents, count, axis=0)
        noise = noise[:, :count].reshape(len(rows), self.horizon, size)
        plans = world_model.policy_plans(rows, noise)
        return plans.reshape(episodes, count, self.horizon, size)


# Of the official code (github.com/nicklashansen/tdmpc2, config.yaml at e9f5932). It multiplies
# values by its temperature of 0.5, where costs are divided here; its actions are in [-1, 1].
_OFFICIAL = MPPI(
    iterations=6,
    samples=512,
    elites=64,
    policy_plans=24,
    horizon=3,
    temperature=2.0,
    raw_temperature=True,
    deviation=2.0,
    minimum_deviation=0.05,
    objective="terminal",
    draws_elite=True,
)


def tdmpc2(**changes: Any) -> MPPI:
    """Return the planner that TD-MPC2 plans with (Hansen et al., ICLR 2024), fields changed.

    For 20 actions or more the official code takes 8 iterations.

    >>> tdmpc2(horizon=5).elites
    64
    """
    return replace(_OFFICIAL, **changes)


def _drawn(plans: FloatArray, weights: FloatArray, rngs: Rngs) -> FloatArray:
    """Draw one of the plans [N, K, H, A] of each episode by its weight [N, K]: [N, H, A]."""
    unit = np.array([rng.random() for rng in rngs])
    upper = np.cumsum(weights, axis=1)[:, :-1]
    return np.asarray(plans[np.arange(len(plans)), (unit[:, None] >= upper).sum(axis=1)])


def path_weights(costs: FloatArray, temperature: float, *, raw: bool = False) -> FloatArray:
    """Return the weight of each candidate [N, K], of sum 1, from its cost [N, K].

    A plan of infinite cost has none, unless all of them have. The temperature is in standard
    deviations of the costs, or in their own unit where it is ``raw``.
    """
    is_known = np.isfinite(costs)
    finite = np.where(is_known, costs, 0.0)
    count = np.maximum(1, is_known.sum(axis=1, keepdims=True))
    mean = finite.sum(axis=1, keepdims=True) / count
    squares = np.where(is_known, (finite - mean) ** 2, 0.0).sum(axis=1, keepdims=True)
    deviation = np.sqrt(squares / count)
    least = np.where(is_known, costs, np.inf).min(axis=1, keepdims=True)
    above = np.where(is_known, finite - np.where(np.isfinite(least), least, 0.0), 0.0)
    # Equal costs have equal weights, whatever the temperature.
    unit = 1.0 if raw else deviation
    exponent = above / np.where(deviation > 0, temperature * unit, 1.0)
    weights = np.where(is_known | ~is_known.any(axis=1, keepdims=True), np.exp(-exponent), 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))

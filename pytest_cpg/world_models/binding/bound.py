"""Bound models: a world model's functions in its own latents, and as the episode loop calls it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pytest_cpg.contracts import ActionSpace, FloatArray, IntArray, Planner
from pytest_cpg.world_models.binding.acting import Acting
from pytest_cpg.world_models.binding.conventions import ArrayFunction
from pytest_cpg.world_models.binding.gradients import PlanGradient
from pytest_cpg.world_models.binding.rating import Rating, behind, by_rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LatentModel:
    """The functions of a model in its own latents, in tiles; states are the simulator's.

    Attributes
    ----------
    encode : callable
        Maps states [B, S] to latents [B, Z].
    update : callable or None
        Maps latents [B, Z], the actions [B, A] executed there and the states [B, S] they led to,
        to latents [B, Z].
    rollout : callable
        Maps latents [B, Z], actions [B, H, A] and, for a stochastic model, noise to [B, H, Z].
    observe : callable or None
        Maps the planner's latents [..., Z] to observations [..., O].
    acting : Acting or None
        What it would do itself.
    journey : callable or None
        Does what `rollout` and the rating do, at once: maps the planner's latents [B, Z], actions
        and noise to the planner's latents [B, H, Z].
    whole : callable or None
        Does what `rollout` and the rating of a plan's end do, at once; see `BoundModel.costs`.
    rows : int
        So many are imagined and rated before the next ones, while they are in the cache; 0 for all.
    """

    encode: ArrayFunction
    update: ArrayFunction | None
    rollout: ArrayFunction
    rating: Rating
    observe: ArrayFunction | None
    journey: ArrayFunction | None = None
    whole: ArrayFunction | None = None
    rows: int = 0
    acting: Acting | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundModel:
    """A world model, learned or oracle, bound to a task.

    Every row's result is the same bits in any batch, order or position.

    Attributes
    ----------
    encode : callable
        Maps simulator states [B, S] to latents [B, Z].
    imagine : callable
        What `rollout` calls, with noise where the model draws it.
    score : callable
        Rates latents [B, H, Z] by distance to the goal [B, H], float64; lower is better.
    costs : callable or None
        Maps latents [N, Z], plans [N, K, H, A], lengths [N] and noise to the scores [N, K] of the
        last of so many steps, without rating more than they need, or to the model's own costs. None
        for a world that rates any step by itself.
    has_own_cost : bool
        Whether these are the model's own, of whole plans.
    rates_steps : bool
        Whether `score` can be asked; else there is a cost of its own.
    update : callable or None
        Carries latents across a real step: maps latents [B, Z], the actions [B, A] that were
        executed and the simulator states [B, S] they led to, to latents [B, Z]. None for a model
        without memory.
    observe : callable or None
        Maps latents [..., Z] to observations [..., O].
    swapped : tuple of str
        What differs from the oracle arm: ``"dynamics"``, then ``"decoder"``, ``"score"`` or
        ``"reward"`` and ``"value"``, then ``"planner"``.
    seconds_per_row : float or None
        Measured cost of one row and step of a model that takes one row at a time, else None.
    ignores_action : bool
        Different actions gave identical predictions wherever it was asked, although the task does
        react to them; set by whoever asked.
    noise_size : int
        Normal numbers that a model draws in each imagined step; 0 for a deterministic one.
    planner : Planner or None
        The model's own, which plans in place of the gate's.
    witness : BoundModel or None
        The true dynamics, as this model sees and rates them: latents are simulator states with the
        model's own behind them. None for the truth itself, and where it rates plans alone. That of
        a witness with memory is the same without, which encodes every observation anew.
    notes : tuple of str
        What a reader of its verdict should know, a clause each.
    may_diverge : bool
        Its states may be NaN without anything being wrong with a model, as the true dynamics' are.
    policy_plans : callable or None
        Maps latents [B, Z] and standard normal noise [B, H, A] to what the model would do itself
        [B, H, A].
    has_noisy_policy : bool
        Whether the noise changes that.
    gradient : PlanGradient or None
        How its plans are differentiated, where that can be asked for.
    """

    actions: ActionSpace
    encode: ArrayFunction = field(repr=False)
    imagine: ArrayFunction = field(repr=False)
    score: ArrayFunction = field(repr=False)
    costs: ArrayFunction | None = field(default=None, repr=False)
    has_own_cost: bool = False
    rates_steps: bool = True
    update: ArrayFunction | None = field(default=None, repr=False)
    observe: ArrayFunction | None = field(default=None, repr=False)
    swapped: tuple[str, ...] = ()
    seconds_per_row: float | None = None
    ignores_action: bool = False
    noise_size: int = 0
    may_diverge: bool = False
    notes: tuple[str, ...] = ()
    planner: Planner | None = None
    witness: BoundModel | None = field(default=None, repr=False)
    policy_plans: ArrayFunction | None = field(default=None, repr=False)
    has_noisy_policy: bool = False
    gradient: PlanGradient | None = field(default=None, repr=False)

    @property
    def rates(self) -> bool:
        """Whether it brings anything that rates, or that what is rated is read with."""
        return not {"score", "decoder", "reward", "value"}.isdisjoint(self.swapped)

    @property
    def rescored(self) -> BoundModel | None:
        """The true dynamics rated by this model, where that differs from the oracle."""
        return self.witness if self.rates else None

    @property
    def rates_plans_alone(self) -> bool:
        """Whether it has a rating of its own that true states cannot be given."""
        return self.rates and self.witness is None

    def described(self, latents: FloatArray) -> FloatArray:
        """Return what latents [..., Z] say of the world, without the rewards of a plan so far."""
        return latents[..., : latents.shape[-1] - behind(self.swapped)]

    @property
    def plan_gradient(self) -> ArrayFunction | None:
        """What differentiates plans, see `PlanGradient.function`; None where nothing does."""
        return self.gradient.function if self.gradient else None

    def rollout(
        self, latents: FloatArray, actions: FloatArray, noise: FloatArray | None = None
    ) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z].

        A stochastic model also reads standard normal ``noise`` [B, H, noise_size], by default 0.
        """
        return self.imagine(latents, actions, *self._noise(actions, noise))

    def plan_costs(
        self,
        latents: FloatArray,
        plans: FloatArray,
        lengths: IntArray,
        noise: FloatArray | None = None,
    ) -> FloatArray:
        """Return costs [N, K] of plans [N, K, H, A]; see `PlanCosts.plan_costs`.

        A stochastic model also reads noise [N, K, H, noise_size], by default 0.
        """
        drawn = self._noise(plans, noise)
        if self.costs is not None:
            return self.costs(latents, plans, lengths, *drawn)

        def last(
            latents: FloatArray, plans: FloatArray, lengths: IntArray, *noise: FloatArray
        ) -> FloatArray:
            ends = self.imagine(latents, plans, *noise)[np.arange(len(lengths)), lengths - 1]
            return self.score(ends[:, None])

        return by_rows(last)(latents, plans, lengths, *drawn)

    def _noise(self, actions: FloatArray, noise: FloatArray | None) -> list[FloatArray]:
        """Return what goes with actions [..., A]."""
        if not self.noise_size:
            return []
        return [np.zeros((*actions.shape[:-1], self.noise_size)) if noise is None else noise]

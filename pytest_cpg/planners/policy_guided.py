"""Policy-guided planning: a policy rolled through the world, and the best of what is around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    ComponentError,
    FiniteActions,
    FloatArray,
    IntArray,
    PlanningModel,
    Plans,
)
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import Observer
from pytest_cpg.planners.acting import answered, check_repeats
from pytest_cpg.planners.distributions import draw_noise
from pytest_cpg.planners.policies import FunctionPolicy
from pytest_cpg.planners.search import Choice, Objective, Rngs, Search, cheapest, check_settings

_POLICY = "the policy of PolicyGuided"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGuided(Search):
    """The actions of a policy in the imagined world, improved by noise around them.

    A plan is what the policy does where the model says it would get to; every step of it is
    imagined from where the episode is. With one candidate, that plan itself is executed.

    Attributes
    ----------
    policy : callable
        Maps observations [1, O] to actions [1, A], numpy arrays both, the same each time it is
        asked. Of a finite set, the action nearest to its answer is taken.
    candidates : int
        Plans that are rated, the policy's own among them.
    noise : float
        Of a box: deviation around the policy's actions in halves of the box's width. Of a finite
        set: share of the actions that are drawn anew.
    correlation : float
        Of a box's noise in neighbouring steps, in (-1, 1).
    objective, execute
        See `rate`.
    """

    policy: Callable[[FloatArray], Any]
    candidates: int = 20
    horizon: int = 15
    noise: float = 0.3
    correlation: float = 0.0
    objective: Objective = "sum"
    execute: int | None = 1
    name: ClassVar[str] = "policy-guided"

    def __post_init__(self) -> None:
        check_settings(self)
        if not callable(self.policy):
            raise ValueError(
                f"policy must be a function from observations to actions, got {self.policy!r}"
            )

    @property
    def rollout_steps(self) -> int:
        """Model steps that one plan imagines."""
        return self.horizon * (self.horizon - 1) // 2 + self.candidates * self.horizon

    def plan(
        self, world_model: PlanningModel, latents: FloatArray, rngs: Rngs, remaining: IntArray
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        followed = self._followed(world_model, latents)[:, None]
        near = self._varied(world_model.actions, followed, rngs)
        plans = np.concatenate([followed, near], axis=1)
        return cheapest(plans, *Choice.of(self).rate_plans(world_model, latents, plans, remaining))

    def _followed(self, world_model: PlanningModel, latents: FloatArray) -> FloatArray:
        """Return the plans [N, H, A] of the policy in the imagined world."""
        observe = world_model.observe if has(world_model, Observer) else None
        if observe is None:
            raise ComponentError(
                f'planner "{self.name}" shows its policy observations, and this world model has '
                f"only latents. Give the model decode(latents [..., Z]) -> observations [..., O]."
            )
        actions = world_model.actions
        plans = np.empty((len(latents), self.horizon, actions.size))
        first = observe(latents[:1, None])[:, 0]
        if np.isfinite(first).all():
            plain = FunctionPolicy(self.policy)
            acted = answered(plain, _POLICY, first, actions.size)
            check_repeats(plain, _POLICY, first, acted, cure="Let it return its mean")
        for step in range(self.horizon):
            reached = latents[:, None]
            if step:
                # From the start each time: see `Task.rollout` on what can be gone on from.
                reached = world_model.rollout(latents, plans[:, :step])[:, -1:]
            plans[:, step] = self._acted(actions, observe(reached)[:, 0])
        return plans

    def _acted(self, actions: ActionSpace, observations: FloatArray) -> FloatArray:
        """Return what the policy does on observations [N, O], made possible: [N, A]."""
        plain = FunctionPolicy(self.policy)
        rows = [
            # The true dynamics diverged: the plan rates as infinity, whatever it goes on with.
            actions.idle
            if not np.isfinite(observation).all()
            else answered(plain, _POLICY, observation[None], actions.size)[0]
            for observation in observations
        ]
        return actions.nearest(np.stack(rows))

    def _varied(self, actions: ActionSpace, own: FloatArray, rngs: Rngs) -> FloatArray:
        """Return plans [N, K - 1, H, A] near those of the policy [N, 1, H, A]."""
        count = self.candidates - 1
        if isinstance(actions, FiniteActions):
            unit = np.stack([rng.random((count, self.horizon, 1)) for rng in rngs])
            return np.where(unit < self.noise, actions.sample(rngs, (count, self.horizon)), own)
        shape = (count, self.horizon, actions.size)
        drawn = draw_noise(rngs, shape, correlation=self.correlation)
        half = (actions.high - actions.low) / 2
        return np.clip(own + self.noise * half * drawn, actions.low, actions.high)

"""Searches that rate each plan once: random ones, a beam, one step, a policy's; and chance.

A plan is always imagined from where the episode is, never from an imagined latent: only then is the
oracle exact (see `Task.rollout`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from pytest_cpg.planners.confidence import with_confidences
from pytest_cpg.planners.distributions import draw_noise
from pytest_cpg.planners.policies import FunctionPolicy, answered, check_repeats
from pytest_cpg.planners.search import (
    Confidence,
    Objective,
    Rngs,
    Search,
    Ties,
    cheapest,
    check_settings,
    choice_of,
    rate,
    rate_plans,
    score_plans,
    take,
)

# Of random plans, the best tenth is what a search with rounds would go on from.
_ELITES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomShooting(Search):
    """Uniform random plans, the best one executed up to its earliest best step.

    Defaults are of the published acrobot-swingup experiment (50 candidates of 15 steps).
    """

    #: Plans imagined per decision, ``K``.
    candidates: int = 50
    horizon: int = 15
    #: See `cut_at_best`.
    ties: Ties = "earliest"
    #: What plans say of how sure they are, see `with_confidences`; it changes none of them.
    confidence: Confidence | None = field(default=None, repr=False)
    name: ClassVar[str] = "random-shooting"

    def plan(
        self, world_model: PlanningModel, latents: FloatArray, rngs: Rngs, remaining: IntArray
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        plans = world_model.actions.sample(rngs, (self.candidates, self.horizon))
        costs, lengths = rate_plans(self, world_model, latents, plans, remaining)
        chosen = cheapest(plans, costs, lengths)
        if self.confidence is None:
            return chosen
        best = np.argsort(costs, axis=1, kind="stable")[:, : max(2, self.candidates // _ELITES)]
        elites = take(plans, best)
        asked = world_model, latents, remaining
        return with_confidences(self, *asked, chosen, costs=costs, elites=elites)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BeamSearch(Search):
    """Plans grown step by step, the best of them kept; all there are with ``M**(H - 1)`` of them.

    A decision imagines up to ``width * M * H * (H + 1) / 2`` steps.
    """

    #: Plans that are kept at each step: of equal plans the one that ends better, then the first.
    width: int = 8
    horizon: int = 10
    #: See `rate`; the objective also chooses among unfinished plans.
    objective: Objective = "best"
    execute: int | None = None
    ties: Ties = "earliest"
    name: ClassVar[str] = "beam"

    def plan(
        self, world_model: PlanningModel, latents: FloatArray, rngs: Rngs, remaining: IntArray
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        del rngs
        values = _values(world_model.actions)
        episodes = len(latents)
        beam = np.empty((episodes, 1, 0, values.shape[1]))
        for step in range(1, self.horizon + 1):
            stems = np.repeat(beam, len(values), axis=1)
            leaves = np.broadcast_to(
                np.tile(values, (beam.shape[1], 1))[:, None], (*stems.shape[:2], 1, values.shape[1])
            )
            beam = np.concatenate([stems, leaves], axis=2)
            if step == self.horizon or beam.shape[1] <= self.width:
                continue
            scores = score_plans(world_model, latents, beam)
            costs, _ = rate(scores, remaining, **choice_of(self))
            cap = np.minimum(remaining, step) - 1
            last = np.take_along_axis(scores, cap[:, None, None], axis=2)[..., 0]
            best = np.lexsort((last, costs), axis=1)[:, : self.width]
            # In the order in which all plans would be: of equal ones, a search takes the first.
            beam = np.take_along_axis(beam, np.sort(best, axis=1)[..., None, None], axis=1)
        scores = score_plans(world_model, latents, beam)
        return cheapest(beam, *rate(scores, remaining, **choice_of(self)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Greedy(Search):
    """The action that looks best one step ahead."""

    #: Random actions that are tried of a box, beside its middle; a finite set is tried whole.
    candidates: int = 50
    #: Always 1.
    horizon: int = 1
    name: ClassVar[str] = "greedy"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.horizon != 1:
            raise ValueError(
                f"a greedy planner looks 1 step ahead, got horizon={self.horizon!r}. To look "
                f'farther, write planner="beam".'
            )

    def plan(
        self, world_model: PlanningModel, latents: FloatArray, rngs: Rngs, remaining: IntArray
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        del remaining
        actions, episodes = world_model.actions, len(latents)
        if isinstance(actions, FiniteActions):
            plans = np.broadcast_to(
                actions.values[:, None], (episodes, len(actions.values), 1, actions.size)
            )
        else:
            middle = np.broadcast_to(
                (actions.low + actions.high) / 2, (episodes, 1, 1, actions.size)
            )
            drawn = actions.sample(rngs, (self.candidates, 1))
            plans = np.concatenate([middle, drawn], axis=1)
        scores = score_plans(world_model, latents, plans)[..., 0]
        return cheapest(plans, scores, np.ones(scores.shape, dtype=np.intp))


def _values(actions: ActionSpace) -> FloatArray:
    """Return the actions of a finite set, or raise ComponentError."""
    if isinstance(actions, FiniteActions):
        return actions.values
    raise ComponentError(
        'planner "beam" searches a finite set of actions, and those of this task lie between '
        f'bounds: {actions.low} to {actions.high}. Write planner="icem" or "mppi", or give the '
        f"task a FiniteActions."
    )


_POLICY = "the policy of PolicyGuided"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyGuided(Search):
    """The actions of a policy in the imagined world, improved by noise around them.

    A plan is what the policy does where the model says it would get to; every step of it is
    imagined from where the episode is. With one candidate, that plan itself is executed.
    """

    #: Maps observations [1, O] to actions [1, A], numpy arrays both, the same each time it is
    #: asked. Of a finite set, the action nearest to its answer is taken.
    policy: Callable[[FloatArray], Any]
    #: Plans that are rated, the policy's own among them.
    candidates: int = 20
    horizon: int = 15
    #: Of a box: deviation around the policy's actions in halves of the box's width. Of a finite
    #: set: share of the actions that are drawn anew.
    noise: float = 0.3
    #: Of a box's noise in neighbouring steps, in (-1, 1).
    correlation: float = 0.0
    #: See `rate`.
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
        return cheapest(plans, *rate_plans(self, world_model, latents, plans, remaining))

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

    def _varied(self, actions: ActionSpace, followed: FloatArray, rngs: Rngs) -> FloatArray:
        """Return plans [N, K - 1, H, A] near those of the policy [N, 1, H, A]."""
        count = self.candidates - 1
        if isinstance(actions, FiniteActions):
            unit = np.stack([rng.random((count, self.horizon, 1)) for rng in rngs])
            return np.where(
                unit < self.noise, actions.sample(rngs, (count, self.horizon)), followed
            )
        shape = (count, self.horizon, actions.size)
        drawn = draw_noise(rngs, shape, correlation=self.correlation)
        half = (actions.high - actions.low) / 2
        return np.clip(followed + self.noise * half * drawn, actions.low, actions.high)

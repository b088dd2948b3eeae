"""Gradient planning: plans improved along the gradient of what they cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import (
    BoxActions,
    ComponentError,
    FloatArray,
    IntArray,
    PlanningModel,
    Plans,
)
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import Differentiable
from pytest_cpg.contracts.world_model import Noise
from pytest_cpg.planners.distributions import draw_noise, shift
from pytest_cpg.planners.search import (
    BestPlans,
    Gradients,
    Objective,
    Rngs,
    Search,
    choice_of,
    rate,
    score_plans,
    step_weights,
)

# Of Adam (Kingma and Ba 2015): decay of the mean of gradients and of their squares.
_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientMPC(Search):
    """Adam (Kingma and Ba 2015) on the actions of a few plans, the best plan seen is executed.

    A torch model is differentiated by torch, through its dynamics; the true dynamics and whatever
    else has no gradient, by central differences, which imagine ``2 * H * A`` plans for each. A gate
    whose arms differ in that says so.
    """

    #: Steps of Adam, and plans that take them.
    iterations: int = 10
    candidates: int = 2
    horizon: int = 15
    #: Above 0, in halves of the box's width, as are the next two.
    learning_rate: float = 0.2
    #: Of the noise between the candidates. The first candidate is the last plan, shifted by the
    #: executed steps, or the middle of the box.
    deviation: float = 0.5
    #: Above 0: how far an action is moved to see what that changes.
    difference: float = 1e-3
    #: Of the noise of neighbouring steps, in (-1, 1).
    correlation: float = 0.7
    #: The latter in every arm, so that only the dynamics differ.
    gradients: Gradients = "auto"
    #: See `rate`.
    objective: Objective = "sum"
    execute: int | None = 1
    name: ClassVar[str] = "gradient"
    is_warm_started: ClassVar[bool] = True

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Rngs,
        remaining: IntArray,
        memory: FloatArray | None = None,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        box = _box_of(world_model)
        middle, half = (box.low + box.high) / 2, (box.high - box.low) / 2
        shape = (self.candidates, self.horizon, box.size)
        noise = draw_noise(rngs, shape, correlation=self.correlation)
        noise[:, 0] = 0.0
        begun = np.zeros((len(latents), *shape[1:])) if memory is None else memory
        # In the box's own units its bounds are -1 and 1.
        units = np.clip(begun[:, None] + self.deviation * noise, -1, 1)
        mean = square = np.zeros(units.shape)
        chosen = BestPlans(len(latents), *shape[1:])
        for iteration in range(self.iterations + 1):
            plans = np.clip(middle + half * units, box.low, box.high)
            scores = score_plans(world_model, latents, plans)
            costs, lengths = rate(scores, remaining, **choice_of(self))
            chosen.offer(plans, costs, lengths)
            if iteration == self.iterations:
                break
            weights = step_weights(scores, remaining, objective=self.objective)
            slopes = half * self._slopes(world_model, latents, plans, weights)
            mean = _DECAY * mean + (1 - _DECAY) * slopes
            square = _SQUARE_DECAY * square + (1 - _SQUARE_DECAY) * slopes**2
            deviation = np.sqrt(square / (1 - _SQUARE_DECAY ** (iteration + 1)))
            step = self.learning_rate * (mean / (1 - _DECAY ** (iteration + 1)))
            units = np.clip(units - step / (deviation + _EPSILON), -1, 1)
        shifted = shift((chosen.actions - middle) / half, chosen.lengths, np.zeros(box.size))
        return Plans(chosen.actions, chosen.lengths, memory=shifted)

    def _slopes(
        self,
        world: PlanningModel,
        latents: FloatArray,
        plans: FloatArray,
        weights: FloatArray,
    ) -> FloatArray:
        """Differentiate the scores of plans [N, K, H, A] from latents [N, Z], weighted."""
        exact = world.plan_gradient if has(world, Differentiable) else None
        if exact is None or self.gradients == "finite-differences":
            return finite_differences(world, latents, plans, weights, step=self.difference)
        rows = np.repeat(latents, plans.shape[1], axis=0)
        flat = exact(rows, plans.reshape(-1, *plans.shape[2:]), weights.reshape(len(rows), -1))
        return np.asarray(flat.reshape(plans.shape))


def finite_differences(
    world_model: PlanningModel,
    latents: FloatArray,
    plans: FloatArray,
    weights: FloatArray,
    *,
    step: float,
) -> FloatArray:
    """Differentiate the scores of plans [N, K, H, A] by each action, weighted by [N, K, H].

    Each action is moved by ``step`` halves of the box's width to both sides, as far as the box
    goes. What has diverged has no slope.
    """
    box, (episodes, count, horizon, size) = _box_of(world_model), plans.shape
    moves = np.eye(horizon * size).reshape(-1, horizon, size) * step * (box.high - box.low) / 2
    sides = []
    for side in (1, -1):
        moved = np.clip(plans[:, :, None] + side * moves, box.low, box.high)
        scores = score_plans(world_model, latents, moved.reshape(episodes, -1, horizon, size))
        sides.append((moved, scores.reshape(episodes, count, -1, horizon)))
    (above, high), (below, low) = sides
    is_known = np.isfinite(high) & np.isfinite(low)
    rise = np.where(is_known, high, 0.0) - np.where(is_known, low, 0.0)
    # Only the action that was moved differs.
    width = (above - below).sum(axis=(-2, -1))
    rises = (rise * weights[:, :, None]).sum(axis=-1)
    return np.asarray((rises / width).reshape(plans.shape))


def _box_of(world_model: PlanningModel) -> BoxActions:
    """Return the box of a world whose plans have gradients, or raise ComponentError."""
    if not isinstance(world_model.actions, BoxActions):
        raise ComponentError(
            'planner "gradient" moves actions a little at a time, and those of this task are a '
            'finite set. Write planner="icem" or "beam", or give the task a BoxActions.'
        )
    if has(world_model, Noise) and world_model.noise_size:
        raise ComponentError(
            'planner "gradient" compares a plan with others close to it, and this model imagines '
            'each with other noise. Write planner="icem" or "mppi".'
        )
    return world_model.actions

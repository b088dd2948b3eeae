"""Objective: what a plan is chosen for, and how much of it is executed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, get_args

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Planner, PlanningModel
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.planner import PlanCosts
from pytest_cpg.planners.candidates import cut_at_best, score_plans
from pytest_cpg.planners.settings import Objective, Ties

# Of "peak-and-tail": the weight of the mean of the plan's last quarter. A plan that swings up and
# falls again is worth less than one that stays up.
_TAIL_WEIGHT = 0.3
_TAIL_SHARE = 4


def objective_of(planner: Planner) -> Objective:
    """Return what a planner chooses plans for, as far as we know."""
    objective: Any = getattr(planner, "objective", "best")
    return objective if objective in get_args(Objective) else "best"


def rate(
    scores: FloatArray,
    remaining: IntArray,
    *,
    objective: Objective = "best",
    execute: int | None = None,
    ties: Ties = "earliest",
) -> tuple[FloatArray, IntArray]:
    """Return the cost of each candidate [N, K] and how many steps of it to execute [N, K].

    Parameters
    ----------
    scores : array [N, K, H]
        Lower is better, and so are costs. Steps past an episode's budget do not count.
    remaining : array [N], int
    objective : "best", "sum", "terminal" or "peak-and-tail"
        The score of the best step (the published rule), the sum of all scores, the last score, or
        the best score and 0.3 of the mean of the last quarter.
        Where rewards rate, a step's score is minus its reward, and their sum is "sum". Where a
        value stands behind them, it is minus the return of a plan that ends there: "terminal" is
        that of the whole plan.
    execute : int, optional
        Steps to execute; by default up to the best step, as published.
    ties : "earliest" or "published"
        See `cut_at_best`.
    """
    best, lengths = cut_at_best(scores, remaining, ties=ties)
    if execute is not None:
        lengths = np.broadcast_to(np.minimum(remaining, execute)[:, None], best.shape)
    if objective == "best":
        return best, lengths
    weights = step_weights(scores, remaining, objective=objective)
    # A diverged plan rates as infinity, which no weight of zero takes away.
    return (weights * np.where(weights > 0, scores, 0.0)).sum(axis=-1), lengths


def step_weights(
    scores: FloatArray, remaining: IntArray, *, objective: Objective = "best"
) -> FloatArray:
    """Return the weight of each step's score in the cost [N, K, H]; see `rate`."""
    horizon = scores.shape[-1]
    cap = np.minimum(remaining, horizon)[:, None, None]
    step = np.broadcast_to(np.arange(horizon), scores.shape)
    if objective == "sum":
        return np.asarray(step < cap, dtype=np.float64)
    if objective == "terminal":
        return np.asarray(step == cap - 1, dtype=np.float64)
    _, lengths = cut_at_best(scores, remaining)
    weights: FloatArray = np.asarray(step == lengths[..., None] - 1, dtype=np.float64)
    if objective == "peak-and-tail":
        tail = np.maximum(1, cap // _TAIL_SHARE)
        weights += np.where((step < cap) & (step >= cap - tail), _TAIL_WEIGHT / tail, 0.0)
    return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How a planner chooses among its candidates; see `rate`."""

    objective: Objective = "best"
    execute: int | None = None
    ties: Ties = "earliest"

    @classmethod
    def of(cls, planner: Any) -> Choice:
        """Return a planner's choice: its own fields of these names, of the others the defaults."""
        names = (field.name for field in fields(cls))
        return cls(**{name: getattr(planner, name) for name in names if hasattr(planner, name)})

    def rate(self, scores: FloatArray, remaining: IntArray) -> tuple[FloatArray, IntArray]:
        """Return costs and lengths of candidates; see the function `rate`."""
        return rate(
            scores, remaining, objective=self.objective, execute=self.execute, ties=self.ties
        )

    def rate_plans(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        plans: FloatArray,
        remaining: IntArray,
    ) -> tuple[FloatArray, IntArray]:
        """Imagine candidates [N, K, H, A] from latents [N, Z]; return what `rate` says of them.

        Where nothing but the end of a plan decides, nothing else is rated.
        """
        if self.objective != "terminal" or self.execute is None or not has(world_model, PlanCosts):
            return self.rate(score_plans(world_model, latents, plans), remaining)
        costs = world_model.plan_costs(latents, plans, np.minimum(remaining, plans.shape[2]))
        lengths = np.minimum(remaining, self.execute)
        return costs, np.broadcast_to(lengths[:, None], costs.shape)

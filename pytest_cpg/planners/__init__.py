"""Planners: searches for actions through a world, and the chance policy that all must beat."""

from collections.abc import Mapping
from types import MappingProxyType

from pytest_cpg.contracts import PlannerFactory
from pytest_cpg.planners.gradient import GradientMPC
from pytest_cpg.planners.sampling import CEM, ICEM, MPPI, tdmpc2
from pytest_cpg.planners.search import (
    cut_at_best,
    rate,
    rollout_steps_per_plan,
    score_plans,
    widened,
)
from pytest_cpg.planners.shooting import BeamSearch, Chance, Greedy, PolicyGuided, RandomShooting

__all__ = [
    "CEM",
    "ICEM",
    "MPPI",
    "PLANNERS",
    "BeamSearch",
    "Chance",
    "GradientMPC",
    "Greedy",
    "PolicyGuided",
    "RandomShooting",
    "cut_at_best",
    "rate",
    "rollout_steps_per_plan",
    "score_plans",
    "tdmpc2",
    "widened",
]

PLANNERS: Mapping[str, PlannerFactory] = MappingProxyType(
    {
        **{
            planner.name: planner
            for planner in (RandomShooting, CEM, ICEM, MPPI, BeamSearch, Greedy, GradientMPC)
        },
        "tdmpc2": tdmpc2,
    }
)

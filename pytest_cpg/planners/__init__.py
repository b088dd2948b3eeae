"""Planners: random shooting and CEM, and the chance policy that both must beat."""

from collections.abc import Mapping
from types import MappingProxyType

from pytest_cpg.contracts import PlannerFactory
from pytest_cpg.planners.candidates import cut_at_best, score_plans
from pytest_cpg.planners.cem import CEM
from pytest_cpg.planners.chance import Chance
from pytest_cpg.planners.cost import rollout_steps_per_plan
from pytest_cpg.planners.random_shooting import RandomShooting

__all__ = [
    "CEM",
    "PLANNERS",
    "Chance",
    "RandomShooting",
    "cut_at_best",
    "rollout_steps_per_plan",
    "score_plans",
]

PLANNERS: Mapping[str, PlannerFactory] = MappingProxyType(
    {planner.name: planner for planner in (RandomShooting, CEM)}
)

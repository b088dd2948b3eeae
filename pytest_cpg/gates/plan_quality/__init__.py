"""Plan quality: where a plan stands among its neighbours, in a model and in truth.

The score needs no planner: `score` rates a plan of discrete actions in any environment that can be
reset, stepped and cloned. The planning gap asks `measure.exploitation_of` for a row; other kinds do
not look in here.
"""

from __future__ import annotations

from pytest_cpg.gates.plan_quality.agents import Edits, Environment, ShortOfErrorWarning, score
from pytest_cpg.gates.plan_quality.formulas import PlanScore, Search, cfsim

__all__ = ["Edits", "Environment", "PlanScore", "Search", "ShortOfErrorWarning", "cfsim", "score"]

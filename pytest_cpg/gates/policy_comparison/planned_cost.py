"""Planned cost: what policies that plan will cost, said before it is paid."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pytest_cpg.contracts import ActionSpace, FloatArray
from pytest_cpg.contracts.policy import Policy
from pytest_cpg.gates.notation import duration
from pytest_cpg.planners.cost import rollout_steps_per_plan
from pytest_cpg.planners.policies import PlannerPolicy


def planned_cost(
    policies: Sequence[Policy], rows: int, actions: ActionSpace, observations: FloatArray
) -> str:
    """Return a sentence on what the planners among policies cost; empty where there are none.

    ``rows`` actions are asked of all policies together, of each as many; a plan of each is timed on
    the observations [K, O].
    """
    each, steps, seconds, count = rows // len(policies), 0, 0.0, 0
    for policy in policies:
        if not isinstance(policy, PlannerPolicy):
            continue
        count += 1
        steps += rollout_steps_per_plan(policy.planner, actions, budget=policy.planner.horizon)
        begun = time.perf_counter()
        policy.act(observations)
        seconds += each * (time.perf_counter() - begun) / len(observations)
    if not count:
        return ""
    return (
        f"{count} of {len(policies)} policies plan: about {count * each:,} plans of "
        f"{steps // count:,} imagined steps each, roughly {duration(seconds)} here."
    )

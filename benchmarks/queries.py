"""What it costs to ask and to answer queries about policies."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.row import Row, cpu_seconds
from pytest_cpg.gates.policy_comparison.generate import generate_queries
from pytest_cpg.planners.policies import TanhNetwork
from pytest_cpg.tasks import TASKS

QUERIES = 10_000


def cartpole() -> Row:
    """Time queries of horizon 50 between network policies."""
    task = TASKS["cartpole-swingup"](actions="box")
    rng = np.random.default_rng(0)
    policies = [TanhNetwork.drawn(5, task.actions, rng=rng, gain=3.0) for _ in range(4)]
    made: list[int] = []

    def run() -> None:
        queries = generate_queries(
            task, policies, gap=0.0, seed=0, candidates=QUERIES, horizons=(50,)
        )
        made.append(len(queries))

    begun = time.perf_counter()
    cpu = cpu_seconds(run)
    wall = time.perf_counter() - begun
    return Row(
        what=f"{made[0]} queries of horizon 50, cartpole, wall",
        ours=f"{wall:.1f} s",
        other=f"{cpu:.1f} s of CPU",
        result=f"{made[0] / wall:.0f} / s",
        bar="<= 60 s",
    )

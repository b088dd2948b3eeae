"""What it costs an ensemble to answer the published queries, in a process of its own.

Of a body, whose queries do not come with the package:
python -m benchmarks.answers FOLDER/hopper.npz
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

from benchmarks.row import Row

MEMBERS = 100
MAZE = "examples/experiments/opcc/data/maze-umaze.npz"


def published() -> Row:
    """Time the gate on 1 500 queries of up to 50 steps, with 100 members of three wide layers."""
    wall, cpu, peak = _timed(workers="1")
    return Row(
        what=f"1500 queries answered by {MEMBERS} members, wall",
        ours=f"{wall:.0f} s",
        other=f"{cpu:.0f} s of CPU",
        result=f"{peak:.2f} GB",
        bar="<= 90 s, <= 2 GB",
    )


def spread() -> Row:
    """Time the same in two worker processes, their start included."""
    (alone, _, _), (wall, _, _) = (_timed(workers=workers) for workers in "12")
    return Row(
        what=f"1500 queries answered by {MEMBERS} members, 2 workers, wall",
        ours=f"{wall:.0f} s",
        other=f"{alone:.0f} s in one process",
        result=f"{alone / wall:.1f}x",
        bar="> 1x",
    )


def _timed(*, workers: str, members: str = str(MEMBERS)) -> list[float]:
    """Return seconds, processor seconds and the largest memory in GB of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.answers", MAZE, members, workers]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[float] = json.loads(run.stdout)
    return found


def main(name: str = MAZE, members: str = str(MEMBERS), workers: str = "1") -> None:
    """Print seconds, processor seconds and the largest memory in GB."""
    import numpy as np

    from pytest_cpg.episodes.arms import Execution
    from pytest_cpg.gates.kind import Run
    from pytest_cpg.gates.policy_comparison.measure import Spec, measure_comparison
    from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
    from pytest_cpg.gates.policy_comparison.result import Criteria
    from pytest_cpg.machine.pool import WorkerPool
    from pytest_cpg.world_models import Transitions, train_ensemble

    queries = PolicyQueries.load(name)
    if queries.actions_a is None:
        raise ValueError(f"{name} gives policies, and no actions to train on")
    # What the weights are does not change what it costs to ask them.
    steps = Transitions(
        observations=queries.observations_a,
        actions=queries.actions_a,
        next_observations=queries.observations_b,
        rewards=np.ones(len(queries)),
    )
    model = train_ensemble(steps, seed=0, members=int(members), updates=1)
    criteria = Criteria(
        confidence="pci",
        min_auroc=0.6,
        max_risk=0.05,
        min_coverage=0.5,
        max_loss=None,
        resamples=1000,
        level=0.95,
        family_size=1,
        seed=0,
    )
    spec = Spec(name=name, queries=queries, criteria=criteria)
    wall, cpu = time.perf_counter(), time.process_time()
    executor = WorkerPool(int(workers)) if workers != "1" else None
    run = Run(
        given={"training_data": None},
        execution=Execution(executor=executor),
        task=lambda choice: choice.build(),
        progress=lambda *_: None,
    )
    measure_comparison(spec, model, run)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, peak]))
    if executor is not None:
        executor.shutdown(wait=False)


if __name__ == "__main__":
    main(*sys.argv[1:])

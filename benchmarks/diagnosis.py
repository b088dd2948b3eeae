"""What a diagnosis costs beside the gate that it explains, in processor time."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.row import Row, cpu_seconds
from pytest_cpg.contracts import Planner
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.card import cause_of
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics, collect_transitions, train_mlp

TRANSITIONS = 2000


def cost(name: str, planner: Planner, *, episodes: int, starts: str = "sampled") -> Row:
    """Compare the diagnosis of an MLP trained on little with its gate, and print what it says."""
    task = TASKS[name]()
    transitions = collect_transitions(task, count=TRANSITIONS, seed=0)
    learned, oracle = train_mlp(transitions, seed=0), OracleDynamics(task)
    design = Design(
        task=task,
        planner=planner,
        episodes=episodes,
        seed=0,
        starts="fixed" if starts == "fixed" else "sampled",
    )
    kept: list[Any] = []

    def run() -> None:
        kept.append(measure_gap(design, oracle=oracle, learned=learned))

    def explain() -> None:
        data = transitions.observations
        kept.append(
            diagnose(design, oracle=oracle, learned=learned, result=kept[0], training_data=data)
        )

    gate, diagnosis = cpu_seconds(run), cpu_seconds(explain)
    cause = cause_of(kept[1])
    print(f"{cause.heading}. {cause.text}")
    return Row(
        what=f"diagnosis of {name}, {episodes} episodes, CPU",
        ours=f"{diagnosis:.1f} s",
        other=f"the gate, {gate:.1f} s",
        result=f"{diagnosis / gate:.0%}",
        bar="<= 25 %",
    )


cartpole = partial(cost, "cartpole-swingup", RandomShooting(), episodes=20)
acrobot = partial(cost, "acrobot-swingup", CEM(), episodes=20, starts="fixed")

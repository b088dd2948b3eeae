"""Tasks, planners and starts of the published tables, with the published MLP as learned arm."""

import pytest

from pytest_cpg.planners import CEM, RandomShooting

PLANNERS = {
    "random-shooting": RandomShooting(ties="published"),
    "cem": CEM(ties="published"),
}
# Task, starts, planner and episodes per arm, as published.
CELLS = [
    ("acrobot-swingup", "fixed", "random-shooting", 10),
    ("acrobot-swingup", "fixed", "cem", 150),
    ("cartpole-swingup", "fixed", "random-shooting", 30),
    ("cartpole-swingup", "fixed", "cem", 30),
    ("reacher-easy", "fixed", "random-shooting", 30),
    ("reacher-easy", "fixed", "cem", 30),
    ("acrobot-swingup", "sampled", "random-shooting", 30),
    ("acrobot-swingup", "sampled", "cem", 150),
    ("cartpole-swingup", "sampled", "random-shooting", 30),
    ("cartpole-swingup", "sampled", "cem", 30),
    ("reacher-easy", "sampled", "random-shooting", 30),
    ("reacher-easy", "sampled", "cem", 30),
]


# Published with a network that can be trained again.
WORKED = CELLS[0]


def gate(task, starts, planner, episodes, learned="random-data"):
    marker = pytest.mark.cpg(
        task=task, starts=starts, planner=PLANNERS[planner], episodes=episodes, seed=0
    )
    end = "" if learned == "random-data" else f"-{learned}"
    return pytest.param(learned, marks=marker, id=f"{task}-{starts}-{planner}-{episodes}{end}")


@pytest.mark.parametrize(
    "learned", [gate(*WORKED, "published-network"), *(gate(*cell) for cell in CELLS)]
)
@pytest.mark.cpg(max_verdict="MODEL BOTTLENECK")
def test_planners(cpg, learned):
    """One gate for each published cell."""

"""A DreamerV3 trained briefly: its latents carried on, or anew of each imagined observation."""

import pytest
from test_latent import PLANNERS

# Task, planner and episodes per arm, as published; all starts are sampled.
CELLS = [
    ("reacher-easy", "random-shooting", 30),
    ("cartpole-swingup", "random-shooting", 10),
    ("acrobot-swingup", "random-shooting", 30),
    ("acrobot-swingup", "cem", 10),
]


def gates():
    for task, planner, episodes in CELLS:
        marker = pytest.mark.cpg(task=task, planner=PLANNERS[planner], episodes=episodes)
        for learned in ("one-frame", "latent"):
            yield pytest.param(learned, marks=marker, id=f"{task}-{planner}-{learned}")


@pytest.mark.parametrize("learned", list(gates()))
@pytest.mark.cpg(starts="sampled", seed=0, max_verdict="MODEL BOTTLENECK")
def test_dreamer(cpg, learned):
    """One gate for each published cell, and both ways of imagining."""

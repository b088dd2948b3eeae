"""A TD-MPC2 trained offline as the learned arm, at two capacities, its plans rated in two ways."""

import functools

import pytest
from train_tdmpc2 import GROUP, checkpoint, discount_of, observations

from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.world_models import TDMPC2, Decoded, fit_decoder

PLANNERS = {
    "random-shooting": RandomShooting(ties="published"),
    "cem": CEM(ties="published"),
}
# Task, model size, planner and episodes per arm, as published; on acrobot the size is ours, and the
# episodes are a third.
CELLS = [
    ("cartpole-swingup", 1, "cem", 30),
    ("cartpole-swingup", 5, "cem", 30),
    ("cartpole-swingup", 5, "random-shooting", 30),
    ("acrobot-swingup", 1, "cem", 50),
]


@functools.cache
def trained(task, size):
    path = checkpoint(task.name, size)
    if not path.exists():
        pytest.fail(f"no {path.name}: python train_tdmpc2.py {task.name} --size {size}")
    model = TDMPC2.load(
        path,
        obs_keys=task.observation_keys,
        action_repeat=1,
        simnorm_dim=GROUP,
        discount=discount_of(task),
    )
    return model.for_task(task)


@pytest.fixture
def learned_dynamics(oracle_dynamics, size, rated_by):
    """Rate plans by the model's rewards and values, or by the task what the model decodes."""
    task = oracle_dynamics.task
    model = trained(task, size)
    if rated_by == "rewards":
        return model
    return Decoded(model, fit_decoder(model, observations(task), seed=0))


def gate(task, size, planner, episodes):
    marker = pytest.mark.cpg(task=task, planner=PLANNERS[planner], episodes=episodes)
    return pytest.param(size, marks=marker, id=f"{task}-size-{size}-{planner}-{episodes}")


@pytest.mark.parametrize("rated_by", ["rewards", "decoder"])
@pytest.mark.parametrize("size", [gate(*cell) for cell in CELLS])
@pytest.mark.cpg(starts="fixed", seed=0, max_verdict="MODEL BOTTLENECK")
def test_latent(cpg, size, rated_by):
    """One gate for each published cell and way of rating."""

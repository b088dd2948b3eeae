"""One training recipe per task for a world model, given more and more transitions."""

import functools

import pytest

from pytest_cpg.world_models import collect_transitions, train_mlp

# How random actions are drawn, and how the network is fitted. The reacher's actions are held long
# enough to reach the joint limits; the cartpole's plans reach far, which a smooth network bears.
RECIPES = {
    "reacher-easy": ({"hold": 3}, {"steps": 3_000, "learning_rate": 5e-3}),
    "cartpole-swingup": (
        {},
        {"steps": 1_500, "learning_rate": 2e-3, "batch_size": 512, "activation": "silu"},
    ),
}


@functools.cache
def trained(task, transitions, seed):
    """Return the checkpoint that a recipe makes of so many transitions."""
    collecting, fitting = next(
        recipe for name, recipe in RECIPES.items() if task.name.startswith(name)
    )
    data = collect_transitions(task, count=transitions, seed=seed, **collecting)
    return train_mlp(data, seed=seed, hidden=128, epochs=10_000, schedule="one-cycle", **fitting)


@pytest.fixture
def learned_dynamics(oracle_dynamics, transitions, training_seed):
    return trained(oracle_dynamics.task, transitions, training_seed)

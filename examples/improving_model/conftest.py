"""One training recipe per task for a world model, given more and more transitions."""

import functools

import pytest

from pytest_cpg.world_models import collect_transitions, train_mlp

SMOOTH = {"batch_size": 512, "activation": "silu"}
# How random actions are drawn, and how the network is fitted. The reacher's actions are held long
# enough to reach the joint limits, the acrobot's to swing it up; the plans of acrobot and cartpole
# reach far, which a smooth network bears.
RECIPES = {
    "reacher-easy": ({"policy": "held-3"}, {"hidden": 128, "steps": 8_000, "learning_rate": 5e-3}),
    "cartpole-swingup": ({}, {"hidden": 128, "steps": 1_500, "learning_rate": 2e-3, **SMOOTH}),
    "acrobot-swingup": (
        {"policy": "held-3"},
        {"hidden": 256, "steps": 20_000, "learning_rate": 6e-3, **SMOOTH},
    ),
}


@functools.cache
def trained(task, transitions, seed):
    """Return the checkpoint that a recipe makes of so many transitions."""
    collecting, _ = recipe_of(task)
    data = collect_transitions(task, count=transitions, seed=seed, **collecting)
    return fitted(task, data, seed=seed)


def recipe_of(task):
    return next(recipe for name, recipe in RECIPES.items() if name in task.name)


def fitted(task, data, *, seed):
    """Return the network that a recipe makes of transitions; what ends it are the steps."""
    _, fitting = recipe_of(task)
    return train_mlp(data, seed=seed, epochs=10**6, schedule="one-cycle", **fitting)


@pytest.fixture
def learned_dynamics(oracle_dynamics, transitions, training_seed):
    return trained(oracle_dynamics.task, transitions, training_seed)

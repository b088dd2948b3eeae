"""A small model repository: one MLP per task, trained here on random-policy transitions."""

import functools

import pytest

from pytest_cpg.world_models import collect_transitions, train_mlp

# What the random policy collects, and how the MLP is fitted to it. The published model predicts the
# next observation from raw ones. The reacher's predicts normalised changes, from actions that are
# held long enough to reach the joint limits, with a learning rate that is let down.
RECIPES = {
    "acrobot-swingup": ({"count": 2_000}, {"variant": "plain"}),
    "cartpole-swingup": ({"count": 2_000}, {"variant": "plain"}),
    "reacher-easy": (
        {"count": 20_000, "hold": 3},
        {"hidden": 128, "steps": 3_000, "learning_rate": 5e-3, "schedule": "one-cycle"},
    ),
}


@functools.cache
def trained(task):
    collecting, fitting = RECIPES[task.name]
    return train_mlp(collect_transitions(task, seed=0, **collecting), seed=0, **fitting)


@pytest.fixture
def learned_dynamics(oracle_dynamics):
    """The model that a gate judges; a repository would load its checkpoint here."""
    return trained(oracle_dynamics.task)

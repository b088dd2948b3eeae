"""One training recipe for a world model, given more and more transitions of random actions."""

import functools

import pytest

from pytest_cpg.world_models import collect_transitions, train_mlp


@functools.cache
def trained(task, transitions, seed):
    """Return the checkpoint of the recipe: actions are held, the learning rate is let down."""
    data = collect_transitions(task, count=transitions, seed=seed, hold=3)
    return train_mlp(
        data,
        seed=seed,
        hidden=128,
        steps=3_000,
        epochs=3_000,
        learning_rate=5e-3,
        schedule="one-cycle",
    )


@pytest.fixture
def learned_dynamics(oracle_dynamics, transitions, training_seed):
    return trained(oracle_dynamics.task, transitions, training_seed)

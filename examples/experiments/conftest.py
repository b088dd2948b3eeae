"""The published world model: an MLP on transitions of random actions, nothing normalised."""

import functools

import pytest

from pytest_cpg.world_models import collect_transitions, train_mlp


@functools.cache
def trained(task, transitions, seed):
    data = collect_transitions(task, count=transitions, seed=seed)
    return train_mlp(data, seed=seed, variant="plain")


@pytest.fixture
def transitions():
    return 2_000


@pytest.fixture
def training_seed():
    return 0


@pytest.fixture
def learned_dynamics(oracle_dynamics, transitions, training_seed, record_property):
    model = trained(oracle_dynamics.task, transitions, training_seed)
    record_property("validation_error", model.validation_error)
    return model

"""A small model repository: one checkpoint per task, made by train.py."""

import pytest
from dynamics import load
from train import MODELS, transitions


@pytest.fixture
def learned_dynamics(oracle_dynamics):
    """The model that a gate judges: its task's checkpoint."""
    return load(MODELS / f"{oracle_dynamics.task.name}.safetensors")


@pytest.fixture
def training_data(oracle_dynamics):
    """What that model has seen: a gate that fails says whether it was too little."""
    return transitions(oracle_dynamics.task)

"""Two checkpoints of each task, made by train.py."""

import pytest
from train import MODELS, task_name

from pytest_cpg.world_models import MLP


@pytest.fixture
def learned_dynamics(oracle_dynamics, data):
    return MLP.load(MODELS / f"{task_name(oracle_dynamics.task)}-{data}.pt")

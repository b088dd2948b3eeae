"""The gate that closed_loop.py asks: a network of the transitions in the file CLOSED_LOOP_DATA."""

import os

import pytest
from conftest import fitted

from pytest_cpg.gates.presets import preset_planner
from pytest_cpg.tasks.control.task import dmc
from pytest_cpg.world_models import Transitions

# As the preset has it.
TASK = dmc("cartpole-swingup", budget=300, actions="box")
PLANNER = preset_planner("cartpole-swingup")


@pytest.fixture
def training_data():
    path = os.environ.get("CLOSED_LOOP_DATA")
    if not path:
        pytest.fail("python closed_loop.py runs this; or set CLOSED_LOOP_DATA to transitions, .npz")
    return Transitions.load(path)


@pytest.fixture
def learned_dynamics(training_data):
    return fitted(TASK, training_data, seed=0)


@pytest.mark.cpg(task=TASK, planner=PLANNER, episodes=20, max_verdict="MODEL AS GOOD AS ORACLE")
def test_bought(cpg):
    pass

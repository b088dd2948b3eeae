"""What the gates of this folder judge: a model of the room, and true steps to check it by."""

import pytest
from recorded_room import TRAIN, LinearEnsemble


@pytest.fixture
def training_data():
    return TRAIN.transitions


@pytest.fixture
def learned_dynamics(training_data):
    return LinearEnsemble(training_data)

"""A small model repository: one that sees the reacher in pixels, and its early self."""

import pytest
from networks import load
from train import MODELS


@pytest.fixture
def learned_dynamics(checkpoint):
    """The model that a gate judges."""
    return load(MODELS / f"{checkpoint}.safetensors")

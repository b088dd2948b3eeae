"""A small model repository: modules that are trained for a minute, and a sixth of that."""

import pytest
from train import Recipe, load, train


@pytest.fixture
def learned_dynamics(epochs, rates):
    """The model that a gate judges; once trained, it is read from its file."""
    recipe = Recipe("blocks:3", "modular", epochs=epochs)
    (path,) = train(recipe).values()
    return load(path, recipe.arguments, rates)

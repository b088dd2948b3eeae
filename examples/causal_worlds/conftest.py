"""A small model repository: a graph network of four epochs, and one of a quarter of that.

Of three seeds each fell on its side of every limit; modules of six epochs did not.
"""

import pytest
from train import Recipe, load, train


@pytest.fixture
def learned_dynamics(epochs, rates):
    """The model that a gate judges; once trained, it is read from its file."""
    recipe = Recipe("blocks:3", "gnn", epochs=epochs)
    (path,) = train(recipe).values()
    return load(path, recipe.arguments, rates)

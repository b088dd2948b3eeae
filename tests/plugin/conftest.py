"""A model repository in miniature, for running the plugin on: a cart on a line, in numpy."""

import sys

import pytest

CONFTEST = '''
import numpy as np
import pytest

from pytest_cpg.contracts import FiniteActions


class Track:
    """A cart that must come near 0; with far > 0 it starts away from there."""

    name = "track"
    observation_size = 1
    control_period = 0.1
    versions = {"track": "1.0"}
    actions = FiniteActions(np.array([[-1.0], [-0.25], [0.25], [1.0]]))

    def __init__(self, budget=None):
        self.budget = 30 if budget is None else budget

    def reset(self, seeds):
        return np.array([[np.random.default_rng(s).uniform(3.0, 6.0)] for s in seeds])

    def step(self, states, actions):
        return states + actions

    def rollout(self, states, actions):
        return states[:, None] + np.cumsum(actions, axis=1)

    def observe(self, states):
        return states

    def score(self, observations):
        return np.abs(observations[..., 0])

    def reward(self, states, actions):
        return (np.abs(states[..., 0]) < 0.3).astype(float)

    def success(self, states, actions):
        return self.reward(states, actions) > 0.5


class Unreachable(Track):
    """The same cart, whose goal nothing reaches."""

    name = "unreachable"

    def reward(self, states, actions):
        return np.zeros(states.shape[:-1])


def right(observations, actions):
    return observations + actions


def mirrored(observations, actions):
    return observations - actions


def one_way(observations, actions):
    return observations + np.abs(actions)


def deaf(observations, actions):
    return observations + 1.0


def diverging(observations, actions):
    return np.where(observations < 4.0, np.nan, observations + actions)


def raising(observations, actions):
    if (observations > 12.0).any():
        raise RuntimeError("my own bug")
    return observations + actions


def pytest_cpg_tasks():
    return {"track": Track, "unreachable": Unreachable}


def pytest_cpg_world_models():
    models = (right, mirrored, one_way, deaf, diverging, raising)
    return {model.__name__: lambda task, model=model: model for model in models}
'''


# What the outer run must not tell the inner one.
OUTSIDE = (
    "CI",
    "GITHUB_ACTIONS",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_WORKSPACE",
    "PYTEST_ADDOPTS",
    "PYTEST_XDIST_WORKER",
    "PYTEST_XDIST_WORKER_COUNT",
)


@pytest.fixture
def repository(pytester, monkeypatch):
    """A pytester whose folder holds the miniature; options of the outer run do not reach it."""
    for name in OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    # Other tests have loaded torch in this process, and reports name its kernels where it is.
    monkeypatch.delitem(sys.modules, "torch.backends.cpu", raising=False)
    pytester.makeconftest(CONFTEST)
    pytester.makeini(
        "[pytest]\ncpg_episodes = 20\nfilterwarnings = error\naddopts = -p no:hypothesispytest\n"
    )
    return pytester

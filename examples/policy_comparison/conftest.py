"""An ensemble of linear models, fitted to logged steps of a maze: numpy alone."""

import numpy as np
import pytest

from pytest_cpg.gates.policy_comparison.environments import environment
from pytest_cpg.world_models.transitions import Transitions

MAZE = environment("maze-umaze").maze


class LinearEnsemble:
    """Members that each predict the next observation by a matrix of their own.

    Parameters
    ----------
    steps : Transitions
        Every member is fitted to a resample of them.
    """

    def __init__(self, steps, *, members=10, seed=0):
        rng, self.members = np.random.default_rng(seed), members
        inputs = np.concatenate([steps.observations, steps.actions, np.ones((len(steps), 1))], 1)
        moves = steps.next_observations - steps.observations
        rows = rng.integers(len(steps), size=(members, len(steps)))
        self.weights = np.stack([np.linalg.lstsq(inputs[own], moves[own])[0] for own in rows])

    def step(self, observations, actions):
        ones = np.ones((*observations.shape[:2], 1))
        moves = np.concatenate([observations, actions, ones], axis=2) @ self.weights
        reached = observations + moves
        # What is paid for is known; only the dynamics are learned.
        return reached, MAZE.reward(reached)


def logged(count, *, seed):
    """Return steps of random actions from anywhere in the maze."""
    rng = np.random.default_rng(seed)
    places, speeds = rng.uniform(0, 4, size=(20 * count, 2)), rng.normal(size=(20 * count, 2))
    free = (np.abs(places + 1.2 - MAZE.walls[:, None]).max(axis=2) > 0.6).all(axis=0)
    states = np.concatenate([places, speeds], axis=1)[free][:count]
    actions = rng.uniform(-1, 1, size=(len(states), 2))
    after = MAZE.step(states, actions)
    return Transitions(observations=states, actions=actions, next_observations=after)


@pytest.fixture
def steps():
    return logged(2000, seed=0)


@pytest.fixture
def learned_dynamics(steps):
    return LinearEnsemble(steps)

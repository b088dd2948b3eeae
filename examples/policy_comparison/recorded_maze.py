"""An ensemble of linear models, fitted to recorded episodes of a maze: numpy alone."""

import numpy as np

from pytest_cpg.gates.policy_comparison.environments import environment
from pytest_cpg.gates.policy_comparison.logs import read_episodes

MAZE = environment("maze-umaze").maze
PLACE = np.array([1.0, 1.0])


def paid(states):
    """Return the reward: the nearer to a place of the maze the better."""
    return -np.linalg.norm(states[..., :2] - PLACE, axis=-1)


class LinearEnsemble:
    """Members that each predict the next observation by a matrix of their own.

    Parameters
    ----------
    steps : Transitions
        Every member is fitted to a resample of them.
    reward : callable
        What is paid for is known; only the dynamics are learned.
    """

    def __init__(self, steps, *, members=10, seed=0, reward=paid):
        rng, self.members, self.reward = np.random.default_rng(seed), members, reward
        inputs = np.concatenate([steps.observations, steps.actions, np.ones((len(steps), 1))], 1)
        moves = steps.next_observations - steps.observations
        rows = rng.integers(len(steps), size=(members, len(steps)))
        self.weights = np.stack([np.linalg.lstsq(inputs[own], moves[own])[0] for own in rows])

    def step(self, observations, actions):
        ones = np.ones((*observations.shape[:2], 1))
        moves = np.concatenate([observations, actions, ones], axis=2) @ self.weights
        reached = observations + moves
        return reached, self.reward(reached)


def recorded(count, *, seed, steps=60):
    """Return episodes of a ball that is pushed about in the maze, as a robot would have logged."""
    rng = np.random.default_rng(seed)
    places, speeds = rng.uniform(0, 4, size=(20 * count, 2)), rng.normal(size=(20 * count, 2))
    free = (np.abs(places + 1.2 - MAZE.walls[:, None]).max(axis=2) > 0.6).all(axis=0)
    states = [np.concatenate([places, speeds], axis=1)[free][:count]]
    actions = [rng.uniform(-1, 1, size=(count, 2))]
    for _ in range(steps):
        states.append(MAZE.step(states[-1], actions[-1]))
        # Another push now and then.
        is_new = rng.random((count, 1)) < 0.1
        actions.append(np.where(is_new, rng.uniform(-1, 1, size=(count, 2)), actions[-1]))
    seen, done = np.stack(states, axis=1), np.stack(actions[:-1], axis=1)
    return [
        {
            "observations": observations,
            "actions": taken,
            "rewards": paid(observations[1:]),
            "terminations": np.zeros(steps, dtype=bool),
        }
        for observations, taken in zip(seen, done, strict=True)
    ]


TRAIN, HELD_OUT = read_episodes(recorded(300, seed=0)).split()

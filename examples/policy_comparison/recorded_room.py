"""An ensemble of linear models, fitted to recorded episodes of a ball in a room: numpy alone."""

import numpy as np

from pytest_cpg.gates.policy_comparison.logs import read_episodes

EDGE, PLACE = 4.0, np.array([1.0, 1.0])


def moved(states, pushes):
    """Return where a ball rolls to [B, 4], position and velocity. It stops at walls."""
    speeds = 0.9 * states[:, 2:] + 0.02 * pushes
    reached = states[:, :2] + speeds
    places = np.clip(reached, -EDGE, EDGE)
    return np.concatenate([places, np.where(places == reached, speeds, 0)], axis=1)


def paid(states):
    """Return the reward: the nearer to a place of the room the better."""
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
    """Return episodes of a ball that is pushed about, as a robot would have logged."""
    rng = np.random.default_rng(seed)
    starts = rng.uniform(-EDGE, EDGE, size=(count, 2)), 0.03 * rng.normal(size=(count, 2))
    states = [np.concatenate(starts, axis=1)]
    actions = [rng.uniform(-1, 1, size=(count, 2))]
    for _ in range(steps):
        states.append(moved(states[-1], actions[-1]))
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

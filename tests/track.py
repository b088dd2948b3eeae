"""A cart on a line: the smallest task there is, and what a model repository in miniature holds."""

import numpy as np

from pytest_cpg.contracts import FiniteActions


class Track:
    """A cart that must come near 0, and whose simulator breaks beyond a bound.

    It starts between ``near`` and ``far``.
    """

    name = "track"
    observation_size = 1
    control_period = 0.1
    versions = {"track": "1.0"}  # noqa: RUF012
    actions = FiniteActions(np.array([[-1.0], [-0.25], [0.25], [1.0]]))
    near, far, breaks_at = 3.0, 6.0, np.inf

    def __init__(self, budget=None, **fields):
        self.budget = 30 if budget is None else budget
        vars(self).update(fields)

    def reset(self, seeds):
        return np.array([[np.random.default_rng(s).uniform(self.near, self.far)] for s in seeds])

    def step(self, states, actions):
        after = states + actions
        return np.where(np.abs(after) > self.breaks_at, np.nan, after)

    def rollout(self, states, actions):
        after = np.cumsum(np.concatenate([states[:, None], actions], axis=1), axis=1)[:, 1:]
        is_broken = np.logical_or.accumulate(np.abs(after) > self.breaks_at, axis=1)
        return np.where(is_broken, np.nan, after)

    def observe(self, states):
        return states

    def score(self, observations):
        return np.abs(observations[..., 0])

    def reward(self, states, actions):
        return (np.abs(states[..., 0]) < 0.3).astype(float)

    def success(self, states, actions):
        return self.reward(states, actions) > 0.5

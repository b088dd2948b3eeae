"""A rover that must drive around a wall to its depot, and models of it with a known fault."""

from dataclasses import dataclass, field

import numpy as np

from pytest_cpg.contracts import BoxActions
from pytest_cpg.planners import CEM

DEPOT, PUSH = np.array([2.0, 0.0]), 0.35
# The wall stands at x = 0, from the origin so far up and down.
HALF_WALL = 1.2
PLANNER = CEM(horizon=12, samples=96, elites=12, iterations=5)


def _distances(places, goal):
    return np.linalg.norm(places - goal, axis=-1)


def _after(states, actions, *, push=PUSH, has_wall=True):
    """Return where a push leads; along the wall it slides."""
    reached = states + push * actions
    steps = reached[..., 0] - states[..., 0]
    crosses = (states[..., 0] < 0) != (reached[..., 0] < 0)
    share = np.where(crosses, -states[..., 0] / np.where(steps == 0, 1.0, steps), 0.0)
    height = states[..., 1] + share * (reached[..., 1] - states[..., 1])
    is_stopped = crosses & (np.abs(height) < HALF_WALL) & has_wall
    reached[..., 0] = np.where(is_stopped, states[..., 0], reached[..., 0])
    return reached


@dataclass(frozen=True)
class Rover:
    """Drive to the depot. A state is what is observed: a place, [2]."""

    budget: int = 30
    name: str = "rover"
    observation_size: int = 2
    control_period: float = 0.1
    versions: dict[str, str] = field(default_factory=dict)
    actions = BoxActions(np.array([-1.0, -1.0]), np.array([1.0, 1.0]))

    def reset(self, seeds):
        return np.array(
            [np.random.default_rng(seed).uniform([-2.5, -0.8], [-1.0, 0.8]) for seed in seeds]
        )

    def step(self, states, actions):
        return _after(states, actions)

    def rollout(self, states, actions):
        return rolled(_after, states, actions)

    def observe(self, states):
        return states

    def score(self, observations):
        return _distances(observations, DEPOT)

    def reward(self, states, actions):
        return (self.score(states) < 0.3).astype(float)

    def success(self, states, actions):
        return self.reward(states, actions) > 0.5


def rolled(dynamics, states, actions):
    """Return the states [B, H, 2] that actions [B, H, 2] lead to."""
    after = np.empty(actions.shape)
    for t in range(actions.shape[1]):
        states = after[:, t] = dynamics(states, actions[:, t])
    return after


def perfect(observations, actions):
    return _after(observations, actions)


def shortcut(observations, actions):
    """Return the truth without the wall."""
    return _after(observations, actions, has_wall=False)


def portal(observations, actions):
    """Return the truth but for a corner that seems to lead to the depot."""
    after = _after(observations, actions)
    is_portal = _distances(after, [-2.5, 1.5])[..., None] < 0.6
    return np.where(is_portal, DEPOT, after)


def too_strong(observations, actions):
    return _after(observations, actions, push=3 * PUSH)


def twice_too_strong(observations, actions):
    return _after(observations, actions, push=2 * PUSH)


def slightly_weak(observations, actions):
    return _after(observations, actions, push=0.96 * PUSH)


class Noisy:
    """The truth with drawn noise."""

    noise_size = 2

    def __call__(self, observations, actions, noise):
        return _after(observations, actions) + 0.01 * noise


class Scored:
    """The true dynamics with a score of their own."""

    def __init__(self, score):
        self._score = score

    def __call__(self, observations, actions):
        return _after(observations, actions)

    def rollout(self, latents, actions):
        return rolled(_after, latents, actions)

    def score(self, latents):
        return self._score(latents)


def bonus(places):
    """Rate a corner too well."""
    return _distances(places, DEPOT) - 4 * np.maximum(0, 1 - _distances(places, [-2.5, 1.5]) / 1.2)


def in_front_of_the_wall(places):
    """Rate the places in front of the wall as if the depot were there."""
    return np.minimum(_distances(places, DEPOT), 0.5 * _distances(places, [0.0, 0.0]))


def affine(places):
    return 7 * _distances(places, DEPOT) + 3

"""Formulas: what tasks of the DeepMind Control suite observe and reward, for whole batches.

They equal dm_control's own numbers; module and method are named in each docstring. Column 0 of a
state [S] is the time, then come the joints in the model's order, their velocities, the solver's
warm start, and the episode's context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray

# dm_control.utils.rewards.tolerance: the Gaussian falls to 0.1 one margin away from the bounds.
_GAUSSIAN = -2 * np.log(0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """What one task of the suite observes and wants.

    Attributes
    ----------
    domain, name : str
        The task's name in the suite, in two parts.
    levels : sequence of float
        Controls of each actuator, in the actuator's units; actions are all their combinations.
    threshold : float
        Least reward of a step that succeeds.
    observation_size : int
        Numbers in one observation, ``O``.
    observe, score, reward : callable
        As in `Task`.
    context : callable
        Maps dm_control's physics to the episode's part of the state, [C].
    """

    domain: str
    name: str
    levels: Sequence[float]
    threshold: float
    observation_size: int
    observe: Callable[[FloatArray], FloatArray]
    score: Callable[[FloatArray], FloatArray]
    reward: Callable[[FloatArray, FloatArray], FloatArray]
    context: Callable[[Any], FloatArray] = field(default=lambda _: np.empty(0))


def _gaussian(distance: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * _GAUSSIAN * distance**2))


def _observe_acrobot(states: FloatArray) -> FloatArray:
    """Return suite.acrobot's orientations (sines, then cosines) and velocity."""
    upper = states[..., 1]
    lower = upper + states[..., 2]
    return np.stack(
        [
            np.sin(upper),
            np.sin(lower),
            np.cos(upper),
            np.cos(lower),
            states[..., 3],
            states[..., 4],
        ],
        axis=-1,
    )


def _score_acrobot(observations: FloatArray) -> FloatArray:
    return np.asarray(-(observations[..., 2] + observations[..., 3]))


def _reward_acrobot(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return suite.acrobot Balance.get_reward: how near the tip is to its highest point."""
    del actions
    upper = states[..., 1]
    lower = upper + states[..., 2]
    # Links of 1 m on a shoulder 2 m up; the target's centre is 4 m up and its radius 0.2 m.
    across = np.sin(upper) + np.sin(lower)
    below = 2 - np.cos(upper) - np.cos(lower)
    distance = np.sqrt(across**2 + below**2)
    return _gaussian(np.maximum(distance - 0.2, 0))


def _observe_cartpole(states: FloatArray) -> FloatArray:
    """Return suite.cartpole's bounded position (cart, cosine, sine) and velocity."""
    angle = states[..., 2]
    return np.stack(
        [states[..., 1], np.cos(angle), np.sin(angle), states[..., 3], states[..., 4]], axis=-1
    )


def _score_cartpole(observations: FloatArray) -> FloatArray:
    return np.asarray(-observations[..., 1])


def _reward_cartpole(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return suite.cartpole Balance.get_reward: upright, centred, calm, and with little force."""
    upright = (1 + np.cos(states[..., 2])) / 2
    centred = (1 + _gaussian(states[..., 1] / 2)) / 2
    small_control = (4 + np.maximum(1 - actions[..., 0] ** 2, 0)) / 5
    small_velocity = (1 + _gaussian(states[..., 4] / 5)) / 2
    return np.asarray(upright * small_control * small_velocity * centred)


def _to_target(states: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the way from finger to target along x and y, in metres; two links of 0.12 m."""
    shoulder = states[..., 1]
    both = shoulder + states[..., 2]
    x = states[..., -2] - 0.12 * (np.cos(shoulder) + np.cos(both))
    y = states[..., -1] - 0.12 * (np.sin(shoulder) + np.sin(both))
    return x, y


def _observe_reacher(states: FloatArray) -> FloatArray:
    """Return suite.reacher's position, way to the target, and velocity."""
    x, y = _to_target(states)
    return np.stack([states[..., 1], states[..., 2], x, y, states[..., 3], states[..., 4]], axis=-1)


def _score_reacher(observations: FloatArray) -> FloatArray:
    return np.sqrt(observations[..., 2] ** 2 + observations[..., 3] ** 2)


def _reward_reacher(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return suite.reacher Reacher.get_reward: 1 where finger and target touch."""
    del actions
    x, y = _to_target(states)
    # Radii of the target, 0.05 m, and of the finger, 0.01 m.
    return np.where(np.sqrt(x**2 + y**2) <= 0.05 + 0.01, 1.0, 0.0)


ACROBOT = Formulas(
    domain="acrobot",
    name="swingup",
    levels=(-1, -0.5, 0, 0.5, 1),
    threshold=0.6,
    observation_size=6,
    observe=_observe_acrobot,
    score=_score_acrobot,
    reward=_reward_acrobot,
)
CARTPOLE = Formulas(
    domain="cartpole",
    name="swingup",
    levels=(-1, -0.5, 0, 0.5, 1),
    threshold=0.6,
    observation_size=5,
    observe=_observe_cartpole,
    score=_score_cartpole,
    reward=_reward_cartpole,
)
REACHER = Formulas(
    domain="reacher",
    name="easy",
    levels=(-1, 0, 1),
    threshold=0.5,
    observation_size=6,
    observe=_observe_reacher,
    score=_score_reacher,
    reward=_reward_reacher,
    context=lambda physics: physics.named.model.geom_pos["target", :2],
)

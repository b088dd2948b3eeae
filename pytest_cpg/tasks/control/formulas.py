"""Formulas: what tasks of the DeepMind Control suite observe and reward, for whole batches.

They equal dm_control's own numbers; module and method are named in each docstring. Column 0 of a
state [S] is the time, then come the joints in the model's order, their velocities, the solver's
warm start, and the episode's context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
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
    is_box : bool
        Actions are everything that the actuators can do, unless others are asked for.
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
    is_box: bool = False


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


def _observe_pendulum(states: FloatArray) -> FloatArray:
    """Return suite.pendulum's orientation (cosine, sine) and velocity."""
    angle = states[..., 1]
    return np.stack([np.cos(angle), np.sin(angle), states[..., 2]], axis=-1)


def _score_pendulum(observations: FloatArray) -> FloatArray:
    return np.asarray(-observations[..., 0])


def _reward_pendulum(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return suite.pendulum SwingUp.get_reward: 1 within 8 degrees of upright."""
    del actions
    return np.where(np.cos(states[..., 1]) >= np.cos(np.deg2rad(8)), 1.0, 0.0)


def _observe_ball(states: FloatArray) -> FloatArray:
    """Return suite.ball_in_cup's positions (cup x and z, ball x and z) and velocities."""
    return np.array(states[..., 1:9], dtype=np.float64)


def _ball_to_target(positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the way from the ball to the cup's middle, x and z in metres, of [..., 4 or more]."""
    # The cup hangs 0.6 m up, its middle 0.05 m below, and the ball's origin is 0.2 m up.
    x = positions[..., 0] - positions[..., 2]
    z = (0.6 + positions[..., 1] - 0.05) - (0.2 + positions[..., 3])
    return x, z


def _score_ball(observations: FloatArray) -> FloatArray:
    x, z = _ball_to_target(observations)
    return np.sqrt(x**2 + z**2)


def _reward_ball(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return suite.ball_in_cup BallInCup.get_reward: 1 where the whole ball is in the cup."""
    del actions
    x, z = _ball_to_target(states[..., 1:5])
    # Half of the cup's inside, 0.05 m, and the ball's radius, 0.025 m.
    return np.where((np.abs(x) < 0.05 - 0.025) & (np.abs(z) < 0.05 - 0.025), 1.0, 0.0)


def _observe_cheetah(states: FloatArray) -> FloatArray:
    """Return suite.cheetah's positions, without how far it has run, and velocities."""
    return np.array(states[..., 2:19], dtype=np.float64)


# suite.cheetah's torso, hind thigh, shin and foot, and fore thigh, shin and foot, as MuJoCo
# compiles them: mass in kg, and in the body's own frame, x and z in metres, its centre of mass and
# the joints of the next bodies.
_CHEETAH: Sequence[tuple[float, tuple[float, float], Mapping[int, tuple[float, float]]]] = (
    (6.25020920502092, (0.15238987816307403, 0.025398313027179008), {1: (-0.5, 0), 4: (0.5, 0)}),
    (1.5435146443514645, (0.1, -0.13), {2: (0.16, -0.25)}),
    (1.5874476987447697, (-0.14, -0.07), {3: (-0.28, -0.14)}),
    (1.0953974895397491, (0.03, -0.097), {}),
    (1.4380753138075317, (-0.07, -0.12), {5: (-0.14, -0.24)}),
    (1.200836820083682, (0.065, -0.09), {6: (0.13, -0.18)}),
    (0.8845188284518829, (0.045, -0.07), {}),
)


def _cheetah_levers() -> FloatArray:
    """Return by how much each body's turning moves the centre of mass of the whole, [7, 2]."""
    carried = [mass for mass, _, _ in _CHEETAH]
    levers = np.zeros((len(_CHEETAH), 2))
    for body in reversed(range(len(_CHEETAH))):
        mass, centre, joints = _CHEETAH[body]
        levers[body] = mass * np.array(centre)
        for child, joint in joints.items():
            carried[body] += carried[child]
            levers[body] += carried[child] * np.array(joint)
    return levers / carried[0]


_LEVERS = _cheetah_levers()


def _score_cheetah(observations: FloatArray) -> FloatArray:
    """Return how fast the centre of mass moves backwards, in metres per second."""
    turns, rates = observations[..., 1:8], observations[..., 10:17]
    forward = np.array(observations[..., 8], dtype=np.float64)
    for leg in ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 4), (0, 4, 5), (0, 4, 5, 6)):
        angle, rate = turns[..., 0], rates[..., 0]
        for joint in leg[1:]:
            angle, rate = angle + turns[..., joint], rate + rates[..., joint]
        x, z = _LEVERS[leg[-1]]
        forward = forward + rate * (z * np.cos(angle) - x * np.sin(angle))
    return np.asarray(-forward)


def _reward_cheetah(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return suite.cheetah Cheetah.get_reward: speed over 10 m/s, between 0 and 1."""
    del actions
    return np.clip(-_score_cheetah(_observe_cheetah(states)) / 10, 0, 1)


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
PENDULUM = Formulas(
    domain="pendulum",
    name="swingup",
    levels=(-1, -0.5, 0, 0.5, 1),
    threshold=0.6,
    observation_size=3,
    observe=_observe_pendulum,
    score=_score_pendulum,
    reward=_reward_pendulum,
)
BALL_IN_CUP = Formulas(
    domain="ball_in_cup",
    name="catch",
    levels=(-1, 0, 1),
    threshold=0.6,
    observation_size=8,
    observe=_observe_ball,
    score=_score_ball,
    reward=_reward_ball,
)
CHEETAH = Formulas(
    domain="cheetah",
    name="run",
    levels=(-1, 0, 1),
    threshold=0.6,
    observation_size=17,
    observe=_observe_cheetah,
    score=_score_cheetah,
    reward=_reward_cheetah,
    is_box=True,
)
FORMULAS: Mapping[tuple[str, str], Formulas] = MappingProxyType(
    {
        (one.domain, one.name): one
        for one in (ACROBOT, CARTPOLE, REACHER, PENDULUM, BALL_IN_CUP, CHEETAH)
    }
)

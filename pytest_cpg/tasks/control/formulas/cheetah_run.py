"""Cheetah: two legs and six motors, to run as fast as they can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.control.formulas import Formulas, Preset


def observe(states: FloatArray) -> FloatArray:
    """Return suite.cheetah's positions, without how far it has run, and velocities."""
    return np.array(states[..., 2:19], dtype=np.float64)


# suite.cheetah's torso, hind thigh, shin and foot, and fore thigh, shin and foot, as MuJoCo
# compiles them: mass in kg, and in the body's own frame, x and z in metres, its centre of mass and
# the joints of the next bodies.
_BODIES: Sequence[tuple[float, tuple[float, float], Mapping[int, tuple[float, float]]]] = (
    (6.25020920502092, (0.15238987816307403, 0.025398313027179008), {1: (-0.5, 0), 4: (0.5, 0)}),
    (1.5435146443514645, (0.1, -0.13), {2: (0.16, -0.25)}),
    (1.5874476987447697, (-0.14, -0.07), {3: (-0.28, -0.14)}),
    (1.0953974895397491, (0.03, -0.097), {}),
    (1.4380753138075317, (-0.07, -0.12), {5: (-0.14, -0.24)}),
    (1.200836820083682, (0.065, -0.09), {6: (0.13, -0.18)}),
    (0.8845188284518829, (0.045, -0.07), {}),
)


def _levers_of_bodies() -> FloatArray:
    """Return by how much each body's turning moves the centre of mass of the whole, [7, 2]."""
    carried = [mass for mass, _, _ in _BODIES]
    levers = np.zeros((len(_BODIES), 2))
    for body in reversed(range(len(_BODIES))):
        mass, centre, joints = _BODIES[body]
        levers[body] = mass * np.array(centre)
        for child, joint in joints.items():
            carried[body] += carried[child]
            levers[body] += carried[child] * np.array(joint)
    return levers / carried[0]


_LEVERS = _levers_of_bodies()


def score(observations: FloatArray) -> FloatArray:
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


def reward(states: FloatArray, _: FloatArray) -> FloatArray:
    """Return suite.cheetah Cheetah.get_reward: speed over 10 m/s, between 0 and 1."""
    return np.clip(-score(observe(states)) / 10, 0, 1)


_PARTS = [f"{leg} {part}" for leg in ("hind", "fore") for part in ("thigh", "shin", "foot")]
FORMULAS = Formulas(
    domain="cheetah",
    name="run",
    levels=(-1, 0, 1),
    threshold=0.6,
    observed=(
        *("height of the torso, m", "pitch of the torso, rad"),
        *(f"angle of the {part}, rad" for part in _PARTS),
        *("speed forward, m/s", "speed upward, m/s", "speed of the torso's pitch, rad/s"),
        *(f"speed of the {part}, rad/s" for part in _PARTS),
    ),
    observe=observe,
    score=score,
    reward=reward,
    is_box=True,
)
PRESET = Preset(
    planner="icem",
    settings={"iterations": 2, "samples": 32, "elites": 5, "horizon": 20, "execute": 2},
    options={"budget": 250, "action_repeat": 2},
    solved=99,
)

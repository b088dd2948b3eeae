"""Reacher: a two-link arm in the plane, to touch a target that stays in place."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.control.formulas import Formulas, Preset


def _to_target(states: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the way from finger to target along x and y, in metres; two links of 0.12 m."""
    shoulder = states[..., 1]
    both = shoulder + states[..., 2]
    x = states[..., -2] - 0.12 * (np.cos(shoulder) + np.cos(both))
    y = states[..., -1] - 0.12 * (np.sin(shoulder) + np.sin(both))
    return x, y


def observe(states: FloatArray) -> FloatArray:
    """Return suite.reacher's position, way to the target, and velocity."""
    x, y = _to_target(states)
    return np.stack([states[..., 1], states[..., 2], x, y, states[..., 3], states[..., 4]], axis=-1)


def score(observations: FloatArray) -> FloatArray:
    """Return how far the finger is from the target, in metres."""
    return np.sqrt(observations[..., 2] ** 2 + observations[..., 3] ** 2)


def reward(states: FloatArray, _: FloatArray) -> FloatArray:
    """Return suite.reacher Reacher.get_reward: 1 where finger and target touch."""
    x, y = _to_target(states)
    # Radii of the target, 0.05 m, and of the finger, 0.01 m.
    return np.where(np.sqrt(x**2 + y**2) <= 0.05 + 0.01, 1.0, 0.0)


FORMULAS = Formulas(
    domain="reacher",
    name="easy",
    levels=(-1, 0, 1),
    threshold=0.5,
    observed=(
        "angle of the shoulder, rad",
        "angle of the wrist, rad",
        "way from finger to target, x, m",
        "way from finger to target, y, m",
        "speed of the shoulder, rad/s",
        "speed of the wrist, rad/s",
    ),
    observe=observe,
    score=score,
    reward=reward,
    context=lambda physics: physics.named.model.geom_pos["target", :2],
)
PRESET = Preset(
    planner="random-shooting",
    settings={"candidates": 30, "horizon": 10},
    options={"budget": 200},
    solved=100,
)

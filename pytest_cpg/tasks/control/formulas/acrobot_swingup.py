"""Acrobot swing-up: two links, one motor at the elbow, to be stood upright."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.control.formulas import Formulas, Preset, gaussian


def observe(states: FloatArray) -> FloatArray:
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


def score(observations: FloatArray) -> FloatArray:
    """Return how low both links' ends hang: minus the sum of their cosines."""
    return np.asarray(-(observations[..., 2] + observations[..., 3]))


def reward(states: FloatArray, _: FloatArray) -> FloatArray:
    """Return suite.acrobot Balance.get_reward: how near the tip is to its highest point."""
    upper = states[..., 1]
    lower = upper + states[..., 2]
    # Links of 1 m on a shoulder 2 m up; the target's centre is 4 m up and its radius 0.2 m.
    across = np.sin(upper) + np.sin(lower)
    below = 2 - np.cos(upper) - np.cos(lower)
    distance = np.sqrt(across**2 + below**2)
    return gaussian(np.maximum(distance - 0.2, 0))


FORMULAS = Formulas(
    domain="acrobot",
    name="swingup",
    levels=(-1, -0.5, 0, 0.5, 1),
    threshold=0.6,
    observed=(
        "sine of the upper link's angle to upright",
        "sine of the lower link's",
        "cosine of the upper link's",
        "cosine of the lower link's",
        "speed of the shoulder, rad/s",
        "speed of the elbow, rad/s",
    ),
    observe=observe,
    score=score,
    reward=reward,
)
PRESET = Preset(
    planner="icem",
    settings={
        "iterations": 2,
        "samples": 28,
        "elites": 7,
        "horizon": 40,
        "colour": 1.5,
        "keep": 0.45,
        "initial_deviation": 1.0,
        "smoothing": 0.0,
        "objective": "peak-and-tail",
        "execute": 4,
    },
    options={"budget": 250, "action_repeat": 4, "actions": "box"},
    solved=100,
)

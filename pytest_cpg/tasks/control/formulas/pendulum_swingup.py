"""Pendulum swing-up: a pole whose motor is too weak to lift it at once."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.control.formulas import Formulas, Preset


def observe(states: FloatArray) -> FloatArray:
    """Return suite.pendulum's orientation (cosine, sine) and velocity."""
    angle = states[..., 1]
    return np.stack([np.cos(angle), np.sin(angle), states[..., 2]], axis=-1)


def score(observations: FloatArray) -> FloatArray:
    """Return how low the pole's end hangs: minus the cosine of its angle."""
    return np.asarray(-observations[..., 0])


def reward(states: FloatArray, _: FloatArray) -> FloatArray:
    """Return suite.pendulum SwingUp.get_reward: 1 within 8 degrees of upright."""
    return np.where(np.cos(states[..., 1]) >= np.cos(np.deg2rad(8)), 1.0, 0.0)


FORMULAS = Formulas(
    domain="pendulum",
    name="swingup",
    levels=(-1, -0.5, 0, 0.5, 1),
    threshold=0.6,
    observed=(
        "cosine of the pole's angle to upright",
        "sine of it",
        "speed of the pole, rad/s",
    ),
    observe=observe,
    score=score,
    reward=reward,
)
PRESET = Preset(
    planner="cem",
    settings={
        "iterations": 2,
        "samples": 32,
        "elites": 4,
        "horizon": 20,
        "smoothing": 0.0,
        # Pushes that last, and a sum over the whole plan: the pole has to swing.
        "objective": "sum",
        "execute": 4,
        "correlation": 0.7,
        "minimum_deviation": 0.1,
        "warm_start": True,
    },
    options={"budget": 125, "action_repeat": 4, "actions": "box"},
    solved=100,
)

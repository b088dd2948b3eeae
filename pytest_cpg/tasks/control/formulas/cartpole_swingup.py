"""Cartpole swing-up: a pole on a cart, to be swung up and kept near the middle."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.control.formulas import Formulas, Preset, gaussian


def observe(states: FloatArray) -> FloatArray:
    """Return suite.cartpole's bounded position (cart, cosine, sine) and velocity."""
    angle = states[..., 2]
    return np.stack(
        [states[..., 1], np.cos(angle), np.sin(angle), states[..., 3], states[..., 4]], axis=-1
    )


def score(observations: FloatArray) -> FloatArray:
    """Return how low the pole's end hangs: minus the cosine of its angle."""
    return np.asarray(-observations[..., 1])


def reward(states: FloatArray, actions: FloatArray) -> FloatArray:
    """Return suite.cartpole Balance.get_reward: upright, centred, calm, and with little force."""
    upright = (1 + np.cos(states[..., 2])) / 2
    centred = (1 + gaussian(states[..., 1] / 2)) / 2
    small_control = (4 + np.maximum(1 - actions[..., 0] ** 2, 0)) / 5
    small_velocity = (1 + gaussian(states[..., 4] / 5)) / 2
    return np.asarray(upright * small_control * small_velocity * centred)


FORMULAS = Formulas(
    domain="cartpole",
    name="swingup",
    levels=(-1, -0.5, 0, 0.5, 1),
    threshold=0.6,
    observed=(
        "cart, to the right, m",
        "cosine of the pole's angle to upright",
        "sine of it",
        "speed of the cart, m/s",
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
        "samples": 16,
        "elites": 4,
        "horizon": 30,
        "smoothing": 0.0,
        "objective": "sum",
        "execute": 5,
        "initial_deviation": 0.8,
        "minimum_deviation": 0.1,
        "warm_start": True,
    },
    options={"budget": 300, "actions": "box"},
    solved=100,
)

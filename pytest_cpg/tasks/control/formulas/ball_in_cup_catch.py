"""Ball in cup: a ball on a string, to be swung into the cup it hangs from."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.control.formulas import Formulas, Preset


def observe(states: FloatArray) -> FloatArray:
    """Return suite.ball_in_cup's positions (cup x and z, ball x and z) and velocities."""
    return np.array(states[..., 1:9], dtype=np.float64)


def _ball_to_target(positions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the way from the ball to the cup's middle, x and z in metres, of [..., 4 or more]."""
    # The cup hangs 0.6 m up, its middle 0.05 m below, and the ball's origin is 0.2 m up.
    x = positions[..., 0] - positions[..., 2]
    z = (0.6 + positions[..., 1] - 0.05) - (0.2 + positions[..., 3])
    return x, z


def score(observations: FloatArray) -> FloatArray:
    """Return how far the ball is from the cup's middle, in metres."""
    x, z = _ball_to_target(observations)
    return np.sqrt(x**2 + z**2)


def reward(states: FloatArray, _: FloatArray) -> FloatArray:
    """Return suite.ball_in_cup BallInCup.get_reward: 1 where the whole ball is in the cup."""
    x, z = _ball_to_target(states[..., 1:5])
    # Half of the cup's inside, 0.05 m, and the ball's radius, 0.025 m.
    return np.where((np.abs(x) < 0.05 - 0.025) & (np.abs(z) < 0.05 - 0.025), 1.0, 0.0)


FORMULAS = Formulas(
    domain="ball_in_cup",
    name="catch",
    levels=(-1, 0, 1),
    threshold=0.6,
    observed=(
        *(f"{body}, {axis}, m" for body in ("cup", "ball") for axis in "xz"),
        *(f"speed of the {body}, {axis}, m/s" for body in ("cup", "ball") for axis in "xz"),
    ),
    observe=observe,
    score=score,
    reward=reward,
)
PRESET = Preset(
    planner="cem",
    settings={
        "iterations": 1,
        "samples": 24,
        "elites": 4,
        "horizon": 15,
        "smoothing": 0.0,
        # Pushes that last, and a sum over the whole plan: the ball has to swing.
        "objective": "sum",
        "execute": 5,
        "correlation": 0.7,
        "minimum_deviation": 0.1,
        "warm_start": True,
    },
    options={"budget": 125, "action_repeat": 4, "actions": "box"},
    solved=100,
)

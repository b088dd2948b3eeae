"""Environments: what a function of the user's makes, and what it observes and rewards, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray

# By these an object is known to be an environment.
_MEMBERS = ("observation_space", "action_space", "unwrapped")


def made_by(make: Callable[[], Any]) -> Any:
    """Return the environment that a function makes, or raise ComponentError if it makes none."""
    if _is_environment(make) and not isinstance(make, type):
        raise ComponentError(
            f"gym_task was given {make}, an environment itself, and needs what makes one: every "
            f"process has its own. Pass a function: "
            f"gym_task(lambda: {type(make).__qualname__}(...))."
        )
    if not callable(make):
        raise ComponentError(
            f"gym_task was given {make!r}. Pass an id, gym_task('CartPole-v1'), or a function that "
            f"returns an environment."
        )
    made = make()
    if not _is_environment(made):
        raise ComponentError(
            f"gym_task: {make!r} returned {made!r}, which is no environment of gymnasium's. End it "
            f"in a return of one."
        )
    return made


def _is_environment(value: object) -> bool:
    return all(hasattr(value, name) for name in _MEMBERS)


def flat(observation: Any, size: int, space: Any, title: str) -> FloatArray:
    """Return an observation as one row [O], or raise ComponentError if its space says another."""
    row = np.ravel(observation)
    if row.size != size:
        raise ComponentError(
            f"{title} observes an array of shape {list(np.shape(observation))}, and its "
            f"observation_space is {space}. Let reset and step return what that says, or correct "
            f"observation_space."
        )
    return row


def check_numbers(observations: FloatArray, rewards: FloatArray, title: str) -> None:
    """Raise ComponentError for NaN among observations [T, O] and rewards [T] of first steps."""
    for what, rows in (("reward", rewards), ("observation", observations)):
        if np.isnan(rows).any():
            raise ComponentError(
                f"{title} gives nan as {what} within its first {len(rows)} steps. Let step return "
                f"finite numbers."
            )

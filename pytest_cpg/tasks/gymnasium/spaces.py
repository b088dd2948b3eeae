"""Spaces: what an environment observes and takes, as rows of numbers, checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from pytest_cpg.contracts import ActionSpace, BoxActions, ComponentError, FiniteActions, FloatArray


def action_space(space: Any, title: str) -> ActionSpace:
    """Return the actions of a space, or raise ComponentError if planners cannot draw from it."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return FiniteActions(np.arange(space.start, space.start + space.n)[:, None])
    if isinstance(space, gymnasium.spaces.Box) and np.isfinite([space.low, space.high]).all():
        return BoxActions(np.ravel(space.low), np.ravel(space.high))
    raise ComponentError(
        f"{title} has actions of {space}, and planners draw from a Discrete or a bounded Box. Wrap "
        f"it, for instance in gymnasium.wrappers.RescaleAction, and pass gym_task(lambda: ...) "
        f"from pytest_cpg.tasks.gymnasium."
    )


def flat_size(space: Any, title: str, make: str | Callable[[], Any]) -> int:
    """Return the numbers in one observation, or raise ComponentError if they are no flat box."""
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        return int(space.shape[0])
    given = make if isinstance(make, str) else getattr(make, "__qualname__", "make")
    inner = given if given.isidentifier() else "make"
    made = f"gymnasium.make({make!r}, max_episode_steps=-1)" if given is make else f"{inner}()"
    raise ComponentError(
        f"{title} has observations of {space}, and a flat Box is needed. Pass "
        f"gym_task(lambda: gymnasium.wrappers.FlattenObservation({made})) from "
        f"pytest_cpg.tasks.gymnasium."
    )


def given(action: FloatArray, space: Any) -> Any:
    """Return an action [A] as an environment with this space takes it."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(action[0])
    return action.astype(space.dtype).reshape(space.shape)


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

"""Spaces: actions and observations of an environment, as rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from pytest_cpg.contracts import ActionSpace, BoxActions, ComponentError, FiniteActions, FloatArray

# The most combinations of several choices that are one list of actions.
_MOST_COMBINATIONS = 1024


def action_space(space: Any, title: str) -> ActionSpace:
    """Return the actions of a space, or raise ComponentError if planners cannot draw from it."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return FiniteActions(np.arange(space.start, space.start + space.n)[:, None])
    if isinstance(space, gymnasium.spaces.Box) and np.isfinite([space.low, space.high]).all():
        return BoxActions(np.ravel(space.low), np.ravel(space.high))
    if isinstance(space, gymnasium.spaces.MultiDiscrete | gymnasium.spaces.MultiBinary):
        choices = np.broadcast_to(getattr(space, "nvec", 2), space.shape).ravel()
        if np.prod(choices, dtype=float) <= _MOST_COMBINATIONS:
            first = np.ravel(getattr(space, "start", 0))
            return FiniteActions(np.array([*np.ndindex(*choices)]) + first)
    raise ComponentError(
        f"{title} has actions of {space}, and planners draw from a Discrete, a bounded Box, or a "
        f"MultiDiscrete of at most {_MOST_COMBINATIONS} combinations. Wrap it, for instance in "
        f"gymnasium.wrappers.RescaleAction, and pass gym_task(lambda: ...) from "
        f"pytest_cpg.tasks.gymnasium."
    )


def native_action(action: FloatArray, space: Any) -> Any:
    """Return an action [A] as an environment with this space takes it."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(action[0])
    return action.astype(space.dtype).reshape(space.shape)


def observation_sizes(space: Any, title: str, make: str | Callable[[], Any]) -> dict[str, int]:
    """Return how many numbers each part of an observation has, in order.

    Raises ComponentError unless it is a flat box, or a dict of flat boxes.
    """
    parts = space if isinstance(space, gymnasium.spaces.Dict) else {"observation": space}
    boxes = {name: p for name, p in parts.items() if isinstance(p, gymnasium.spaces.Box)}
    if len(boxes) == len(parts) and all(len(box.shape) == 1 for box in boxes.values()):
        return {name: box.shape[0] for name, box in boxes.items()}
    are_pictures = any(len(box.shape) == 3 and box.dtype == np.uint8 for box in boxes.values())
    instead = (
        " A model that sees pictures is gated on the same environment as it observes numbers, with "
        'observe="pixels" in the marker.'
    )
    maker = make if isinstance(make, str) else getattr(make, "__qualname__", "make")
    inner = maker if maker.isidentifier() else "make"
    made = f"gymnasium.make({make!r}, max_episode_steps=-1)" if maker is make else f"{inner}()"
    raise ComponentError(
        f"{title} has observations of {space}, and a flat Box is needed, or a Dict of them. Pass "
        f"gym_task(lambda: gymnasium.wrappers.FlattenObservation({made})) from "
        f"pytest_cpg.tasks.gymnasium.{instead * are_pictures}"
    )


def flat(observation: Any, sizes: Mapping[str, int], space: Any, title: str) -> FloatArray:
    """Return an observation as one row [O], or raise ComponentError if its space says another."""
    if type(observation) is np.ndarray and sizes == {"observation": observation.size}:
        return observation.ravel().astype(np.float64)
    parts = observation
    if not isinstance(space, gymnasium.spaces.Dict) or not isinstance(observation, Mapping):
        parts = {"observation": observation}
    rows = {name: np.ravel(np.asarray(part)) for name, part in parts.items() if name in sizes}
    for name, size in sizes.items():
        if name not in rows or rows[name].size != size:
            shape = list(np.shape(parts[name])) if name in rows else f"none named {name!r}"
            raise ComponentError(
                f"{title} observes an array of shape {shape}, and its observation_space is "
                f"{space}. Let reset and step return what that says, or correct observation_space."
            )
    return np.concatenate([rows[name] for name in sizes]).astype(np.float64)

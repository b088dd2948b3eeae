"""Scores: how near to its goal a state is, by a word, where the straight distance does not lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray
from pytest_cpg.tasks.gymnasium.paths import path_score

Score = Callable[[FloatArray], FloatArray]

# Of an observation of OGBench's cubes: the effector, the first cube, and numbers a cube.
_EFFECTOR, _CUBES, _CUBE = slice(12, 15), 19, 9


def carry_score(environment: Any, sizes: Mapping[str, int], title: str) -> Score:
    """Return the score of cubes that are to be carried to their goals, as OGBench observes them.

    It is twice the sum of their distances, and the effector's distance to the cube that is farthest
    from its goal. Raises ComponentError for what has no such cubes.
    """
    count = getattr(environment.unwrapped, "_num_cubes", 0)
    size = _CUBES + count * _CUBE
    if not count or dict(sizes) != {"observation": size, "goal": size}:
        raise ComponentError(
            f"{title}: score=carry is for OGBench's cubes with a goal, such as "
            f"gym:ogbench:cube-single-v0. Leave it out, or give a function of observations: "
            f"gym_task(make, score=...) from pytest_cpg.tasks.gymnasium."
        )
    return partial(_carried, size=size)


def _carried(observations: FloatArray, *, size: int) -> FloatArray:
    cubes, goals = (
        np.stack([observations[..., at : at + 3] for at in range(first, last, _CUBE)], axis=-2)
        for first, last in ((_CUBES, size), (size + _CUBES, 2 * size))
    )
    left = np.linalg.norm(cubes - goals, axis=-1)
    farthest = np.take_along_axis(cubes, left.argmax(axis=-1)[..., None, None], axis=-2)
    reach = observations[..., _EFFECTOR] - farthest[..., 0, :]
    return np.asarray(2 * left.sum(axis=-1) + np.linalg.norm(reach, axis=-1))


SCORES: Mapping[str, Callable[[Any, Mapping[str, int], str], Score]] = MappingProxyType(
    {"path": path_score, "carry": carry_score}
)

"""Arrays: the kinds of numbers that everything is batched in, and steps taken one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

T = TypeVar("T", bound=np.generic)


def is_picture(array: object) -> bool:
    """Say whether an array's numbers are pixels of 8 bits, which nothing may widen."""
    return getattr(array, "dtype", None) == np.uint8


def as_numbers(observations: npt.NDArray[Any]) -> FloatArray:
    """Return observations to calculate with: pixels of 8 bits as numbers in [0, 1]."""
    return observations / 255 if is_picture(observations) else observations


def read_only(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return an array that nobody may write to: it is kept, and others get it again."""
    array.flags.writeable = False
    return array


def rolled_out(
    step: Callable[..., FloatArray], states: FloatArray, actions: FloatArray, *noise: FloatArray
) -> FloatArray:
    """Take steps from states [B, S] by actions [B, H, A], with noise for each: states [B, H, S]."""
    after = np.empty((*actions.shape[:2], states.shape[1]))
    for t in range(actions.shape[1]):
        states = step(states, actions[:, t], *(drawn[:, t] for drawn in noise))
        after[:, t] = states
    return after

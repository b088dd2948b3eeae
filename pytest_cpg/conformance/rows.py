"""Rows: the states, plans and worlds that a component is tried with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import ActionSpace, FloatArray, Task

Arrays: TypeAlias = npt.NDArray[Any]

ROWS, HORIZON = 6, 4


class Drift:
    """A world that adds the sum of each action; scores are a fixed function of the latent."""

    def __init__(self, actions: ActionSpace) -> None:
        self.actions = actions

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, 2] and actions [B, H, A] to latents [B, H, 2]."""
        moved = np.cumsum(actions.sum(axis=-1, keepdims=True), axis=1)
        return np.asarray(latents[:, None] + moved)

    def observe(self, latents: FloatArray) -> FloatArray:
        """Return latents [..., 2] as they are: all is seen."""
        return np.array(latents)

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate latents [..., 2]."""
        return np.asarray(np.sin(latents).sum(axis=-1))


def starts_of(task: Task) -> Arrays:
    """Return states [B, S] where episodes start."""
    return task.reset(np.arange(ROWS))


def plans_of(task: Task) -> Arrays:
    """Return plans [B, H, A] drawn from the task's actions."""
    rngs = [np.random.default_rng(row) for row in range(ROWS)]
    return task.actions.sample(rngs, (HORIZON,))


def check_same(what: str, found: Arrays, expected: Arrays, *, cure: str) -> None:
    """Raise AssertionError unless two results [B, ...] have the same bits, naming where not."""
    __tracebackhide__ = True
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        raise AssertionError(
            f"{what} is {found.dtype} {list(found.shape)} and {expected.dtype} "
            f"{list(expected.shape)}. {cure}"
        )
    differ = (_bytes(found) != _bytes(expected)).any(axis=-1)
    if differ.any():
        place = tuple(np.argwhere(differ)[0].tolist())
        row, column = place[0], f", column {', '.join(map(str, place[1:]))}" * (len(place) > 1)
        gap = np.abs(found[differ].astype(float) - expected[differ].astype(float)).max()
        raise AssertionError(
            f"{what}, row {row}{column}: {found[place].item()!r} and "
            f"{expected[place].item()!r}, different bits; {int(differ.sum())} of {differ.size} "
            f"numbers differ, by {gap:.3g} at most. {cure}"
        )


def _bytes(array: Arrays) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(array)[..., None].view(np.uint8)


@contextmanager
def without_writing(*arrays: Arrays) -> Iterator[None]:
    """Keep arrays from being written to while the context lasts."""
    for array in arrays:
        array.flags.writeable = False
    try:
        yield
    finally:
        for array in arrays:
            array.flags.writeable = True

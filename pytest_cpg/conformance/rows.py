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


def score_states(task: Task, states: Arrays) -> Arrays:
    """Rate states [..., S] as the oracle arm does: by observations, if these are enough."""
    own = getattr(task, "score_states", None)
    return np.asarray(own(states) if callable(own) else task.score(task.observe(states)))


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

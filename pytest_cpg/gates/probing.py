"""Probing: what is asked of a model before and after its arm, on a few states near the starts."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray, Task, WorldModelError
from pytest_cpg.starts import Starts
from pytest_cpg.world_models import BoundModel

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

# Streams of the probe that checks a model before it is trusted; episodes use 0 and 1.
_PROBE_STREAM = 2
_PROBES = 8


def probe_of(task: Task, starts: Starts, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return states [P, S] a few random steps from the starts, and an action [P, A] for each."""
    rngs = [
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PROBE_STREAM, row)))
        for row in range(_PROBES)
    ]
    states = starts.states[np.arange(_PROBES) % len(starts.states)]
    actions = task.actions.sample(rngs, (3,))
    for step in range(2):
        states = task.step(states, actions[:, step])
    return states, actions[:, 2]


def imagined(model: BoundModel, probe: tuple[FloatArray, FloatArray]) -> FloatArray:
    """Return what a model imagines one step ahead of the probe."""
    states, actions = probe
    return model.rollout(model.encode(states), actions[:, None])


def check_unchanged(who: str, before: FloatArray, after: FloatArray) -> None:
    """Raise WorldModelError for a model that answers a probe otherwise than before its arm."""
    if not np.array_equal(before, after, equal_nan=True):
        raise WorldModelError(
            f"{who} answers otherwise than before its arm was run, so no verdict on it could be "
            f"repeated. Keep no state between calls."
        )

"""Scores: how observations are rated where a task has only rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError


def check_score(score: Any) -> None:
    """Raise ValueError unless a score is None, or something to call."""
    if score is not None and not callable(score):
        raise ValueError(
            f"score: need a function of observations [..., O], lower is better, such as "
            f"score=lambda observations: abs(observations[..., 0]), got {score!r}"
        )


def rated(task: Any, observations: FloatArray, *, call: str, room: str) -> FloatArray:
    """Rate observations [..., O] by ``score_of``, which a user has given a task: [...].

    Raises WorldModelError when there is none; ``call`` and ``room`` say how one is given.
    """
    if task.score_of is None:
        raise WorldModelError(
            f"{task.name} is rated by its reward, which observations do not tell. Pass the task as "
            f"{call}, score=lambda observations: ...) from pytest_cpg.tasks.{room}, lower is "
            f"better; or give the model rollout(latents [B, Z], actions [B, H, A]) -> [B, H, Z], "
            f"and beside it score(latents [..., Z]) -> [...] or reward(latents, actions) -> [...]."
        )
    return np.asarray(task.score_of(observations), dtype=np.float64)

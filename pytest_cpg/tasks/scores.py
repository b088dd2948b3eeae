"""Scores: how observations are rated where a task has only rewards."""

from __future__ import annotations

from collections.abc import Callable
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


def rated(
    score: Callable[[FloatArray], Any] | None,
    observations: FloatArray,
    *,
    name: str,
    written: str,
) -> FloatArray:
    """Rate observations [..., O] by the score that a user has given a task: [...].

    Raises WorldModelError when there is none.
    """
    if score is None:
        raise WorldModelError(
            f"{name} is rated by its reward, which observations do not tell. Give the model a "
            f"score(latents [..., Z]) -> [...], lower is better, or a reward; or pass the task as "
            f"{written}."
        )
    return np.asarray(score(observations), dtype=np.float64)

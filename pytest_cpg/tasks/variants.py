"""Variants: what tasks of every kind may be asked to do otherwise, checked, named and rated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError


def check_counts(**counts: int) -> None:
    """Raise ValueError for a count below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count!r}")


def titled(name: str, *asked: str) -> str:
    """Return a task's name, with all that is asked of it in place of what an earlier name says."""
    plain = name.partition(" (")[0]
    return f"{plain} ({', '.join(asked)})" if asked else plain


def rated(
    score: Callable[[FloatArray], Any] | None,
    observations: FloatArray,
    *,
    name: str,
    written: str,
) -> FloatArray:
    """Rate observations [..., O] by the score that a user has given a task: [...].

    Parameters
    ----------
    name, written : str
        The task's, and how it is passed with a score.

    Raises
    ------
    WorldModelError
        When there is none.
    """
    if score is None:
        raise WorldModelError(
            f"{name} is rated by its reward, which observations do not tell. Give the model a "
            f"score(latents [..., Z]) -> [...], lower is better, or a reward; or pass the task as "
            f"{written}."
        )
    return np.asarray(score(observations), dtype=np.float64)

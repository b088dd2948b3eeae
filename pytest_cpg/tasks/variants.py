"""Variants: what tasks of every kind may be asked to do otherwise, checked, named and rated."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError


def check_counts(**counts: int) -> None:
    """Raise ValueError for a count below 1."""
    for name, count in counts.items():
        if count < 1:
            raise ValueError(f"{name} must be at least 1, got {count!r}")


def check_threshold(threshold: Any, *, most: float = math.inf) -> None:
    """Raise ValueError unless a threshold is None, or a reward that a step may have."""
    if threshold is None:
        return
    is_number = isinstance(threshold, Real) and not isinstance(threshold, bool)
    if not is_number or math.isnan(threshold):
        raise ValueError(
            f"threshold: need a number, the least reward of a step that succeeds, got {threshold!r}"
        )
    if threshold > most:
        raise ValueError(
            f"threshold={threshold:g} is never reached: the reward of a control step is {most:g} "
            f"at most, also where action_repeat adds them up. Give less, such as threshold=0.6."
        )


def check_least_return(least: Any) -> None:
    """Raise ValueError unless a goal for returns is None, or a number."""
    if least is None:
        return
    if not isinstance(least, Real) or isinstance(least, bool) or not math.isfinite(least):
        raise ValueError(
            f"least_return: need a number, what the rewards of an episode have to add up to, got "
            f"{least!r}"
        )


def check_score(score: Any) -> None:
    """Raise ValueError unless a score is None, or something to call."""
    if score is not None and not callable(score):
        raise ValueError(
            f"score: need a function of observations [..., O], lower is better, such as "
            f"score=lambda observations: abs(observations[..., 0]), got {score!r}"
        )


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

"""Task answers: what a task's methods return, checked on a few starts before any arm."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Task, TaskError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import LeastReturn, score_states

# Of one row, an answer for all rows may look like an answer for each.
_ROWS = 2
_EACH = "one number for each row, [B]"


def starts_from(task: Task, seeds: IntArray) -> FloatArray:
    """Return the states [N, S] that a task is reset to by seeds [N], once its methods are checked.

    Raises TaskError where one breaks its contract: numpy would take one answer for that of every
    episode, or 0 and 1 for the indices of two.
    """
    sampled = task.reset(seeds.copy())
    wanted = "one state for each seed, [N, S]"
    states = _numbers(task, "reset", sampled, (len(seeds), None), wanted)
    rows, size = states[:_ROWS].shape
    again = _numbers(task, "reset", task.reset(seeds[:_ROWS].copy()), (rows, size), wanted)
    # Starts that another session does not have again can be replayed or compared by nobody. What
    # differs by rounding is the same start: batches of another size may be summed otherwise.
    if not np.allclose(again, states[:_ROWS], equal_nan=True):
        raise TaskError(
            f"{task.name}: reset gave other states for the same seeds. Draw each from its own "
            f"np.random.default_rng(seed), and keep nothing between calls."
        )
    idle = np.tile(task.actions.idle, (rows, 1))
    moved = task.step(states[:_ROWS].copy(), idle.copy())
    wanted = f"states of the size of reset's, [B, {size}]"
    after = _numbers(task, "step", moved, (rows, size), wanted)
    ahead = task.rollout(states[:_ROWS].copy(), idle[:, None].copy())
    _numbers(task, "rollout", ahead, (rows, 1, size), "one state for each action, [B, H, S]")
    seen = task.observe(after.copy())
    _numbers(task, "observe", seen, (rows, None), "one observation for each row, [B, O]")
    _numbers(task, "score", score_states(task, after.copy()), (rows,), _EACH)
    _numbers(task, "reward", task.reward(after.copy(), idle.copy()), (rows,), _EACH)
    if not has(task, LeastReturn):
        given = task.success(after.copy(), idle.copy())
        solved = np.asarray(given)
        if solved.shape != (rows,) or solved.dtype != np.bool_:
            raise _error(task, "success", given, "one bool for each row, [B]")
    return states


def _numbers(
    task: Task, method: str, given: Any, shape: tuple[int | None, ...], wanted: str
) -> FloatArray:
    """Return an answer as numbers; raise TaskError unless it has this shape, None for any size."""
    try:
        numbers = np.asarray(given, dtype=np.float64).copy()
    except (TypeError, ValueError):
        raise _error(task, method, given, wanted) from None
    fits = (size in (None, found) for size, found in zip(shape, numbers.shape, strict=False))
    if numbers.ndim != len(shape) or not all(fits):
        raise _error(task, method, given, wanted)
    return numbers


def _error(task: Task, method: str, given: Any, wanted: str) -> TaskError:
    is_array = isinstance(given, np.ndarray) and given.ndim
    what = f"{given.dtype} of shape {list(given.shape)}" if is_array else reprlib.repr(given)
    return TaskError(f"{task.name}: {method} returned {what}. Return {wanted}.")

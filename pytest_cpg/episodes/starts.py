"""Starts: where the episodes of a gate begin, the same in every arm."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray, Task, TaskError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import LeastReturn, RewardThreshold
from pytest_cpg.episodes.task_answers import starts_from
from pytest_cpg.tasks.options import check_least_return

# A task whose starts are solved this often in a row is not one that needs planning.
_MOST_SKIPS = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Starts:
    """Where the episodes of a gate begin.

    Attributes
    ----------
    episodes : array [N], int
    states : array [N, S]
    seeds : array [N], int
        What `Task.reset` was given for each.
    """

    episodes: IntArray
    states: FloatArray
    seeds: IntArray
    skipped: int

    def take(self, rows: IntArray) -> Starts:
        """Return the starts of these rows."""
        return Starts(
            episodes=self.episodes[rows],
            states=self.states[rows],
            seeds=self.seeds[rows],
            skipped=self.skipped,
        )


def sample_starts(task: Task, episodes: int, *, seed: int, fixed: bool = False) -> Starts:
    """Return one start per episode, none of which is solved already.

    A start counts as solved when one idle step from it succeeds: planning had no part in that. Such
    a start is replaced by the next one of the same episode's stream, and counted. Where returns are
    the goal none is. Raises TaskError when an episode finds no unsolved start in 100 tries, the
    goal of returns is no number, or a method of the task breaks its contract.

    Parameters
    ----------
    seed : int
        Together with an episode's index it decides that episode's start.
    fixed : bool
        Start every episode from the task's start number 0 instead.
    """
    try:
        check_least_return(task.least_return if has(task, LeastReturn) else None)
    except ValueError as error:
        raise TaskError(f"{task.name}: {error}") from None
    indices = np.arange(episodes)
    seeds = np.zeros(episodes, dtype=np.int64)
    pending = indices
    states: FloatArray | None = None
    skipped = 0
    for attempt in range(_MOST_SKIPS):
        seeds[pending] = [attempt if fixed else _start_seed(seed, int(e), attempt) for e in pending]
        if states is None:
            states = starts_from(task, seeds)
        else:
            states[pending] = task.reset(seeds[pending])
        pending = pending[_is_solved(task, states[pending])]
        if not pending.size:
            return Starts(episodes=indices, states=states, seeds=seeds, skipped=skipped)
        skipped += 1 if fixed else len(pending)
    fix = "Start it farther from its goal."
    if has(task, RewardThreshold):
        fix = (
            f"Raise threshold={task.threshold:g}, which that step's reward reaches, or write "
            f'metric="return" in its place.'
        )
    raise TaskError(
        f"{task.name}: episode {pending[0]} found {_MOST_SKIPS} starts in a row that one idle step "
        f"solves; the task needs no planning. {fix}"
    )


def _start_seed(seed: int, episode: int, attempt: int) -> int:
    return int(Stream.START.sequence(seed, episode, attempt).generate_state(1)[0])


def _is_solved(task: Task, states: FloatArray) -> BoolArray:
    if has(task, LeastReturn):
        return np.zeros(len(states), dtype=bool)
    idle = np.broadcast_to(task.actions.idle, (len(states), task.actions.size))
    return np.asarray(task.success(np.asarray(task.step(states, idle)), idle))

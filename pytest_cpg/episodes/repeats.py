"""Repeats: executed episodes played again, where a simulator is not our own.

An environment is checked before it is used, and may still draw from somewhere else where only a
planner gets to. Then no episode that got there could be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Task, TaskError
from pytest_cpg.episodes.design import Starts

# Episodes that are played again.
_PLAYED = 2


class Repeats:
    """Digests of what the steps of episodes [N] led to, and what leads there again."""

    def __init__(self, task: Task, starts: Starts) -> None:
        self._task, self._starts = task, starts
        self._digests: list[list[bytes]] = [[] for _ in starts.episodes]

    def note(self, rows: IntArray, states: FloatArray, actions: FloatArray) -> None:
        """Note states [B, S] of these rows [B] after actions [B, A]."""
        for row, digest in zip(rows.tolist(), self._digests_of(states, actions), strict=True):
            self._digests[row].append(digest)

    def check(self, rows: IntArray, actions: Sequence[FloatArray]) -> None:
        """Play the first of these rows [B] again, by the actions [T, A] of all episodes [N].

        Raises TaskError with the first step that leads elsewhere.
        """
        for row in rows[:_PLAYED].tolist():
            start, taken = self._starts.states[row], actions[row]
            states = self._task.rollout(start[None], taken[None])[0]
            again = self._digests_of(states, taken)
            for step, (before, now) in enumerate(zip(self._digests[row], again, strict=True), 1):
                if before != now:
                    raise TaskError(
                        f"{self._task.name}: played again, the same actions from the same start "
                        f"lead elsewhere at step {step} of episode {self._starts.episodes[row]}, "
                        f"so that nothing there can be repeated. Let step draw from self.np_random "
                        f"or the generators of numpy and random alone, and read no clock."
                    )

    def _digests_of(self, states: FloatArray, actions: FloatArray) -> list[bytes]:
        """Return what is seen, earned and solved in states [B, S] after actions [B, A]."""
        task = self._task
        seen, reward = task.observe(states), np.asarray(task.reward(states, actions), dtype=float)
        rows = np.column_stack([seen, reward, task.success(states, actions)])
        return [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]

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
        self._steps: list[list[tuple[bytes, bool]]] = [[] for _ in starts.episodes]

    def note(self, rows: IntArray, states: FloatArray, actions: FloatArray) -> None:
        """Note states [B, S] of these rows [B] after actions [B, A]."""
        for row, step in zip(rows.tolist(), self._led(states, actions), strict=True):
            self._steps[row].append(step)

    def check(self, rows: IntArray, actions: Sequence[FloatArray]) -> None:
        """Play the first of these rows [B] again, by the actions [T, A] of all episodes [N].

        Raises TaskError with the first step that leads elsewhere.
        """
        for row in rows[:_PLAYED].tolist():
            start, taken = self._starts.states[row], actions[row]
            states = self._task.rollout(start[None], taken[None])[0]
            pairs = zip(self._steps[row], self._led(states, taken), strict=True)
            for number, (before, now) in enumerate(pairs, 1):
                if before == now:
                    continue
                where = f"at step {number} of episode {self._starts.episodes[row]}"
                what = f"the same actions from the same start lead elsewhere {where}"
                fix = "Let step draw from self.np_random or numpy's and random's generators alone"
                if before[0] == now[0]:
                    what = f"what was observed is the same, and its success another {where}"
                    fix = "Let success= draw nothing"
                raise TaskError(
                    f"{self._task.name}: played again, {what}, so that nothing there can be "
                    f"repeated. {fix}, and read no clock."
                )

    def _led(self, states: FloatArray, actions: FloatArray) -> list[tuple[bytes, bool]]:
        """Return a digest of what is seen and earned in states [B, S], and whether it succeeds."""
        task = self._task
        seen, reward = task.observe(states), np.asarray(task.reward(states, actions), dtype=float)
        rows, solved = np.column_stack([seen, reward]), np.asarray(task.success(states, actions))
        digests = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows]
        return list(zip(digests, solved.tolist(), strict=True))

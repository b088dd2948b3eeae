"""Repeats: several control steps of a simulator as one step of a task.

What only the control steps in between know goes into two more columns at the end of a state: the
sum of their rewards, and whether any of them succeeded. With one control step there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray

Advance = Callable[[FloatArray, FloatArray], FloatArray]

_COLUMNS = 2


@dataclass(frozen=True, slots=True)
class Repeats:
    """How many control steps a step of a task takes, and what they are worth.

    Letters: ``I`` state of the simulator, ``S`` state of the task.

    Attributes
    ----------
    reward : callable
        Of one control step by actions [..., A] that ended in states [..., I]: [...].
    """

    count: int
    reward: Advance
    threshold: float

    def begin(self, states: FloatArray) -> FloatArray:
        """Return states [N, S] of simulations that start in states [N, I]."""
        if self.count == 1:
            return states
        return np.concatenate([states, np.zeros((len(states), _COLUMNS))], axis=1)

    def inner(self, states: FloatArray) -> FloatArray:
        """Return the simulator's states [..., I] of a task's [..., S]."""
        return states if self.count == 1 else states[..., :-_COLUMNS]

    def step(self, advance: Advance, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states [B, S]."""
        if self.count == 1:
            return advance(states, actions)
        states, passed = self.inner(states), []
        for _ in range(self.count):
            states = advance(states, actions)
            passed.append(states)
        return self._ended(np.stack(passed, axis=1), actions)

    def rollout(self, advance: Advance, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to the states after each action [B, H, S]."""
        if self.count == 1:
            return advance(states, actions)
        passed = advance(self.inner(states), np.repeat(actions, self.count, axis=1))
        return self._ended(
            passed.reshape(*actions.shape[:2], self.count, passed.shape[-1]), actions
        )

    def reward_of(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the rewards [...], summed, of steps that ended in states [..., S]."""
        return self.reward(states, actions) if self.count == 1 else np.array(states[..., -2])

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether any control step [...] of steps that ended in states [..., S] succeeded."""
        if self.count == 1:
            return np.asarray(self.reward(states, actions) >= self.threshold)
        return np.asarray(states[..., -1] == 1)

    def _ended(self, passed: FloatArray, actions: FloatArray) -> FloatArray:
        """Return states [..., S] after control steps that ended in states [..., count, I]."""
        total, succeeded = np.zeros(passed.shape[:-2]), np.zeros(passed.shape[:-2], dtype=bool)
        # One after the other: numpy adds in an order that depends on the shape.
        for inner in np.moveaxis(passed, -2, 0):
            rewards = self.reward(inner, actions)
            total = total + rewards
            succeeded |= rewards >= self.threshold
        # A diverged simulation has no reward, and all of its state is lost.
        lost = np.isnan(passed[..., -1, 0])
        outcome = np.where(lost[..., None], np.nan, np.stack([total, succeeded], axis=-1))
        return np.concatenate([passed[..., -1, :], outcome], axis=-1)

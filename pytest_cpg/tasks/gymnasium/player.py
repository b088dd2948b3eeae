"""Player: one environment that is reset by seeds, and read as rows of numbers.

A row is what is observed, the goal of the episode, and what came of the last step: sum and largest
of its rewards, whether it succeeded, and whether the environment is over. One that has terminated
stays as it is, without reward; its own time limit is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.tasks.gymnasium.environments import made
from pytest_cpg.tasks.gymnasium.spaces import (
    action_space,
    flat,
    native_action,
    observation_sizes,
)

# The numbers of a row after what is observed.
OUTCOME = ("reward", "largest reward", "success", "terminated")
# Keys of info that environments tell their success by.
_SUCCESS = ("is_success", "success")
_LOWEST = np.finfo(np.float64).min

Make: TypeAlias = str | Callable[[], Any]


class Player:
    """An environment of this process, and how it is reset and read."""

    def __init__(self, make: Make) -> None:
        self.environment = made(make)
        self.title = str(make) if isinstance(make, str) else str(self.environment)
        self.spaces = (self.environment.observation_space, self.environment.action_space)
        self.sizes = observation_sizes(self.spaces[0], self.title, make)
        self.actions = action_space(self.spaces[1], self.title)

    def reset(self, seed: int) -> FloatArray:
        """Reset to a seed's start; return its row [R]. Spaces are seeded like the environment."""
        _seed_spaces(self.environment, seed)
        observation, _ = self.environment.reset(seed=seed)
        return np.concatenate([self._flat(observation), np.zeros(len(OUTCOME))])

    def play(self, row: FloatArray, actions: FloatArray, repeat: int) -> tuple[FloatArray, int]:
        """Return the rows [H, R] after each of actions [H, A], and how many steps were taken."""
        row, after, taken = row.copy(), np.empty((len(actions), len(row))), 0
        for step, action in enumerate(actions):
            # Where it is over, not even no reward is one that reaches a threshold; an infinite
            # one would be a state that has diverged.
            row[-4:-1] = 0, _LOWEST, 0
            for _ in range(repeat):
                if row[-1]:
                    break
                self._step(row, action)
                taken += 1
            after[step] = row
        return after, taken

    def _step(self, row: FloatArray, action: FloatArray) -> None:
        observation, reward, terminated, _, info = self.environment.step(
            native_action(action, self.spaces[1])
        )
        seen = self._flat(observation)
        row[: len(seen)] = seen
        row[-4] += float(reward)
        row[-3] = max(row[-3], float(reward))
        row[-2] = max(row[-2], _success(info))
        row[-1] = bool(terminated)

    def _flat(self, observation: Any) -> FloatArray:
        return flat(observation, self.sizes, self.spaces[0], self.title)


def _success(info: Mapping[str, Any]) -> float:
    """Return 1 for info that tells success by a usual key, else 0."""
    values = [info[key] for key in _SUCCESS if key in info]
    return float(bool(values) and bool(values[0]))


def period_of(environment: Any) -> float:
    """Return the seconds of a step, 1 where the environment tells neither them nor its films'."""
    period = getattr(environment.unwrapped, "dt", None)
    if period is None:
        rate = environment.metadata.get("render_fps")
        period = 1 / rate if rate else 1.0
    return float(period)


def _seed_spaces(environment: Any, seed: int) -> None:
    """Seed the spaces of an environment, and of all that it wraps."""
    while True:
        environment.action_space.seed(seed)
        environment.observation_space.seed(seed)
        if environment is environment.unwrapped or not isinstance(environment, gymnasium.Wrapper):
            return
        environment = environment.env

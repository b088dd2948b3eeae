"""World: one environment, put back into any state of any episode before it is stepped.

A state is a row of numbers: what it takes to put the environment back (see `restorers`), then what
it observed, the rewards of the last step, and whether it is over. An environment that has
terminated stays as it is, without reward; its own time limit is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import gymnasium
import numpy as np

from pytest_cpg.contracts import ActionSpace, BoxActions, ComponentError, FiniteActions, FloatArray
from pytest_cpg.tasks.gymnasium.environments import definition_of, made, versions_of
from pytest_cpg.tasks.gymnasium.restorers import restorer_of

# Sum and largest of a step's rewards, and whether the environment has terminated.
OUTCOME = 3
_LOWEST = np.finfo(np.float64).min


class World:
    """One environment of this process, and what restores it."""

    def __init__(self, make: str | Callable[[], Any]) -> None:
        self.make = make
        self._lock = threading.Lock()
        # An id may come to mean another environment while this one is in use.
        self.spec = gymnasium.spec(make) if isinstance(make, str) else None
        environment = made(make)
        self.spaces = (environment.observation_space, environment.action_space)
        self.title = str(make) if isinstance(make, str) else str(environment)
        # Of the distributions that decide what it does.
        self.versions = versions_of(
            self.spec, is_mujoco=hasattr(environment.unwrapped, "do_simulation")
        )
        self.cache_key = definition_of(self.spec)
        self.period = _period(environment)
        self._restorer = restorer_of(environment)
        # Numbers that it takes to put the environment back, and in an observation.
        self.size = self._restorer.size
        self.observed = flat_size(self.spaces[0], self.title, make)
        self.actions = action_space(self.spaces[1], self.title)
        self._check_restores()

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what makes the environment."""
        return (world_of, (self.make,))

    def begin(self, seed: int) -> FloatArray:
        """Return the state [S] at the start of a seed's episode."""
        with self._lock:
            inner, observation = self._restorer.begin(seed)
            seen = flat(observation, self.observed, self.spaces[0], self.title)
            return np.concatenate([inner, seen, np.zeros(OUTCOME)])

    def advance(
        self, state: FloatArray, actions: FloatArray, repeat: int, *, is_kept: bool
    ) -> FloatArray:
        """Return the states [H, S] after each of actions [H, A]; unless kept, not to step from."""
        after = np.full((len(actions), len(state)), np.nan)
        if np.isnan(state).any():
            return after
        size = self.size
        row = np.array(state)
        with self._lock:
            if not row[-1]:
                self._restorer.load(row[:size])
            for step, action in enumerate(actions):
                # Where it is over, not even no reward is one that reaches a threshold; an infinite
                # one would be a state that has diverged.
                row[-OUTCOME:-1] = 0, _LOWEST
                for _ in range(repeat):
                    if row[-1]:
                        break
                    self._step(row, action, is_kept=is_kept)
                after[step] = row
                if not is_kept:
                    after[step, :size] = np.nan
        return after

    def _step(self, row: FloatArray, action: FloatArray, *, is_kept: bool) -> None:
        observation, reward, terminated, _, _ = self._restorer.step(
            native_action(action, self.spaces[1]), row[: self.size] if is_kept else None
        )
        row[self.size : -OUTCOME] = flat(observation, self.observed, self.spaces[0], self.title)
        total, best = row[-OUTCOME] + float(reward), max(row[-OUTCOME + 1], float(reward))
        row[-OUTCOME:] = total, best, bool(terminated)

    def _check_restores(self) -> None:
        """Raise ComponentError unless a step from a state that was put back is the same step."""
        actions = self.actions.sample([np.random.default_rng(0)], (3,))[0]
        state = self.begin(1)
        middle = self.advance(state, actions[:2], 1, is_kept=True)[-1]
        ahead = self.advance(state, actions, 1, is_kept=False)
        check_numbers(ahead[:, self.size : -OUTCOME], ahead[:, -OUTCOME], self.title)
        self.begin(2)
        again = self.advance(middle, actions[2:], 1, is_kept=False)[-1]
        if not np.array_equal(state, self.begin(1), equal_nan=True):
            raise ComponentError(
                f"{self.title} does not start as before when it is reset by the same seed, so that "
                f"its episodes could not be repeated. Let reset(seed=...) begin anew, and draw "
                f"from self.np_random alone."
            )
        if not np.array_equal(ahead[-1], again, equal_nan=True):
            raise ComponentError(
                f"{self.title} does not go on as before when it is put back into a state: its "
                f"pickle, or its physics, does not hold all of it. Give it a __getstate__ that "
                f"does, or write a task of your own (pytest_cpg.Task)."
            )


def world_of(make: str | Callable[[], Any]) -> World:
    """Return the one environment in this process of what an id means now, or a function's own."""
    return _world(make, repr(gymnasium.spec(make))) if isinstance(make, str) else World(make)


@cache
def _world(make: str, spec: str) -> World:
    del spec
    return World(make)


def _period(environment: Any) -> float:
    """Return the seconds of a step, 1 where the environment tells neither them nor its films'."""
    period = getattr(environment.unwrapped, "dt", None)
    if period is None:
        rate = environment.metadata.get("render_fps")
        period = 1 / rate if rate else 1.0
    return float(period)


def action_space(space: Any, title: str) -> ActionSpace:
    """Return the actions of a space, or raise ComponentError if planners cannot draw from it."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return FiniteActions(np.arange(space.start, space.start + space.n)[:, None])
    if isinstance(space, gymnasium.spaces.Box) and np.isfinite([space.low, space.high]).all():
        return BoxActions(np.ravel(space.low), np.ravel(space.high))
    raise ComponentError(
        f"{title} has actions of {space}, and planners draw from a Discrete or a bounded Box. Wrap "
        f"it, for instance in gymnasium.wrappers.RescaleAction, and pass gym_task(lambda: ...) "
        f"from pytest_cpg.tasks.gymnasium."
    )


def flat_size(space: Any, title: str, make: str | Callable[[], Any]) -> int:
    """Return the numbers in one observation, or raise ComponentError if they are no flat box."""
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        return int(space.shape[0])
    maker = make if isinstance(make, str) else getattr(make, "__qualname__", "make")
    inner = maker if maker.isidentifier() else "make"
    made = f"gymnasium.make({make!r}, max_episode_steps=-1)" if maker is make else f"{inner}()"
    raise ComponentError(
        f"{title} has observations of {space}, and a flat Box is needed. Pass "
        f"gym_task(lambda: gymnasium.wrappers.FlattenObservation({made})) from "
        f"pytest_cpg.tasks.gymnasium."
    )


def native_action(action: FloatArray, space: Any) -> Any:
    """Return an action [A] as an environment with this space takes it."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(action[0])
    return action.astype(space.dtype).reshape(space.shape)


def flat(observation: Any, size: int, space: Any, title: str) -> FloatArray:
    """Return an observation as one row [O], or raise ComponentError if its space says another."""
    row = np.ravel(observation)
    if row.size != size:
        raise ComponentError(
            f"{title} observes an array of shape {list(np.shape(observation))}, and its "
            f"observation_space is {space}. Let reset and step return what that says, or correct "
            f"observation_space."
        )
    return row


def check_numbers(observations: FloatArray, rewards: FloatArray, title: str) -> None:
    """Raise ComponentError for NaN among observations [T, O] and rewards [T] of first steps."""
    for what, rows in (("reward", rewards), ("observation", observations)):
        if np.isnan(rows).any():
            raise ComponentError(
                f"{title} gives nan as {what} within its first {len(rows)} steps. Let step return "
                f"finite numbers."
            )

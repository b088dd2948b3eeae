"""Transitions: what a world model is trained on, collected by random actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, Task, TaskError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import Endings, has_ended, observed


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Transitions:
    """Observed steps of a task."""

    #: [T, O].
    observations: FloatArray
    #: [T, A], in the simulator's own units.
    actions: FloatArray
    #: [T, O], also of a step that ended its episode: where it led, and not the next start.
    next_observations: FloatArray
    #: [T]. A model that imagines returns is trained on them.
    rewards: FloatArray | None = None
    #: [T]: whether the step ended its episode before its time.
    terminations: BoolArray | None = None

    def __post_init__(self) -> None:
        for name in ("observations", "actions", "next_observations"):
            self._keep(name, np.array(getattr(self, name), dtype=np.float64), "[T, size]")
        if self.rewards is not None:
            self._keep("rewards", np.array(self.rewards, dtype=np.float64), "[T]")
        if self.terminations is not None:
            terminations = np.array(self.terminations)
            if not np.isin(terminations, (0, 1)).all():
                raise ValueError(
                    f"terminations must be true or false, got {np.unique(terminations)[:5]}"
                )
            self._keep("terminations", terminations.astype(bool), "[T]")
        if self.observations.shape != self.next_observations.shape:
            raise ValueError(
                f"observations {self.observations.shape} and next_observations "
                f"{self.next_observations.shape} must have the same shape"
            )

    def __len__(self) -> int:
        return len(self.observations)

    def _keep(self, name: str, values: FloatArray | BoolArray, shape: str) -> None:
        """Set a field to its own, frozen array, or raise ValueError for one that does not fit."""
        count = len(self.observations)
        if values.ndim != shape.count(",") + 1 or len(values) != count:
            raise ValueError(
                f"{name} must have shape {shape} with T = {count}, got shape {values.shape}"
            )
        if not np.isfinite(values).all():
            row = np.argwhere(~np.isfinite(values))[0, 0]
            raise ValueError(f"{name} must be finite, row {row} is {values[row]}")
        values.flags.writeable = False
        object.__setattr__(self, name, values)


def collect_transitions(
    task: Task,
    *,
    count: int,
    seed: int,
    episode_steps: int = 200,
    hold: int = 1,
    with_rewards: bool = False,
) -> Transitions:
    """Return transitions of uniform random actions from the task's own starts.

    Episodes are not cut at success: what lies behind the goal is part of the world. They are where
    the task says that they are over, and then the transitions have terminations. The rows of an
    episode are neighbours, in order, and the first rows are the same for every larger ``count``.
    Raises TaskError when the simulator diverges.

    Parameters
    ----------
    count : int
        Rows, ``T``; the last episode is cut to it.
    seed : int
        Decides starts and actions. No gate has the same, whatever its seed.
    episode_steps : int
        Steps after which a new start is sampled.
    hold : int
        Steps that each random action is kept for. Pushes that last reach speeds and joint limits
        that a planner will visit and actions drawn anew at every step seldom do.
    """
    if min(count, episode_steps, hold) < 1:
        raise ValueError(
            f"count, episode_steps and hold must be at least 1, got {count!r}, {episode_steps!r} "
            f"and {hold!r}"
        )
    parts: list[tuple[Any, ...]] = []
    episodes = missing = 0
    while (missing := count - sum(len(part[0]) for part in parts)) > 0:
        # As many as are enough where no episode ends early; then as many again.
        more = max(-(-missing // episode_steps), episodes)
        numbers = range(episodes, episodes + more)
        parts.append(_followed(task, numbers, seed=seed, steps=episode_steps, hold=hold))
        episodes = numbers.stop
    before, actions, after, rewards, ends = (
        np.concatenate(arrays)[:count] for arrays in zip(*parts, strict=True)
    )
    return Transitions(
        observations=before,
        actions=actions,
        next_observations=after,
        rewards=rewards if with_rewards else None,
        terminations=ends if has(task, Endings) else None,
    )


def _followed(
    task: Task, episodes: range, *, seed: int, steps: int, hold: int
) -> tuple[FloatArray | BoolArray, ...]:
    """Return observations, actions, those after them, rewards and ends of some episodes' steps."""
    streams = [Stream.COLLECTION.sequence(seed, episode).spawn(2) for episode in episodes]
    starts = task.reset(np.array([start.generate_state(1)[0] for start, _ in streams], np.int64))
    drawn = task.actions.sample(
        [np.random.default_rng(noise) for _, noise in streams], (-(-steps // hold),)
    )
    actions = np.repeat(drawn, hold, axis=1)[:, :steps]
    states = task.rollout(starts, actions)
    after = observed(task, states)
    broken = np.argwhere(~np.isfinite(after).all(axis=-1))
    if len(broken):
        raise TaskError(
            f"{task.name}: the simulator diverged under random actions in episode "
            f"{episodes.start + broken[0, 0]} at step {broken[0, 1] + 1}. Reduce the simulator's "
            f"time step or the actions' range."
        )
    before = np.concatenate([observed(task, starts)[:, None], after[:, :-1]], axis=1)
    ended = has_ended(task, states)
    is_over = np.concatenate([has_ended(task, starts)[:, None], ended[:, :-1]], axis=1)
    if is_over.all():
        raise TaskError(f"{task.name}: every episode is over at its start. Mend terminated().")
    rewards = task.reward(states, actions)
    # None from where an episode is over.
    return tuple(rows[~is_over] for rows in (before, actions, after, rewards, ended))

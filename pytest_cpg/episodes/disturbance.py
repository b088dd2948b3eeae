"""Disturbance: a perturbation at work in the episodes of one arm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    BoxActions,
    BrokenModelError,
    ComponentError,
    FloatArray,
    IntArray,
    Task,
    TaskError,
    WorldModelError,
)
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import ChangeablePhysics, MeasuredColumns
from pytest_cpg.episodes.perturbations import (
    ActionNoise,
    DelayActions,
    DropActions,
    ObservationNoise,
    Perturbation,
    Physics,
)

# A loss of actions without a time of its own comes within this share of the budget.
_EARLY = 10


class Disturbance:
    """What goes wrong in some episodes of an arm; nothing where there is no perturbation.

    What is drawn depends on the seed, an episode's index and its step alone: it is the same in
    every arm, batch and order, and the planner's own stream is left alone.
    """

    def __init__(
        self, perturbation: Perturbation | None, task: Task, episodes: IntArray, *, seed: int
    ) -> None:
        self._perturbation, self._task = perturbation, task
        self._episodes, self._seed = episodes, seed
        self._world = task
        self._measured: IntArray = np.arange(0)
        count, delay = len(episodes), 0
        if isinstance(perturbation, Physics):
            self._world = _changed(task, perturbation)
        elif isinstance(perturbation, ObservationNoise):
            self._measured = _measured(task, perturbation)
        elif isinstance(perturbation, DelayActions):
            delay = perturbation.steps
        elif isinstance(perturbation, DropActions):
            self._lost = np.zeros((count, int(task.budget)), dtype=bool)
            for row, episode in enumerate(episodes):
                self._lost[row] = self._losses(perturbation, int(episode))
        self._perturbed = np.zeros(count, dtype=bool)
        # Planned actions that wait to be executed, the next one first.
        self._pending = np.tile(task.actions.idle, (count, delay, 1))

    @contextmanager
    def named(self) -> Iterator[None]:
        """Let errors of tasks and models say what was perturbed, which may be their cause."""
        try:
            yield
        except (TaskError, WorldModelError) as error:
            if self._perturbation is None:
                raise
            suspicion = (
                f"The gate is perturbed by {self._perturbation.name}: run it without, or with less "
                f"of it, to tell whether that is the cause."
            )
            if isinstance(error, BrokenModelError):
                error.why = f"{error.why} {suspicion}"
                raise
            raise type(error)(f"{error} {suspicion}") from error.__cause__

    @property
    def perturbed(self) -> BoolArray | None:
        """Whether it took effect before each episode [N] had succeeded; None if there is none."""
        return None if self._perturbation is None else self._perturbed.copy()

    def seen(
        self, rows: IntArray, states: FloatArray, steps: IntArray, *, counts: BoolArray
    ) -> FloatArray:
        """Return what the planner is told [B, S] of states [B, S] that are so many steps [B] old.

        ``counts`` [B] says in which episodes an effect counts: those that have not succeeded.
        """
        if not isinstance(self._perturbation, ObservationNoise):
            return states
        noise, seen = self._noise(rows, steps, len(self._measured)), states.copy()
        seen[:, self._measured] += self._perturbation.deviation * noise
        self._perturbed[rows] |= (seen != states).any(axis=1) & counts
        return seen

    def step(
        self,
        rows: IntArray,
        states: FloatArray,
        planned: FloatArray,
        steps: IntArray,
        *,
        counts: BoolArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Take a real step: return executed actions [B, A] and next states [B, S].

        From states [B, S], as planned [B, A], after so many steps [B]; ``counts`` as of `seen`.
        """
        if self._perturbation is None:
            return planned, np.asarray(self._task.step(states, planned))
        actions = self._executed(rows, planned, steps)
        after = self._world.step(states, actions)
        changed = (actions != planned).any(axis=1)
        if self._world is not self._task:
            new = counts & ~self._perturbed[rows]
            changed[new] = (self._task.step(states[new], actions[new]) != after[new]).any(axis=1)
        self._perturbed[rows] |= changed & counts
        return actions, after

    def _executed(self, rows: IntArray, planned: FloatArray, steps: IntArray) -> FloatArray:
        """Return what is executed in place of planned actions [B, A]."""
        match self._perturbation:
            case DropActions():
                return np.where(self._lost[rows, steps, None], self._task.actions.idle, planned)
            case DelayActions():
                line = np.concatenate([self._pending[rows], planned[:, None]], axis=1)
                self._pending[rows] = line[:, 1:]
                return line[:, 0]
            case ActionNoise(deviation):
                noise = deviation * self._noise(rows, steps, planned.shape[1])
                return _blurred(self._task.actions, planned, noise)
        return planned

    def _noise(self, rows: IntArray, steps: IntArray, size: int) -> FloatArray:
        """Draw standard normal noise [B, size]."""
        pairs = zip(self._episodes[rows], steps, strict=True)
        return np.stack(
            [Stream.DISTURBANCE.of(self._seed, *pair).standard_normal(size) for pair in pairs]
        )

    def _losses(self, drop: DropActions, episode: int) -> BoolArray:
        """Say for every step of an episode whether its action is lost: [budget]."""
        budget = int(self._task.budget)
        steps, rng = np.arange(budget), Stream.DISTURBANCE.of(self._seed, episode, 0)
        if drop.every is not None:
            return np.asarray(steps % (drop.every + drop.count) >= drop.every)
        if drop.probability is not None:
            begun = np.concatenate([[0], np.cumsum(rng.random(budget) < drop.probability)])
            return np.asarray(begun[steps] > begun[np.maximum(steps - drop.count, 0)])
        at = rng.integers(1, max(1, budget // _EARLY) + 1) if drop.at is None else drop.at
        return np.asarray((steps >= at) & (steps < at + drop.count))


def _blurred(actions: ActionSpace, planned: FloatArray, noise: FloatArray) -> FloatArray:
    """Return actions [B, A] that differ from the planned ones by noise in units of their ranges."""
    span = actions.high - actions.low
    if isinstance(actions, BoxActions):
        return actions.nearest(planned + noise * span)
    unit = np.where(span > 0, span, 1.0)
    wanted = planned / unit + noise * (span > 0)
    distances = ((wanted[:, None] - actions.values / unit) ** 2).sum(axis=-1)
    nearest: FloatArray = actions.values[distances.argmin(axis=1)]
    return nearest


def _changed(task: Task, physics: Physics) -> Task:
    if not has(task, ChangeablePhysics):
        raise ComponentError(
            f"the physics of task {str(task.name)!r} cannot be changed to {physics.name!r}: it has "
            f"no with_physics(). Use a control task such as cartpole-swingup, give yours that "
            f'method, or perturb its actions: perturbation="drop-next-5".'
        )
    return task.with_physics(**physics.scales)


def _measured(task: Task, noise: ObservationNoise) -> IntArray:
    if not has(task, MeasuredColumns):
        raise ComponentError(
            f"task {str(task.name)!r} does not say what of its states is measured, and "
            f"{noise.name!r} cannot be added to the rest. Give it an attribute measured: the "
            f"columns of a state that are."
        )
    return np.asarray(task.measured, dtype=np.int64)

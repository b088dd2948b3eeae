"""Disturbance: a perturbation at work in the episodes of one arm."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    BrokenModelError,
    ComponentError,
    CpgError,
    FloatArray,
    IntArray,
    Task,
    TaskError,
    WorldModelError,
)
from pytest_cpg.contracts.parts import members
from pytest_cpg.episodes.moment import Moment
from pytest_cpg.episodes.perturbations import EFFECTS, Perturbation, parts_of


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
        self._world, self._parts = task, parts_of(perturbation)
        for _, part in self._having("world"):
            self._world = _task_of(part, "world", self._world)
        self._memories: list[dict[str, Any]] = [{} for _ in self._parts]
        self._first: dict[tuple[int, str], Callable[[], None]] = {}
        self._perturbed = np.zeros(len(episodes), dtype=bool)
        # At which step each was last asked whether actions are skipped: there no time passes.
        self._asked = np.full(len(episodes), -1)

    def _having(self, effect: str) -> list[tuple[int, Any]]:
        """Return what has this effect, each with its number: an object may stand there twice."""
        parts = enumerate(self._parts)
        return [(number, part) for number, part in parts if callable(getattr(part, effect, None))]

    def _applied(
        self, effect: str, values: FloatArray, rows: IntArray, steps: IntArray
    ) -> FloatArray:
        """Return values [B, ...] after all that has this effect; raise ComponentError for none."""
        for number, part in self._having(effect):
            changed = self._answer(number, effect, rows, steps, values)
            # A simulator that has diverged by itself is named as such.
            is_whole = (
                changed.shape == values.shape
                and changed.dtype.kind in "fiub"
                and not (np.isfinite(values) & ~np.isfinite(changed)).any()
            )
            if not is_whole or (effect == "act" and not self._are_actions(changed)):
                raise ComponentError(
                    f"perturbation {part.name!r}: {effect}() returned {changed!r:.80}; return "
                    f"{values.shape} finite numbers{', actions of the task' * (effect == 'act')}."
                )
            values = changed
        return values

    def _answer(
        self, number: int, effect: str, rows: IntArray, steps: IntArray, *values: FloatArray
    ) -> Any:
        """Return what a part makes of values, as an array; raise ComponentError if not always so.

        One of a user's is asked twice, and the first question once more when the arm is over:
        whatever it remembers beside `Moment.kept` shows.
        """
        part, given = self._parts[number], tuple(value.copy() for value in values)
        if _is_ours(part):
            return _asked(part, effect, *given, self._moment(number, rows, steps))
        memory = deepcopy(self._memories[number])
        # Of what is changed in place, nobody would see that it took effect.
        copies = tuple(value.copy() for value in values)
        answer = _asked(part, effect, *copies, self._moment(number, rows, steps))
        again = partial(self._check, answer, number, effect, rows.copy(), steps.copy(), given)
        again(memory=memory)
        self._first.setdefault((number, effect), partial(again, memory=memory))
        return answer

    def _check(
        self,
        answer: Any,
        number: int,
        effect: str,
        rows: IntArray,
        steps: IntArray,
        given: tuple[FloatArray, ...],
        memory: dict[str, Any],
    ) -> None:
        part, moment = self._parts[number], self._moment(number, rows, steps)
        copies = (value.copy() for value in given)
        now = _asked(part, effect, *copies, replace(moment, memory=deepcopy(memory)))
        if answer.dtype.kind != "O" and answer.tobytes() != now.tobytes():
            raise ComponentError(
                f"perturbation {part.name!r}: {effect}() answered otherwise when it was asked "
                f"again, so that no two arms would have the same. Keep nothing in the object or "
                f"beside it: what lasts is in moment.kept(), and moment.rng() draws."
            )

    def check(self) -> None:
        """Ask the first questions again, now that the arm is over."""
        for ask_again in self._first.values():
            ask_again()

    def _are_actions(self, actions: FloatArray) -> bool:
        return bool(self._task.actions.contains(actions).all())

    def _moment(self, number: int, rows: IntArray, steps: IntArray) -> Moment:
        return Moment(
            task=self._task,
            seed=self._seed,
            rows=rows,
            steps=steps,
            every_episode=self._episodes,
            part=number,
            memory=self._memories[number],
        )

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
        seen = self._applied("see", states, rows, steps)
        is_other = (seen != states).any(axis=1) | bool(self._having("observe"))
        self._perturbed[rows] |= is_other & counts
        return seen

    def skipped(self, rows: IntArray, steps: IntArray, *, counts: BoolArray) -> IntArray:
        """Return how many planned actions [B] are lost without time passing, once at each step."""
        lost = np.zeros(len(rows), dtype=np.int64)
        skipping = self._having("skip")
        if not skipping:
            return lost
        is_new = self._asked[rows] != steps
        for number, part in skipping:
            skipped = self._answer(number, "skip", rows, steps)
            if skipped.shape != lost.shape or skipped.dtype.kind not in "iu" or (skipped < 0).any():
                raise ComponentError(
                    f"perturbation {part.name!r}: skip() returned {skipped!r:.80}; return "
                    f"{lost.shape} whole numbers of at least 0."
                )
            lost += skipped * is_new
        self._asked[rows] = steps
        self._perturbed[rows] |= (lost > 0) & counts
        return lost

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
        actions = self._applied("act", planned, rows, steps)
        after = np.asarray(self._world.step(states, actions))
        pushed = self._applied("push", after, rows, steps)
        changed = (actions != planned).any(axis=1) | (pushed != after).any(axis=1)
        if self._world is not self._task:
            new = counts & ~self._perturbed[rows]
            changed[new] |= (self._task.step(states[new], actions[new]) != after[new]).any(axis=1)
        self._perturbed[rows] |= changed & counts
        return actions, pushed


def changes_observations(perturbation: Perturbation | None) -> bool:
    """Say whether models observe another task than without it."""
    return any(callable(getattr(part, "observe", None)) for part in parts_of(perturbation))


def as_observed(task: Task, perturbation: Perturbation | None) -> Task:
    """Return the task as models observe it under a perturbation."""
    for part in parts_of(perturbation):
        if callable(getattr(part, "observe", None)):
            task = _task_of(part, "observe", task)
    return task


def _task_of(part: Any, effect: str, task: Task) -> Task:
    changed: Task = _called(part, effect, task)
    if lacking := [name for name in members(Task) if not hasattr(changed, name)]:
        raise ComponentError(
            f"perturbation {part.name!r}: {effect}() returned {changed!r:.80}; return a task, as "
            f"task.with_physics(mass=1.2) does. It lacks {', '.join(lacking)}."
        )
    return changed


def _is_ours(part: object) -> bool:
    return type(part).__module__.startswith("pytest_cpg.")


def _asked(part: Any, effect: str, *given: Any) -> Any:
    """Return what a method returns as an array, whatever it is."""
    answer = _called(part, effect, *given)
    try:
        return np.asarray(answer)
    # Rows of different lengths, or what cannot be read.
    except (TypeError, ValueError) as error:
        raise ComponentError(
            f"perturbation {part.name!r}: {effect}() returned {answer!r:.80}, which is no array: "
            f"{error}"
        ) from None


def _called(part: Any, effect: str, *given: Any) -> Any:
    """Return what a method returns; its own exception goes on, and says whose it is."""
    method, where = getattr(part, effect), f"{effect}() of perturbation {part.name!r}"
    try:
        inspect.signature(method).bind(*given)
    except TypeError as error:
        raise ComponentError(
            f"{where} cannot be called: {error}. Write def {effect}(self{EFFECTS[effect]})."
        ) from None
    # Of some callables nothing tells what they take.
    except ValueError:
        pass
    try:
        return method(*given)
    except CpgError:
        raise
    except Exception as error:
        error.add_note(f"pytest-cpg: raised by {where}.")
        raise

"""Disturbance: a perturbation at work in the episodes of one arm."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
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

_OTHERWISE = (
    "perturbation {name!r}: {effect}() answered otherwise when it was asked again, so that no two "
    "arms would have the same. Keep nothing in the object or beside it: what lasts is in "
    "moment.kept(), and moment.rng() draws."
)
# Of the starts by which two tasks are compared.
_SEEDS = np.arange(4)


class Disturbance:
    """What goes wrong in some episodes of an arm; nothing where there is no perturbation.

    What is drawn depends on the seed, an episode's index and its step alone: it is the same in
    every arm, batch and order, and the planner's own stream is left alone. ``observes`` says
    whether a learned model plans, which is given what the perturbation makes of observations.
    """

    def __init__(
        self,
        perturbation: Perturbation | None,
        task: Task,
        episodes: IntArray,
        *,
        seed: int,
        observes: bool = False,
    ) -> None:
        self._perturbation, self._task = perturbation, task
        self._episodes, self._seed = episodes, seed
        self._parts = parts_of(perturbation)
        self._world = _changed(self._parts, "world", task)
        self._memories: list[dict[str, Any]] = [{} for _ in self._parts]
        self._checks: dict[tuple[int, str], Callable[[], None]] = {}
        self._perturbed = np.zeros(len(episodes), dtype=bool)
        # Beside anything that can go wrong by itself, it would hide whether that happened.
        self._is_observed = observes and not disturbs_episodes(perturbation)
        # The step at which actions of each were last skipped, or not: there no time passes.
        self._skip_steps = np.full(len(episodes), -1)

    def _having(self, effect: str) -> list[tuple[int, Any]]:
        """Return what has this effect, each with its number: an object may stand there twice."""
        parts = enumerate(self._parts)
        return [(number, part) for number, part in parts if _has(part, effect)]

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
        part, arguments = self._parts[number], tuple(value.copy() for value in values)
        if _is_ours(part):
            return _array_of(part, effect, *arguments, self._moment(number, rows, steps))
        memory = self._copied_memory(number)
        # Of what is changed in place, nobody would see that it took effect.
        copies = tuple(value.copy() for value in values)
        answer = _array_of(part, effect, *copies, self._moment(number, rows, steps))
        question = number, effect, rows.copy(), steps.copy(), arguments, memory
        self._check_answer(answer, *question)
        self._checks.setdefault((number, effect), partial(self._check_answer, answer, *question))
        return answer

    def _copied_memory(self, number: int) -> dict[str, Any]:
        try:
            return deepcopy(self._memories[number])
        except TypeError as error:
            raise ComponentError(
                f"perturbation {self._parts[number].name!r}: what it keeps in moment.kept() cannot "
                f"be copied: {error}. Keep arrays of numbers."
            ) from None

    def _check_answer(
        self,
        answer: Any,
        number: int,
        effect: str,
        rows: IntArray,
        steps: IntArray,
        arguments: tuple[FloatArray, ...],
        memory: dict[str, Any],
    ) -> None:
        part, moment = self._parts[number], self._moment(number, rows, steps)
        copies = (value.copy() for value in arguments)
        now = _array_of(part, effect, *copies, replace(moment, memory=deepcopy(memory)))
        if answer.dtype.kind != "O" and answer.tobytes() != now.tobytes():
            raise ComponentError(_OTHERWISE.format(name=part.name, effect=effect))

    def check(self) -> None:
        """Ask the first questions again, now that the arm is over."""
        for check in self._checks.values():
            check()

    def _check_world(self, states: FloatArray, actions: FloatArray, after: FloatArray) -> None:
        """Make the world again, in which real steps have to lead [B, S] where they led before."""
        world = _changed(self._parts, "world", self._task)
        _check_same(self._parts, "world", after, world.step(states, actions))

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
        is_other = (seen != states).any(axis=1) | self._is_observed
        self._perturbed[rows] |= is_other & counts
        return seen

    def skipped(self, rows: IntArray, steps: IntArray, *, counts: BoolArray) -> IntArray:
        """Return how many planned actions [B] are lost without time passing, once at each step."""
        lost = np.zeros(len(rows), dtype=np.int64)
        skipping = self._having("skip")
        if not skipping:
            return lost
        is_new = self._skip_steps[rows] != steps
        for number, part in skipping:
            skipped = self._answer(number, "skip", rows, steps)
            if skipped.shape != lost.shape or skipped.dtype.kind not in "iu" or (skipped < 0).any():
                raise ComponentError(
                    f"perturbation {part.name!r}: skip() returned {skipped!r:.80}; return "
                    f"{lost.shape} whole numbers of at least 0."
                )
            lost += skipped * is_new
        self._skip_steps[rows] = steps
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
        after = np.array(self._world.step(states, actions))
        if _users(self._parts, "world"):
            first = partial(self._check_world, states.copy(), actions.copy(), after)
            self._checks.setdefault((len(self._parts), "world"), first)
        pushed = self._applied("push", after, rows, steps)
        changed = (actions != planned).any(axis=1) | (pushed != after).any(axis=1)
        if self._world is not self._task:
            new = counts & ~self._perturbed[rows]
            changed[new] |= (self._task.step(states[new], actions[new]) != after[new]).any(axis=1)
        self._perturbed[rows] |= changed & counts
        return actions, pushed


def changes_observations(perturbation: Perturbation | None) -> bool:
    """Say whether models observe another task than without it."""
    return any(_has(part, "observe") for part in parts_of(perturbation))


def disturbs_episodes(perturbation: Perturbation | None) -> bool:
    """Say whether it has any effect but on what models observe."""
    effects = [effect for effect in EFFECTS if effect != "observe"]
    return any(_has(part, effect) for part in parts_of(perturbation) for effect in effects)


def as_observed(task: Task, perturbation: Perturbation | None) -> Task:
    """Return the task as models observe it under a perturbation."""
    parts = parts_of(perturbation)
    observed = _changed(parts, "observe", task)
    if _users(parts, "observe"):
        same = observed, _changed(parts, "observe", task)
        _check_same(parts, "observe", *(each.observe(each.reset(_SEEDS)) for each in same))
    return observed


def _changed(parts: Sequence[Any], effect: str, task: Task) -> Task:
    """Return the task that parts with this effect, one after the other, make of a task."""
    for part in parts:
        if not _has(part, effect):
            continue
        task = _called(part, effect, task)
        if lacking := [name for name in members(Task) if not hasattr(task, name)]:
            such = ", as task.with_physics(mass=1.2) does" * (effect == "world")
            raise ComponentError(
                f"perturbation {part.name!r}: {effect}() returned {task!r:.80}; return a task"
                f"{such}. It lacks {', '.join(lacking)}."
            )
    return task


def _check_same(parts: Sequence[Any], effect: str, first: Any, second: Any) -> None:
    """Raise ComponentError unless two tasks that users' parts have made give the same numbers."""
    if not np.array_equal(first, second, equal_nan=True):
        names = ", ".join(part.name for part in _users(parts, effect))
        raise ComponentError(_OTHERWISE.format(name=names, effect=effect))


def _has(part: object, effect: str) -> bool:
    return callable(getattr(part, effect, None))


def _users(parts: Sequence[Any], effect: str) -> list[Any]:
    """Return the parts with this effect that are no part of the package."""
    return [part for part in parts if _has(part, effect) and not _is_ours(part)]


def _is_ours(part: object) -> bool:
    return type(part).__module__.startswith("pytest_cpg.")


def _array_of(part: Any, effect: str, *arguments: Any) -> Any:
    """Return what a method returns as an array of its own, whatever it is."""
    answer = _called(part, effect, *arguments)
    try:
        return np.array(answer)
    # Rows of different lengths, or what cannot be read.
    except (TypeError, ValueError) as error:
        raise ComponentError(
            f"perturbation {part.name!r}: {effect}() returned {answer!r:.80}, which is no array: "
            f"{error}"
        ) from None


def _called(part: Any, effect: str, *arguments: Any) -> Any:
    """Return what a method returns; its own exception goes on, and says whose it is."""
    method, where = getattr(part, effect), f"{effect}() of perturbation {part.name!r}"
    try:
        inspect.signature(method).bind(*arguments)
    except TypeError as error:
        raise ComponentError(
            f"{where} cannot be called: {error}. Write def {effect}(self{EFFECTS[effect]})."
        ) from None
    # Of some callables nothing tells what they take.
    except ValueError:
        pass
    try:
        return method(*arguments)
    except CpgError:
        raise
    except Exception as error:
        error.add_note(f"pytest-cpg: raised by {where}.")
        raise

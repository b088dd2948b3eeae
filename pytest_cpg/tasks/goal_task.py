"""Goal task: a task whose episodes are to reach goals, which are a part of its states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    BoxActions,
    ComponentError,
    FloatArray,
    IntArray,
    Task,
    TaskError,
    TaskFactory,
)
from pytest_cpg.contracts.parts import CacheKey, has
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import (
    ChangeablePhysics,
    Endings,
    GoalPictures,
    NoteOnStarts,
    ObservationKeys,
    Pictures,
    has_ended,
)
from pytest_cpg.tasks.goals import RANDOM, Goals, planned_states
from pytest_cpg.tasks.recordings import (
    CHECKED,
    RecordedStarts,
    agreeing_steps,
    begun,
    observed_at,
    placed,
)

# What a task with goals has of the one in it, beside what it has of its own.
_PASSED_ON = ("action_repeat", "restored_by", "measured", "threads")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TaskAround:
    """What a task has of the one in it, be it with goals or in pictures."""

    inner: Task
    name: str = ""

    def _named(self, written: str) -> str:
        """Add what is written to the name in brackets; return the name before them."""
        plain, _, inside = str(self.inner.name).partition(" (")
        options = [*filter(None, [inside.removesuffix(")")]), written]
        object.__setattr__(self, "name", f"{plain} ({', '.join(options)})")
        return plain

    @property
    def actions(self) -> ActionSpace:
        """What can be done at every step."""
        return self.inner.actions

    @property
    def budget(self) -> int:
        """Steps after which an episode has failed."""
        return self.inner.budget

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step."""
        return self.inner.control_period

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the simulator's packages."""
        return self.inner.versions


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GoalTask(TaskAround):
    """A task whose episodes are to reach goals; see `Task`.

    A state [S] is the inner task's and the goal [G], and so is an observation [O].
    """

    goals: Goals
    #: How many of the checked recorded steps lead where they led.
    _agreeing: int | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        recording = self.goals.recording
        if recording is not None and has(self.inner, RecordedStarts):
            object.__setattr__(self, "inner", self.inner.beginning_in(recording))
        plain = self._named(self.goals.written)
        size, columns = self.inner.observation_size, self.goals.columns
        if columns is not None and max(columns) >= size:
            raise ComponentError(
                f"goals: columns={columns!r} of {plain}, which observes {size} numbers, from 0 to "
                f"{size - 1}. pytest-cpg tasks {plain!r} says what they are."
            )
        listed, recorded = self.goals.listed, self.goals.recorded
        sizes = {size} if columns is None else {size, len(columns)}
        if listed is not None and listed.shape[1] not in sizes:
            either = " or ".join(map(str, sorted(sizes)))
            fix = "" if columns is not None else " Or say which of them they are: columns=(0, 1)."
            raise ComponentError(
                f"goals: {self.goals.file!r} has goals of {listed.shape[1]} numbers, and {plain} "
                f"needs {either}, an observation or its columns.{fix}"
            )
        if recorded is not None and recorded.shape[2] != self.actions.size:
            raise ComponentError(
                f"goals: {self.goals.file!r} has actions of {recorded.shape[2]} numbers, and those "
                f"of {plain} have {self.actions.size}."
            )
        if (self.goals.offset or 0) > self.budget:
            raise ComponentError(
                f"goals: offset={self.goals.offset} is more than the {self.budget} steps of an "
                f"episode. Write budget={2 * int(self.goals.offset or 0)}."
            )
        if recorded is not None and not self.actions.contains(recorded).all():
            theirs = "are of a set"
            if isinstance(self.actions, BoxActions):
                theirs = f"lie between {self.actions.low} and {self.actions.high}"
            raise ComponentError(
                f"goals: {self.goals.file!r} has actions from {recorded.min():g} to "
                f"{recorded.max():g}, and those of {plain} {theirs}. Write them as the "
                f"environment's step takes them."
            )
        # With other physics nothing is held to what was recorded.
        if recording is not None and self._agreeing is None:
            object.__setattr__(self, "_agreeing", agreeing_steps(self.inner, recording))

    @property
    def observation_size(self) -> int:
        """Numbers in one observation: the inner task's, and the goal's."""
        return self.inner.observation_size + self.goal_size

    def __getattr__(self, name: str) -> Any:
        """Return what else the inner task has that takes no states."""
        if name not in _PASSED_ON:
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def succeeds_by(self) -> str:
        """What tells success."""
        return f"being within {self.goals.within:g} of its goal"

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's; None for a planner that draws goals."""
        if self.goals.by != RANDOM or not has(self.inner, CacheKey):
            return None
        return f"{self.inner.cache_key} {self.goals.written}"

    @property
    def observation_keys(self) -> Mapping[str, int]:
        """How many numbers the parts of an observation have: the goal is the last."""
        inner = {"observation": self.inner.observation_size}
        if has(self.inner, ObservationKeys):
            inner = dict(self.inner.observation_keys)
        return {**inner, "goal of the gate" if "goal" in inner else "goal": self.goal_size}

    @property
    def note_on_starts(self) -> str:
        """What the goals are, below a gate."""
        goals, columns = self.goals, self.goals.columns
        over = "" if columns is None else f" over columns {', '.join(map(str, columns))}"
        where = f"in {goals.file}" if goals.listed is not None else ""
        if not where:
            of = "random actions" if goals.by == RANDOM else goals.by.name
            of = of if goals.recorded is None else str(goals.file)
            where = f"where {goals.offset} true steps of {of} lead from the start"
        if goals.recording is not None:
            where = (
                f"what was recorded {goals.offset} steps after the start, which is a recorded "
                f"state of {goals.file}, drawn with replacement from {len(goals.recording.starts)}"
            )
            if self._agreeing is None:
                where += " (whose steps nothing checked, as it has no actions)"
            elif self._agreeing < CHECKED:
                where += f" ({self._agreeing} of {CHECKED} recorded steps agree with the task)"
        of_inner = self.inner.note_on_starts if has(self.inner, NoteOnStarts) else None
        return f"{of_inner}; " * bool(of_inner) + (
            f"goals are {where}; states are rated by their Euclidean distance to the goal{over}, "
            f"and {goals.within:g} is near enough"
        )

    @property
    def with_physics(self) -> Callable[..., GoalTask] | None:
        """Makes the task with mass, friction or gravity times a factor."""
        inner = self.inner
        if not has(inner, ChangeablePhysics):
            return None
        return lambda **scales: replace(self, inner=inner.with_physics(**scales))

    @property
    def render(self) -> Callable[[FloatArray], npt.NDArray[np.uint8]] | None:
        """Draws states [B, S] as the inner task does, with their goals where it can."""
        inner = self.inner
        if has(inner, GoalPictures):
            return lambda states: inner.render_goals(self.inner_of(states), self._wanted(states))
        if not has(inner, Pictures):
            return None
        return lambda states: inner.render(self.inner_of(states))

    @property
    def draws_goals(self) -> bool:
        """Whether pictures show the goals of the gate, and not the task's own."""
        return has(self.inner, GoalPictures)

    @property
    def terminated(self) -> Callable[[FloatArray], BoolArray] | None:
        """Says of states [..., S] whether the episode is over."""
        inner = self.inner
        return (
            (lambda states: has_ended(inner, self.inner_of(states)))
            if has(inner, Endings)
            else None
        )

    def reset(self, seeds: IntArray) -> FloatArray:
        """Return a start and a goal for each seed [N]: states [N, S]; of a listed file any goal."""
        states = begun(self.inner, self.goals.recording, seeds)
        return self._joined(states, self._goals(states, seeds, self.rows_of(seeds)))

    def rows_of(self, seeds: IntArray) -> IntArray:
        """Return any row of a listed file for each seed [N]."""
        count = self._listed
        if count is None:
            return np.zeros(len(seeds), dtype=np.int64)
        return np.array([Stream.GOAL.of(int(s)).integers(count) for s in seeds], int)

    def goal_states(self, states: FloatArray, seeds: IntArray, rows: IntArray) -> FloatArray:
        """Return an inner state [N, I] in which what is observed is the goal of states [N, S].

        ``rows`` are those of a file. Raises ComponentError where goals are no states that steps
        lead to.
        """
        goals, inner = self.goals, self.inner_of(states)
        if goals.recording is not None:
            if has(self.inner, RecordedStarts):
                return self.inner.recorded_goals(inner)
            steps = goals.recording.rows(seeds) + goals.recording.offset
            return placed(self.inner, inner, goals.recording, steps)
        if goals.listed is not None:
            raise ComponentError(
                f'goals= and observe="pixels": {goals.file} has what is observed at goals, and no '
                f"steps to a state that could be drawn. Write recorded actions [N, T, A] into it, "
                f'or goals={{"offset": 25, "within": 0.1}}.'
            )
        if goals.by != RANDOM:
            return planned_states(self.inner, goals, inner, seeds)
        for step in range(int(goals.offset or 0)):
            inner = self.inner.step(inner, self._leading(seeds, rows)[:, step])
        return inner

    def _leading(self, seeds: IntArray, rows: IntArray) -> FloatArray:
        """Return the actions [N, T, A] that lead to goals: those of a file's rows, or random."""
        offset = int(self.goals.offset or 0)
        if self.goals.recorded is not None:
            return self.goals.recorded[rows, :offset]
        return self.actions.sample([Stream.GOAL.of(int(seed)) for seed in seeds], (offset,))

    def at_episodes(self, states: FloatArray, episodes: IntArray) -> FloatArray:
        """Return starts [N, S] with the goals that a file has for these episodes [N].

        Raises TaskError where it has too few.
        """
        recording, count, episodes = self.goals.recording, self._listed, np.asarray(episodes)
        if recording is not None:
            count = len(recording.starts)
        if count is not None and episodes.max() >= count:
            raise TaskError(
                f"{self.name}: {self.goals.file} has {count} "
                f"{'goals' if recording is None else 'recorded starts'}, and the gate "
                f"{episodes.max() + 1} starts or more. Write episodes={count}, or "
                f"{'give a goal for each' if recording is None else 'record more'}."
            )
        if self._listed is None:
            return states
        inner = self.inner_of(states)
        return self._joined(inner, self._goals(inner, episodes, episodes))

    @property
    def _listed(self) -> int | None:
        """How many goals, or actions that lead to them, are in a file for episodes in order."""
        of_file = self.goals.listed if self.goals.listed is not None else self.goals.recorded
        return None if of_file is None else len(of_file)

    def goal(self, states: FloatArray) -> FloatArray:
        """Return the goals [..., G] of states [..., S]."""
        return np.array(states[..., -self.goal_size :])

    def relabelled(self, states: FloatArray, ends: FloatArray) -> FloatArray:
        """Return states [N, ..., S] whose goals are what is observed in states [N, S]."""
        reached = self.inner.observe(self.inner_of(ends))
        if self.goal_size < self.inner.observation_size:
            reached = reached[:, list(self.goals.columns or ())]
        goals = reached.reshape(len(ends), *[1] * (states.ndim - 2), self.goal_size)
        inner = self.inner_of(states)
        return self._joined(inner, np.broadcast_to(goals, (*inner.shape[:-1], self.goal_size)))

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        return self._joined(self.inner.step(self.inner_of(states), actions), self.goal(states))

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        after = self.inner.rollout(self.inner_of(states), actions)
        return self._joined(after, np.repeat(self.goal(states)[:, None], after.shape[1], axis=1))

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O], which end in the goal."""
        return self._joined(self.inner.observe(self.inner_of(states)), self.goal(states))

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by the Euclidean distance to their goal [...]."""
        size, columns = self.inner.observation_size, self.goals.columns
        seen, goal = observations[..., :size], observations[..., size:]
        if columns is not None:
            seen = seen[..., list(columns)]
            goal = goal if self.goal_size < size else goal[..., list(columns)]
        return np.asarray(np.sqrt(np.sum((seen - goal) ** 2, axis=-1)))

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the inner task's reward [...]."""
        return self.inner.reward(self.inner_of(states), actions)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether states [..., S] are near enough to their goals."""
        del actions
        return np.asarray(self.score(self.observe(states)) <= (self.goals.within or 0.0))

    @property
    def goal_size(self) -> int:
        """Numbers of a goal."""
        listed = self.goals.listed
        return self.inner.observation_size if listed is None else listed.shape[1]

    def _wanted(self, states: FloatArray) -> FloatArray:
        """Return goals [B, O] of states [B, S], NaN in columns that are not compared."""
        goals, columns = self.goal(states), self.goals.columns
        if columns is None:
            return goals
        wanted = np.full((len(states), self.inner.observation_size), np.nan)
        wanted[:, columns] = goals if goals.shape[1] == len(columns) else goals[:, columns]
        return wanted

    def inner_of(self, states: FloatArray) -> FloatArray:
        """Return the inner states [..., I] of states [..., S]."""
        return states[..., : -self.goal_size]

    def _joined(self, parts: FloatArray, goals: FloatArray) -> FloatArray:
        # A diverged row is NaN as a whole.
        lost = np.isnan(parts).all(axis=-1, keepdims=True)
        return np.concatenate([parts, np.where(lost, np.nan, goals)], axis=-1)

    def _goals(self, states: FloatArray, seeds: IntArray, rows: IntArray) -> FloatArray:
        """Return a goal [N, G] for each start, inner states [N, I]; of a file by these rows [N]."""
        goals = self.goals
        if goals.listed is not None:
            return goals.listed[rows]
        if (recording := goals.recording) is not None:
            rows = recording.rows(seeds) + recording.offset
            return observed_at(self.inner, states, recording, rows)
        if goals.by != RANDOM:
            reached = self.inner.observe(planned_states(self.inner, goals, states, seeds))
        else:
            actions = self._leading(seeds, rows)
            reached = self.inner.observe(self.inner.rollout(states, actions))[:, -1]
        if np.isnan(reached).any():
            raise TaskError(
                f"{self.name}: the simulator diverged on the way to a goal. Draw goals of fewer "
                f"steps, by offset=."
            )
        return reached


def with_goals(make: TaskFactory, goals: Goals) -> TaskFactory:
    """Return what makes a task with goals; it takes the same options."""

    def made(**options: Any) -> Task:
        return GoalTask(inner=make(**options), goals=goals)

    described: Any = made
    described.__signature__ = signature(make)
    return made

"""Goals: places that episodes are to reach, for tasks that have no goals of their own.

A goal is an observation, or some columns of one: listed in a file, or drawn as the place that a few
true steps from the start lead to, as LeWM's and DINO-WM's evaluations do. It is part of a start and
of all that is observed. States are rated by their distance to it, and a threshold is the success.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from types import MappingProxyType
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
    Planner,
    Task,
    TaskError,
    TaskFactory,
)
from pytest_cpg.contracts.parts import CacheKey, has
from pytest_cpg.contracts.planner import is_warm_started
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import (
    ActionRepeat,
    ChangeablePhysics,
    Endings,
    MeasuredColumns,
    ObservationKeys,
    Pictures,
    Restored,
    has_ended,
    score_states,
)

# Actions that lead to goals, where no planner does.
RANDOM = "random"
# Arrays of a file, and how many axes they have.
_ARRAYS = {"goals": 2, "actions": 3}
_WRITE = 'np.savez("goals.npz", goals=goals, within=0.1)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """Where the goals of a task come from, and when they are reached.

    ``file`` is an ``.npz`` with ``goals`` [N, G], of which episode ``i`` has row ``i``, or recorded
    ``actions`` [N, T, A]; it may also say ``within``, ``columns`` and ``offset``. Without a file, a
    goal is drawn: it is where ``offset`` true steps lead from the start, of random actions or of a
    planner that plans ``by`` the task's own score.

    >>> Goals(offset=25, within=0.1, columns=[0, 1])
    Goals(offset=25, within=0.1, columns=(0, 1))
    """

    file: str | None = None
    offset: int | None = None
    by: Any = RANDOM
    #: The distance at which a goal is reached, and the columns of an observation that it is of;
    #: None takes all.
    within: float | None = None
    columns: Sequence[int] | None = None
    _arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("offset", "within"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, np.integer) if name == "offset" else (int, float))
            if value is not None and (not is_number or isinstance(value, bool) or not value > 0):
                kind = "whole number of steps" if name == "offset" else "distance"
                raise ValueError(f"{name} must be a {kind} above 0, got {value!r}")
        if self.columns is not None:
            columns = np.asarray(self.columns)
            is_list = columns.ndim == 1 and columns.size and columns.dtype.kind in "iu"
            if not is_list or columns.min() < 0 or len({*columns.tolist()}) < columns.size:
                raise ValueError(
                    f"columns must be places in an observation, such as (0, 1), got "
                    f"{self.columns!r}"
                )
            object.__setattr__(self, "columns", tuple(columns.tolist()))
        if self.file is None and self.offset is None:
            raise ValueError(
                'need a file, goals="goals.npz", or offset=25, after how many true steps from its '
                "start the goal of an episode is"
            )
        if not isinstance(self.by, (str, Planner)) or isinstance(self.by, type):
            raise ValueError(f'by must be "random" or a planner, got {self.by!r}')
        if self.file is not None and self.by != RANDOM:
            raise ValueError("a file has its goals or actions, and by= draws others: leave one out")

    def __repr__(self) -> str:
        usual = {"file": None, "offset": None, "by": RANDOM, "within": None, "columns": None}
        changed = [
            f"{name}={getattr(self, name)!r}"
            for name, value in usual.items()
            if getattr(self, name) != value
        ]
        return f"Goals({', '.join(changed)})"

    @classmethod
    def of(cls, value: Any) -> Goals:
        """Return what a marker says: goals, the path of a file, or the settings of drawn ones."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(file=value)
        names = ("file", "offset", "by", "within", "columns")
        if isinstance(value, Mapping) and set(value) <= set(names):
            return cls(**value)
        raise ValueError(
            f'need the path of a file, "goals.npz", or {{"offset": 25, "within": 0.1}}, with any '
            f"of {', '.join(names)}, got {value!r}"
        )

    def loaded(self) -> Goals:
        """Return goals with what their file says; raise ValueError where there are none to have."""
        goals = self if self.file is None else self._read()
        if goals.within is None:
            into = "" if self.file is None else f", or write it into the file: {_WRITE}"
            raise ValueError(
                f'nothing says when a goal is reached. Give within=, a distance, such as {{"within"'
                f": 0.1, ...}}{into}"
            )
        return goals

    def _read(self) -> Goals:
        try:
            with np.load(Path(str(self.file)), allow_pickle=False) as file:
                held = {name: np.asarray(file[name]) for name in file.files}
        except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
            why = getattr(error, "strerror", None) or error
            raise ValueError(f"cannot read {self.file!r}: {why}. Write it by {_WRITE}") from None
        arrays = {name: held[name] for name in _ARRAYS if name in held}
        if len(arrays) != 1:
            raise ValueError(
                f"{self.file!r} needs goals [N, G] or actions [N, T, A], and has "
                f"{', '.join(map(repr, held)) or 'nothing'}. Write it by {_WRITE}"
            )
        ((name, array),) = arrays.items()
        shape = list(array.shape)
        if array.ndim != _ARRAYS[name] or not array.size or array.dtype.kind not in "iuf":
            wanted = "[N, G], a row for each start" if name == "goals" else "[N, T, A]"
            raise ValueError(
                f"{self.file!r} has {name} of shape {shape} and type {array.dtype}; need numbers "
                f"{wanted}, none of them 0"
            )
        if not np.isfinite(array).all():
            row = int(np.argwhere(~np.isfinite(array))[0, 0])
            raise ValueError(f"{self.file!r}: {name} must be finite, row {row} is {array[row]}")
        said: dict[str, Any] = {
            key: held[key].tolist()
            for key in ("within", "columns", "offset")
            if key in held and getattr(self, key) is None
        }
        if name == "actions":
            said.setdefault("offset", self.offset or array.shape[1])
            if said["offset"] > array.shape[1]:
                raise ValueError(
                    f"offset={said['offset']} is more than the {array.shape[1]} actions of each "
                    f"row of {self.file!r}. Write offset={array.shape[1]}, or less."
                )
        array = np.asarray(array, dtype=np.float64)
        return replace(self, **said, _arrays=MappingProxyType({name: array}))

    @property
    def listed(self) -> FloatArray | None:
        """Goals [N, G] of a file."""
        return self._arrays.get("goals")

    @property
    def recorded(self) -> FloatArray | None:
        """Actions [N, T, A] of a file that lead to goals."""
        return self._arrays.get("actions")

    @property
    def written(self) -> str:
        """What they are, in the name of a task."""
        over = "" if self.columns is None else f" in {' '.join(map(str, self.columns))}"
        steps = "" if self.offset is None else f"after {self.offset} steps "
        if self.file is None:
            by = "random" if self.by == RANDOM else self.by.name
            return f"goals={steps}{by}, within={self.within:g}{over}"
        digest = hashlib.sha256()
        for array in self._arrays.values():
            digest.update(repr(array.shape).encode() + array.tobytes())
        name = Path(self.file).name
        return f"goals={steps}{name} {digest.hexdigest()[:6]}, within={self.within:g}{over}"

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what was read: the file need not be where it is sent."""
        names = ("file", "offset", "by", "within", "columns")
        fields = {name: getattr(self, name) for name in names}
        return _rebuilt, (fields, dict(self._arrays))


def _rebuilt(fields: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Goals:
    return Goals(**fields, _arrays=MappingProxyType(arrays))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GoalTask:
    """A task whose episodes are to reach goals; see `Task`.

    A state [S] is the inner task's and the goal [G], and so is an observation [O].
    """

    inner: Task
    goals: Goals
    name: str = ""

    def __post_init__(self) -> None:
        plain, _, inside = str(self.inner.name).partition(" (")
        said = [*filter(None, [inside.removesuffix(")")]), self.goals.written]
        object.__setattr__(self, "name", f"{plain} ({', '.join(said)})")
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
        is_box = isinstance(self.actions, BoxActions)
        if (
            recorded is not None
            and is_box
            and not np.array_equal(recorded, np.clip(recorded, self.actions.low, self.actions.high))
        ):
            raise ComponentError(
                f"goals: {self.goals.file!r} has actions from {recorded.min():g} to "
                f"{recorded.max():g}, and those of {plain} lie between {self.actions.low} and "
                f"{self.actions.high}. Write them as the environment's step takes them."
            )
        if (self.goals.offset or 0) > self.budget:
            raise ComponentError(
                f"goals: offset={self.goals.offset} is more than the {self.budget} steps of an "
                f"episode. Write budget={2 * int(self.goals.offset or 0)}."
            )

    @property
    def actions(self) -> ActionSpace:
        """What can be done at every step."""
        return self.inner.actions

    @property
    def observation_size(self) -> int:
        """Numbers in one observation: the inner task's, and the goal's."""
        return self.inner.observation_size + self._size

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

    @property
    def action_repeat(self) -> int | None:
        """How many control steps an action is held for."""
        return self.inner.action_repeat if has(self.inner, ActionRepeat) else None

    @property
    def restored_by(self) -> str | None:
        """The way in which the environment is put back into a state."""
        return self.inner.restored_by if has(self.inner, Restored) else None

    @property
    def measured(self) -> IntArray | None:
        """The columns of a state that are measured."""
        return self.inner.measured if has(self.inner, MeasuredColumns) else None

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
        return {**inner, "goal of the gate" if "goal" in inner else "goal": self._size}

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
        return (
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
        """Draws states [B, S] as the inner task does."""
        inner = self.inner
        if not has(inner, Pictures):
            return None
        return lambda states: inner.render(self._inner(states))

    @property
    def terminated(self) -> Callable[[FloatArray], BoolArray] | None:
        """Says of states [..., S] whether the episode is over."""
        inner = self.inner
        return (
            (lambda states: has_ended(inner, self._inner(states))) if has(inner, Endings) else None
        )

    def reset(self, seeds: IntArray) -> FloatArray:
        """Return a start and a goal for each seed [N]: states [N, S]; of a file any goal."""
        states = self.inner.reset(seeds)
        listed, recorded = self.goals.listed, self.goals.recorded
        of_file = listed if listed is not None else recorded
        rows = np.zeros(len(seeds), dtype=np.int64)
        if of_file is not None:
            rows = np.array([Stream.GOAL.of(int(s)).integers(len(of_file)) for s in seeds], int)
        return self._joined(states, self._goals(states, seeds, rows))

    def at_episodes(self, states: FloatArray, episodes: IntArray) -> FloatArray:
        """Return starts [N, S] with the goals that a file has for these episodes [N].

        Raises TaskError where it has too few.
        """
        of_file = self.goals.listed if self.goals.listed is not None else self.goals.recorded
        if of_file is None:
            return states
        if episodes.max() >= len(of_file):
            raise TaskError(
                f"{self.name}: {self.goals.file} has {len(of_file)} goals, and the gate "
                f"{episodes.max() + 1} starts or more. Write episodes={len(of_file)}, or give a "
                f"goal for each."
            )
        inner = self._inner(states)
        return self._joined(inner, self._goals(inner, episodes, episodes))

    def goal(self, states: FloatArray) -> FloatArray:
        """Return the goals [..., G] of states [..., S]."""
        return np.array(states[..., -self._size :])

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        return self._joined(self.inner.step(self._inner(states), actions), self.goal(states))

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        after = self.inner.rollout(self._inner(states), actions)
        return self._joined(after, np.repeat(self.goal(states)[:, None], after.shape[1], axis=1))

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O], which end in the goal."""
        return self._joined(self.inner.observe(self._inner(states)), self.goal(states))

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by the Euclidean distance to their goal [...]."""
        size, columns = self.inner.observation_size, self.goals.columns
        seen, goal = observations[..., :size], observations[..., size:]
        if columns is not None:
            seen = seen[..., list(columns)]
            goal = goal if goal.shape[-1] == len(columns) else goal[..., list(columns)]
        return np.asarray(np.sqrt(np.sum((seen - goal) ** 2, axis=-1)))

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the inner task's reward [...]."""
        return self.inner.reward(self._inner(states), actions)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether states [..., S] are near enough to their goals."""
        del actions
        return np.asarray(self.score(self.observe(states)) <= (self.goals.within or 0.0))

    @property
    def _size(self) -> int:
        listed = self.goals.listed
        return self.inner.observation_size if listed is None else listed.shape[1]

    def _inner(self, states: FloatArray) -> FloatArray:
        return states[..., : -self._size]

    def _joined(self, parts: FloatArray, goals: FloatArray) -> FloatArray:
        # A diverged row is NaN as a whole.
        lost = np.isnan(parts).all(axis=-1, keepdims=True)
        return np.concatenate([parts, np.where(lost, np.nan, goals)], axis=-1)

    def _goals(self, states: FloatArray, seeds: IntArray, rows: IntArray) -> FloatArray:
        """Return a goal [N, G] for each start, inner states [N, I]; of a file by these rows [N]."""
        goals = self.goals
        if goals.listed is not None:
            return goals.listed[rows]
        offset = int(goals.offset or 0)
        if goals.by != RANDOM:
            ends = [self._led(state, int(seed)) for state, seed in zip(states, seeds, strict=True)]
            return self.inner.observe(np.stack(ends))
        if goals.recorded is not None:
            actions = goals.recorded[rows, :offset]
        else:
            rngs = [Stream.GOAL.of(int(seed)) for seed in seeds]
            actions = self.actions.sample(rngs, (offset,))
        reached = self.inner.observe(self.inner.rollout(states, actions))[:, -1]
        if np.isnan(reached).any():
            raise TaskError(
                f"{self.name}: the simulator diverged on the way to a goal. Draw goals of fewer "
                f"steps, by offset=."
            )
        return reached

    def _led(self, state: FloatArray, seed: int) -> FloatArray:
        """Return where a planner leads from an inner state [I]."""
        offset, planner, memory = int(self.goals.offset or 0), self.goals.by, None
        rng, truth, at = Stream.GOAL.of(seed), _Truth(self.inner), 0
        while at < offset:
            warm = {"memory": memory} if is_warm_started(planner) else {}
            plans = planner.plan(truth, state[None], [rng], np.array([offset - at]), **warm)
            memory = plans.memory
            for action in plans.actions[0, : int(plans.lengths[0])]:
                state = self.inner.step(state[None], action[None])[0]
                at += 1
        return state


class _Truth:
    """The true dynamics as a planner sees them; states are latents."""

    def __init__(self, task: Task) -> None:
        self._task, self.actions = task, task.actions

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        return self._task.rollout(latents, actions)

    def score(self, latents: FloatArray) -> FloatArray:
        return np.nan_to_num(score_states(self._task, latents), nan=np.inf)


def with_goals(make: TaskFactory, goals: Goals) -> TaskFactory:
    """Return what makes a task with goals; it takes the same options."""

    def made(**options: Any) -> Task:
        return GoalTask(inner=make(**options), goals=goals)

    described: Any = made
    described.__signature__ = signature(make)
    return made

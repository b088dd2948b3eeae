"""Goals: places that episodes are to reach, for tasks that have no goals of their own.

A goal is an observation, or some columns of one. It is listed in a file, drawn as the place that a
few true steps from the start lead to, or recorded with the start in an episode of others.
It is part of a start and of all that is observed. States are rated by their distance to it, and a
threshold is the success.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray, IntArray, Planner, Plans, Task, TaskError
from pytest_cpg.contracts.planner import is_warm_started
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import score_states
from pytest_cpg.tasks.recordings import MARKS, WRITE, Recording

# Actions that lead to goals, where no planner does.
RANDOM = "random"
# Arrays of a file, and how many axes they have.
_ARRAYS = {"goals": 2, "actions": 3}
# What a file may say beside them. Of these objects are refused, and of others left out.
_SAID = ("within", "columns", "offset")
_KNOWN = (*_ARRAYS, *MARKS, *_SAID)
# Of recorded episodes [N, T, K]; pictures have more.
_MOST_AXES = 3
_WRITE = 'np.savez("goals.npz", goals=goals, within=0.1)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Goals:
    """Where the goals of a task come from, and when they are reached.

    ``file`` is an ``.npz`` with ``goals`` [N, G], of which episode ``i`` has row ``i``; with
    ``actions`` [N, T, A]; or with recorded episodes, where starts come from, too. It may also say
    ``within``, ``columns`` and ``offset``. Without a file, a goal is drawn: it is where ``offset``
    true steps lead from the start, of random actions or of a planner that plans ``by`` the task's
    own score.

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
    #: Recorded episodes, where starts and goals come from.
    recording: Recording | None = field(default=None, repr=False)
    _arrays: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("offset", "within"):
            value = getattr(self, name)
            is_number = isinstance(value, Integral if name == "offset" else Real)
            is_right = is_number and not isinstance(value, bool) and 0 < value < np.inf
            if value is not None and not is_right:
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
        if isinstance(self.file, os.PathLike):
            object.__setattr__(self, "file", os.fspath(self.file))
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
        changed = [
            f"{part.name}={getattr(self, part.name)!r}"
            for part in fields(self)
            if part.repr and getattr(self, part.name) != part.default
        ]
        return f"Goals({', '.join(changed)})"

    @classmethod
    def of(cls, value: Any) -> Goals:
        """Return what a marker says: goals, the path of a file, or the settings of drawn ones."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str | os.PathLike):
            return cls(file=os.fspath(value))
        names = [part.name for part in fields(cls) if part.repr]
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
        """Return goals with what is in their file, which wins nothing over what was said."""
        held = _held(str(self.file))
        said: dict[str, Any] = {
            key: held.pop(key).tolist()
            for key in _SAID
            if key in held and getattr(self, key) is None
        }
        marks = [name for name in MARKS if name in held]
        arrays = {name: held[name] for name in _ARRAYS if name in held}
        has_goals_twice = bool(marks) and "goals" in arrays
        has_no_goals = not marks and len(arrays) != 1
        if has_goals_twice or has_no_goals:
            raise ValueError(
                f"{self.file!r} needs goals [N, G], actions [N, T, A], or recorded states, "
                f"observations and actions with offset=, and has "
                f"{', '.join(map(repr, held)) or 'nothing'}. Write it by {_WRITE}"
            )
        if marks:
            goals = replace(self, **said)
            if goals.offset is None:
                raise ValueError(
                    f"{self.file!r} has recorded episodes, and nothing says how many steps after "
                    f'its start a goal was recorded. Write goals={{"file": {self.file!r}, '
                    f'"offset": 25, "within": ...}}'
                )
            name = Path(str(self.file)).name
            return replace(goals, recording=Recording.of(held, name=name, offset=goals.offset))
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
        if name == "actions":
            said.setdefault("offset", self.offset or array.shape[1])
        goals = replace(self, **said, _arrays={name: np.asarray(array, dtype=np.float64)})
        if name == "actions" and (goals.offset or 0) > array.shape[1]:
            raise ValueError(
                f"offset={goals.offset} is more than the {array.shape[1]} actions of each row of "
                f"{self.file!r}. Write offset={array.shape[1]}, or less."
            )
        return goals

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
            by = "random" if self.by == RANDOM else repr(self.by)
            return f"goals={steps}{by}, within={self.within:.12g}{over}"
        name = Path(self.file).name
        if self.recording is not None:
            return f"goals={steps}{name} {self.recording.digest}, within={self.within:.12g}{over}"
        digest = hashlib.sha256()
        for array in self._arrays.values():
            digest.update(repr(array.shape).encode() + array.tobytes())
        return f"goals={steps}{name} {digest.hexdigest()[:6]}, within={self.within:.12g}{over}"


def _held(path: str) -> dict[str, npt.NDArray[Any]]:
    """Return the numbers that an ``.npz`` holds, by name, but for pictures; else raise ValueError.

    Pictures may be larger than what memory there is.
    """
    try:
        loaded = np.load(Path(path), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise ValueError("it is one array without a name")
        with loaded as file:
            return {name: np.asarray(file[name]) for name in file.files if _has_rows(file, name)}
    except (
        OSError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        MemoryError,
    ) as error:
        why = getattr(error, "strerror", None) or error
        raise ValueError(
            f"cannot read {path!r}: {why}. Write it by {_WRITE}, or recorded episodes by {WRITE}"
        ) from None


def _has_rows(file: Any, name: str) -> bool:
    """Tell whether an array of an ``.npz`` is one of rows, by its first bytes."""
    if name in _ARRAYS or f"{name}.npy" not in file.zip.namelist():
        return True
    layout = np.lib.format
    with file.zip.open(f"{name}.npy") as member:
        is_old = layout.read_magic(member) == (1, 0)
        read = layout.read_array_header_1_0 if is_old else layout.read_array_header_2_0
        shape, _, kind = read(member)
        return len(shape) <= _MOST_AXES and (name in _KNOWN or not kind.hasobject)


def planned_states(task: Task, goals: Goals, states: FloatArray, seeds: IntArray) -> FloatArray:
    """Return the states [N, S] that the planner of some goals leads to from those of a task."""
    pairs = zip(states, seeds, strict=True)
    return np.stack([_planned_state(task, goals, state, int(seed)) for state, seed in pairs])


def _planned_state(task: Task, goals: Goals, state: FloatArray, seed: int) -> FloatArray:
    offset, planner, memory = int(goals.offset or 0), goals.by, None
    rng, truth, at = Stream.GOAL.of(seed), _Truth(task), 0
    while at < offset:
        warm = {"memory": memory} if is_warm_started(planner) else {}
        plan = planner.plan(truth, state[None], [rng], np.array([offset - at]), **warm)
        plans = Plans(*plan)
        memory = plans.memory
        if not task.actions.contains(plans.actions).all():
            raise TaskError(
                f"{task.name}: the planner that draws goals returned actions that are none of the "
                f"task's, of shape {np.shape(plans.actions)}. Take them from world_model.actions."
            )
        # A planner that returns no actions is told by the arm that it plans in.
        for action in plans.actions[0, : max(1, int(plans.lengths[0]))]:
            state = task.step(state[None], action[None])[0]
            at += 1
    return state


class _Truth:
    """The true dynamics as a planner sees them; states are latents."""

    members = None

    def __init__(self, task: Task) -> None:
        self._task, self.actions = task, task.actions

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        return self._task.rollout(latents, actions)

    def score(self, latents: FloatArray) -> FloatArray:
        return np.nan_to_num(score_states(self._task, latents), nan=np.inf)

"""Recordings: episodes that somebody recorded, in whose states the episodes of a gate begin."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, ComponentError, FloatArray, IntArray, Task
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import ActionRepeat, MeasuredColumns

# Arrays that tell a recording from a list of goals or of actions; its steps are those of the first.
MARKS = ("observations", "states", "state", "qpos")
# Of these a task is put into a state, in this order.
_STATES = ({"states"}, {"state"}, {"qpos", "qvel"})
# What is true at the last step of an episode, by the names of D4RL, OGBench, Minari and others.
_ENDS = ("terminals", "timeouts", "terminations", "truncations")
# Recorded steps that a task is held to, the share of what they change that it may be off by, and
# how many of them may be farther off. Of 48 recorded steps of Push-T, whose states leave out a
# velocity, two were; of those of OGBench and MuJoCo, rounded to float32, none.
CHECKED, _OFF, _MOST_OFF = 16, 0.1, 4
# The same share where an episode is cut in the middle: what follows is a start, and no step.
_CUT, _MOST_CUTS = 0.8, 1
_NEEDED = (*MARKS, "qvel", "actions")
WRITE = 'np.savez("data.npz", observations=..., states=..., actions=...)'


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recording:
    """Recorded episodes of a file, one behind the other.

    Shapes: ``M`` steps of all episodes, ``K`` numbers of one.
    """

    #: Of the file.
    name: str
    #: [M, K] by name; actions that nobody wrote down are NaN.
    arrays: Mapping[str, npt.NDArray[Any]]
    #: [M]: The last step of each step's episode.
    ends: IntArray
    #: Steps after which the goal was recorded, and the steps that so many others follow.
    offset: int
    starts: IntArray
    #: What tells it from others.
    digest: str
    #: [O]: Which numbers of an observation change in no episode, such as a goal.
    fixed: BoolArray
    #: What the file has that is no number of each step, with its shape.
    others: tuple[str, ...] = ()

    @classmethod
    def of(cls, held: Mapping[str, npt.NDArray[Any]], *, name: str, offset: int) -> Recording:
        """Return what a file held; raise ValueError for what makes up no episodes."""
        first = next(mark for mark in MARKS if mark in held)
        if not held[first].size or not held[first].ndim:
            raise ValueError(f"{name!r} has no {first}: they are of shape {[*held[first].shape]}")
        axes = 1 if held[first].ndim < 3 else 2
        lead = held[first].shape[:axes]
        arrays = {key: _flat(key, array, lead, name) for key, array in held.items()}
        kept = {key: array for key, array in arrays.items() if array is not None}
        ends = _ends(kept, lead, name)
        lengths = ends - np.arange(len(ends))
        if not (longest := int(lengths.max())):
            raise ValueError(
                f"{name!r} has no episode of two steps. Write terminals [M], true at the last step "
                f"of each episode alone, or arrays [N, T, ...] of N episodes of T steps"
            )
        if longest < offset:
            raise ValueError(
                f"{name!r} has no step that {offset} others of its episode follow: the longest of "
                f"its episodes has {longest + 1} steps. Write offset={longest}, or less"
            )
        if (taken := kept.get("actions")) is not None:
            lost = np.flatnonzero(~np.isfinite(taken).all(axis=1) & (lengths > 0))
            if lost.size:
                raise ValueError(
                    f"{name!r}: actions must be finite but at the last step of an episode, step "
                    f"{lost[0]} is {taken[lost[0]]}. Leave out actions that nobody wrote down"
                )
        digest = hashlib.sha256()
        for key, array in sorted(kept.items()):
            digest.update(f"{key}{array.shape}".encode() + np.ascontiguousarray(array).data)
        return cls(
            name=name,
            arrays=kept,
            ends=ends,
            offset=offset,
            starts=np.flatnonzero(lengths >= offset),
            digest=digest.hexdigest()[:6],
            fixed=_fixed(kept.get("observations"), ends),
            others=tuple(f"{key} {[*held[key].shape]}" for key in held if key not in kept),
        )

    def __repr__(self) -> str:
        return f"{self.name} {self.digest} after {self.offset} steps"

    def rows(self, seeds: IntArray) -> IntArray:
        """Return at which recorded step the start of each seed [N] is: [N]."""
        drawn = [Stream.GOAL.of(int(seed)).integers(len(self.starts)) for seed in seeds]
        return self.starts[np.array(drawn, dtype=np.int64)]

    def states(self, rows: IntArray) -> FloatArray | None:
        """Return states [N, K] at recorded steps [N], of positions and velocities if need be."""
        names = next((names for names in _STATES if names <= self.arrays.keys()), None)
        if names is None:
            return None
        parts = [self.arrays[name][rows] for name in sorted(names)]
        return np.asarray(np.concatenate(parts, axis=1), dtype=np.float64)

    @property
    def names(self) -> str:
        """What was recorded, for a message."""
        sizes = ", ".join(f"{name} [{array.shape[1]}]" for name, array in self.arrays.items())
        return sizes + f", and {', '.join(self.others)} not of each step" * bool(self.others)


class RecordedStarts(Protocol):
    """A task whose simulator knows by itself how to get into a recorded state."""

    def beginning_in(self, recording: Recording) -> Task:
        """Return the task each of whose starts is the recorded step that its seed stands for."""
        ...

    def recorded(self, states: FloatArray, rows: IntArray) -> FloatArray:
        """Return observations [N, O] at recorded steps [N] of the episodes of starts [N, S]."""
        ...

    def recorded_goals(self, states: FloatArray) -> FloatArray:
        """Return states [N, S], to be drawn, at the goals of episodes with starts [N, S]."""
        ...


def placed(task: Task, states: FloatArray, recording: Recording, rows: IntArray) -> FloatArray:
    """Return states [N, S] of a task, put where it was at recorded steps [N].

    What is recorded are its states, or the numbers of them that are measured. Raises ComponentError
    for anything else.
    """
    numbers = recording.states(rows)
    if numbers is not None:
        if numbers.shape[1] == states.shape[1]:
            return numbers
        measured = task.measured if has(task, MeasuredColumns) else ()
        if numbers.shape[1] == len(measured):
            states = states.copy()
            states[:, measured] = numbers
            return states
    sizes = f"states of {states.shape[1]} numbers, as reset returns them"
    if has(task, MeasuredColumns):
        sizes += f", or qpos and qvel of {len(task.measured)}"
    raise ComponentError(
        f"goals: episodes of {task.name} cannot begin at what is in {recording.name!r}, which has "
        f"{recording.names}. Record {sizes}; or give goals alone, and the task its own starts: "
        f'np.savez("goals.npz", goals=..., within=...).'
    )


def begun(task: Task, recording: Recording | None, seeds: IntArray) -> FloatArray:
    """Return a task's starts [N, S] of seeds [N], in recorded states where there are any."""
    states = task.reset(seeds)
    if recording is None or has(task, RecordedStarts):
        return states
    return placed(task, states, recording, recording.rows(seeds))


def observed_at(task: Task, states: FloatArray, recording: Recording, rows: IntArray) -> FloatArray:
    """Return what is observed [N, O] at recorded steps [N] of the episodes of starts [N, S]."""
    if has(task, RecordedStarts):
        return task.recorded(states, rows)
    return task.observe(placed(task, states, recording, rows))


def agreeing_steps(task: Task, recording: Recording) -> int | None:
    """Return how many of `CHECKED` recorded steps lead where they led; None without actions.

    Raises ComponentError where more than a quarter do not.
    """
    taken = recording.arrays.get("actions")
    repeat = task.action_repeat if has(task, ActionRepeat) else None
    single: Any = task
    if repeat not in (None, 1) and is_dataclass(single):
        single = replace(single, action_repeat=1)  # type: ignore[type-var]  # no class
    if taken is None:
        begun(single, recording, np.arange(CHECKED))
        return None
    if taken.shape[1] != single.actions.size:
        raise ComponentError(
            f"goals: {recording.name!r} has actions of {taken.shape[1]} numbers, and those of "
            f"{single.name} have {single.actions.size}."
        )
    elsewhere, text = _elsewhere(single, recording, taken, share=_OFF)
    if (count := len(elsewhere)) > _MOST_OFF:
        raise ComponentError(
            f"goals: {recording.name!r} was not recorded of {single.name}: {text} Of {CHECKED} "
            f"recorded steps {count} lead elsewhere. Record of this task the state before each "
            f"action, and the action as its step takes it."
        )
    largest = replace(recording, starts=_jumps(recording), digest=f"{recording.digest} jumps")
    if has(single, RecordedStarts):
        single = single.beginning_in(largest)
    elsewhere, text = _elsewhere(single, largest, taken, share=_CUT)
    if len({*elsewhere.tolist()}) > _MOST_CUTS:
        raise ComponentError(
            f"goals: {recording.name!r} has episodes that are cut at wrong places: {text} Mark "
            f"the last step of each episode, and not the first of the next."
        )
    return CHECKED - count


def _elsewhere(
    task: Task, recording: Recording, actions: npt.NDArray[Any], *, share: float
) -> tuple[IntArray, str]:
    """Return recorded steps that are off by more than a share of what changed; one in words."""
    seeds = np.arange(CHECKED)
    rows, states = recording.rows(seeds), begun(task, recording, seeds)
    before, after = (observed_at(task, states, recording, r) for r in (rows, rows + 1))
    steps = task.observe(task.step(states, np.asarray(actions[rows], dtype=np.float64)))
    moved, off = np.abs(after - before), np.abs(steps - after)
    # As much as rounding to float32 does where nothing moves.
    rounding = 1e-6 * (1 + np.abs(before).sum(axis=1))
    is_off = ~(off.sum(axis=1) <= share * moved.sum(axis=1) + rounding)
    if not is_off.any():
        return rows[is_off], ""
    row = int(np.flatnonzero(is_off)[0])
    column = int(np.nanargmax(off[row])) if np.isfinite(off[row]).any() else 0
    return rows[is_off], (
        f"its action of step {rows[row]} leads from {before[row, column]:g} to "
        f"{steps[row, column]:g} in column {column} of what is observed, and "
        f"{after[row, column]:g} was recorded."
    )


def _jumps(recording: Recording) -> IntArray:
    """Return the steps of episodes after which most changes."""
    seen = recording.arrays[next(mark for mark in MARKS if mark in recording.arrays)]
    inside = np.flatnonzero(recording.ends > np.arange(len(seen)))
    changes = np.abs(seen[inside + 1] - seen[inside]).sum(axis=1)
    return np.sort(inside[np.argsort(-changes, kind="stable")[:CHECKED]])


def _flat(
    key: str, array: npt.NDArray[Any], lead: tuple[int, ...], name: str
) -> npt.NDArray[Any] | None:
    """Return an array of all steps as rows [M, K], or None for what is of something else."""
    shape, is_needed = array.shape, key in _NEEDED
    # Of N episodes of T steps the ends are known.
    is_needed |= len(lead) == 1 and key in _ENDS
    if array.dtype.kind not in "biuf":
        if not is_needed:
            return None
        raise ValueError(f"{name!r}: {key} must be numbers, got type {array.dtype}")
    is_short = len(lead) == 2 and shape[:2] == (lead[0], lead[1] - 1)
    if is_short and key == "actions":
        # Nobody acts on the last observation.
        after = [(0, 0), (0, 1), *[(0, 0)] * (array.ndim - 2)]
        array = np.pad(array.astype(np.float64), after, constant_values=np.nan)
    elif shape[: len(lead)] != lead:
        if not is_needed:
            return None
        raise ValueError(
            f"{name!r} has {key} of shape {[*shape]}, and others of {[*lead]} steps. Write all of "
            f"[N, T, ...], N episodes of T steps, or [M, ...] with terminals [M]: {WRITE}"
        )
    flat = array.reshape(int(np.prod(lead)), -1)
    if is_needed and key != "actions" and not np.isfinite(flat).all():
        row = int(np.argwhere(~np.isfinite(flat))[0, 0])
        raise ValueError(f"{name!r}: {key} must be finite, step {row} is {flat[row]}")
    return flat


def _ends(arrays: Mapping[str, npt.NDArray[Any]], lead: tuple[int, ...], name: str) -> IntArray:
    """Return the last step of each step's episode [M]."""
    count = int(np.prod(lead))
    if len(lead) == 2:
        return np.repeat(np.arange(lead[1] - 1, count, lead[1]), lead[1])
    marks = [arrays[key][:, 0] != 0 for key in _ENDS if key in arrays]
    if not marks:
        raise ValueError(
            f"{name!r} does not say where its episodes end. Write terminals [M] beside them, true "
            f"at the last step of each, or arrays [N, T, ...] of N episodes"
        )
    is_last = np.logical_or.reduce(marks)
    if not is_last.any():
        named = " or ".join(key for key in _ENDS if key in arrays)
        raise ValueError(
            f"{name!r} does not say where its episodes end: no {named} are true. Write timeouts "
            f"[M], true at the last step of each, or arrays [N, T, ...] of N episodes. Of a single "
            f"episode mark the last step: timeouts[-1] = True"
        )
    last = np.append(np.flatnonzero(is_last), count - 1)
    return last[np.searchsorted(last, np.arange(count))]


def _fixed(observed: npt.NDArray[Any] | None, ends: IntArray) -> BoolArray:
    if observed is None:
        return np.zeros(0, dtype=bool)
    is_one = ends[1:] == ends[:-1]
    return np.asarray((observed[1:][is_one] == observed[:-1][is_one]).all(axis=0))

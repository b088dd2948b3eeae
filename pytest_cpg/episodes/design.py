"""Design: everything but the dynamics, and where episodes begin: what all arms of a gate share."""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray, Planner, Task, TaskError
from pytest_cpg.contracts.codec import encode
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import (
    LeastReturn,
    ListedGoals,
    RewardThreshold,
    SuccessSource,
    score_states,
)
from pytest_cpg.episodes.arm import Metric
from pytest_cpg.episodes.perturbations import Perturbation
from pytest_cpg.tasks.options import check_least_return

StartMode: TypeAlias = Literal["sampled", "fixed"]
T = TypeVar("T")
# In the repr of a planner that has none of its own: where it lay in memory.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRecord:
    """A design as reports and files hold it: what two results must share to be compared.

    Not in it are the seed, with which episode ``i`` has one start, and what decides only how many
    episodes are run, and how they are judged. Horizon and budget are in steps, the control period
    in seconds of simulated time; an empty perturbation is none.
    """

    task: str
    planner: str
    starts: StartMode
    budget: int
    horizon: int
    control_period: float
    versions: Mapping[str, str]
    metric: Metric = "success"
    perturbation: str = ""

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise ValueError(f"need a budget of at least 1 step, got {self.budget!r}")

    @property
    def key(self) -> dict[str, Any]:
        """All of it as plain values: the same for the same design in any process and release."""
        values: dict[str, Any] = encode(self)
        values["planner"] = _ADDRESS.sub("", self.planner)
        if not self.perturbation:
            del values["perturbation"]
        return values

    @property
    def short_hash(self) -> str:
        """Twelve hexadecimal digits that tell designs apart."""
        text = json.dumps(self.key, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def changes(self, now: DesignRecord) -> list[str]:
        """Return one clause, ``"what old -> new"``, for each difference."""
        old, new = ({"perturbation": "", **record.key} for record in (self, now))
        before, after = old.pop("versions"), new.pop("versions")
        pairs = [(name.replace("_", " "), old[name], new[name]) for name in old]
        pairs += [
            (package, before.get(package, "none"), after.get(package, "none"))
            for package in sorted({*before, *after})
        ]
        return [
            f"{name} {then or 'none'} -> {today or 'none'}"
            for name, then, today in pairs
            if then != today
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Everything but the dynamics: what all arms of a gate share.

    Starts are from the task's own distribution, or all from one state; ``level`` is the coverage of
    the intervals. Episodes judged by their return go on after a success. What goes wrong in the
    real steps of every arm is the perturbation.
    """

    task: Task
    planner: Planner
    episodes: int
    seed: int
    starts: StartMode = "sampled"
    level: float = 0.95
    metric: Metric = "success"
    perturbation: Perturbation | None = None

    @property
    def record(self) -> DesignRecord:
        """What it is, in plain values: a user's task may give numpy's, which JSON does not know."""
        return DesignRecord(
            task=str(self.task.name),
            planner=repr(self.planner),
            starts=self.starts,
            metric=self.metric,
            budget=int(self.task.budget),
            horizon=int(self.planner.horizon),
            control_period=float(self.task.control_period),
            versions={str(name): str(version) for name, version in self.task.versions.items()},
            perturbation="" if self.perturbation is None else self.perturbation.name,
        )


def replaced(kind: str, component: T, name: str, value: Any) -> T:
    """Return a component with one field changed, or raise ValueError when it cannot be."""
    if value is None or getattr(component, name, None) == value:
        return component
    if is_dataclass(component) and name in {field.name for field in fields(component)}:
        return replace(component, **{name: value})  # type: ignore[type-var]  # checked above
    raise ValueError(f"{name}: set it on the {kind} itself, {component!r} cannot be changed")


# A task whose starts are solved this often in a row is not one that needs planning.
_MOST_SKIPS = 100


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Starts:
    """Where the episodes [N] of a gate begin, states [N, S], and how many were skipped."""

    episodes: IntArray
    states: FloatArray
    seeds: IntArray
    skipped: int

    def take(self, rows: IntArray) -> Starts:
        """Return the starts of these rows."""
        return Starts(
            episodes=self.episodes[rows],
            states=self.states[rows],
            seeds=self.seeds[rows],
            skipped=self.skipped,
        )


def sample_starts(task: Task, episodes: int, *, seed: int, fixed: bool = False) -> Starts:
    """Return one start per episode, none of which is solved already.

    A start counts as solved when one idle step from it succeeds: planning had no part in that. Such
    a start is replaced by the next one of the same episode's stream, and counted. Where returns are
    the goal none is. All are the task's start number 0 where they are ``fixed``. Raises TaskError
    when an episode finds no unsolved start in 100 tries, the goal of returns is no number, or a
    method of the task breaks its contract.
    """
    try:
        check_least_return(task.least_return if has(task, LeastReturn) else None)
    except ValueError as error:
        raise TaskError(f"{task.name}: {error}") from None
    indices = np.arange(episodes)
    seeds = np.zeros(episodes, dtype=np.int64)
    pending = indices
    states: FloatArray | None = None
    skipped = 0
    for attempt in range(_MOST_SKIPS):
        streams = [Stream.START.sequence(seed, int(episode), attempt) for episode in pending]
        seeds[pending] = [attempt if fixed else int(s.generate_state(1)[0]) for s in streams]
        if states is None:
            states = starts_from(task, seeds)
        else:
            states[pending] = task.reset(seeds[pending])
        if has(task, ListedGoals):
            states[pending] = task.at_episodes(states[pending], pending)
        pending = pending[_is_solved(task, states[pending])]
        if not pending.size:
            return Starts(episodes=indices, states=states, seeds=seeds, skipped=skipped)
        skipped += 1 if fixed else len(pending)
    fix = "Start it farther from its goal."
    if has(task, ListedGoals):
        fix = "Draw goals of more steps, by offset=, or lower within=."
    elif has(task, SuccessSource):
        fix = f"Start it farther from its goal, or name another success=: {task.succeeds_by} holds."
    if has(task, RewardThreshold):
        fix = (
            f"Raise goal={task.threshold:g}, which that step's reward reaches, or write "
            f'metric="return" in its place.'
        )
    raise TaskError(
        f"{task.name}: episode {pending[0]} found {_MOST_SKIPS} starts in a row that one idle step "
        f"solves; the task needs no planning. {fix}"
    )


def _is_solved(task: Task, states: FloatArray) -> BoolArray:
    if has(task, LeastReturn):
        return np.zeros(len(states), dtype=bool)
    idle = np.broadcast_to(task.actions.idle, (len(states), task.actions.size))
    return np.asarray(task.success(np.asarray(task.step(states, idle)), idle))


# Of one row, an answer for all rows may look like an answer for each.
_ROWS = 2
_EACH = "one number for each row, [B]"


def starts_from(task: Task, seeds: IntArray) -> FloatArray:
    """Return the states [N, S] that a task is reset to by seeds [N], once its methods are checked.

    Numpy would take one answer for that of every episode, or 0 and 1 for the indices of two.
    """
    sampled = task.reset(seeds.copy())
    wanted = "one state for each seed, [N, S]"
    states = _numbers(task, "reset", sampled, (len(seeds), None), wanted)
    rows, size = states[:_ROWS].shape
    again = _numbers(task, "reset", task.reset(seeds[:_ROWS].copy()), (rows, size), wanted)
    # Starts that another session does not have again can be replayed or compared by nobody. What
    # differs by rounding is the same start: batches of another size may be summed otherwise.
    if not np.allclose(again, states[:_ROWS], equal_nan=True):
        raise TaskError(
            f"{task.name}: reset gave other states for the same seeds. Draw each from its own "
            f"np.random.default_rng(seed), and keep nothing between calls."
        )
    idle = np.tile(task.actions.idle, (rows, 1))
    moved = task.step(states[:_ROWS].copy(), idle.copy())
    wanted = f"states of the size of reset's, [B, {size}]"
    after = _numbers(task, "step", moved, (rows, size), wanted)
    ahead = task.rollout(states[:_ROWS].copy(), idle[:, None].copy())
    _numbers(task, "rollout", ahead, (rows, 1, size), "one state for each action, [B, H, S]")
    seen = task.observe(after.copy())
    _numbers(task, "observe", seen, (rows, None), "one observation for each row, [B, O]")
    _numbers(task, "score", score_states(task, after.copy()), (rows,), _EACH)
    _numbers(task, "reward", task.reward(after.copy(), idle.copy()), (rows,), _EACH)
    if not has(task, LeastReturn):
        answer = task.success(after.copy(), idle.copy())
        solved = np.asarray(answer)
        if solved.shape != (rows,) or solved.dtype != np.bool_:
            raise _error(task, "success", answer, "one bool for each row, [B]")
    return states


def _numbers(
    task: Task, method: str, answer: Any, shape: tuple[int | None, ...], wanted: str
) -> FloatArray:
    """Return an answer as numbers; raise TaskError unless it has this shape, None for any size."""
    try:
        numbers = np.asarray(answer, dtype=np.float64).copy()
    except (TypeError, ValueError):
        raise _error(task, method, answer, wanted) from None
    fits = (size in (None, actual) for size, actual in zip(shape, numbers.shape, strict=False))
    if numbers.ndim != len(shape) or not all(fits):
        raise _error(task, method, answer, wanted)
    return numbers


def _error(task: Task, method: str, answer: Any, wanted: str) -> TaskError:
    is_array = isinstance(answer, np.ndarray) and answer.ndim
    what = f"{answer.dtype} of shape {list(answer.shape)}" if is_array else reprlib.repr(answer)
    return TaskError(f"{task.name}: {method} returned {what}. Return {wanted}.")

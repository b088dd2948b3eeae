"""Transitions: what a world model is trained on, collected by any policy, kept in files."""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, ComponentError, CpgError, FloatArray, Task, TaskError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.contracts.task import (
    Endings,
    Pictures,
    Relabelled,
    SeenAsPictures,
    has_ended,
    observed,
)
from pytest_cpg.machine.files import FileError, hindrance
from pytest_cpg.stats.intervals import check_count
from pytest_cpg.world_models.behaviour import Acting, Shares, followed, shares_of, turns

# Episodes that are collected at once: more take more memory, and planners little less time.
_AT_ONCE = 64
# Of a file's header within an .npz: where the lengths of its name and of its extra field stand.
_LOCAL_HEADER, _LENGTHS = 30, slice(26, 30)


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
    #: [T, ...] in 8 bits: what is seen before and after each step, where it was drawn.
    frames: npt.NDArray[np.uint8] | None = None
    next_frames: npt.NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        for name in ("observations", "actions", "next_observations"):
            self._keep(name, _kept(getattr(self, name), np.float64), "[T, size]")
        if self.rewards is not None:
            self._keep("rewards", _kept(self.rewards, np.float64), "[T]")
        for name in ("frames", "next_frames"):
            if getattr(self, name) is None:
                continue
            frames = _kept(getattr(self, name))
            if frames.ndim < 2 or len(frames) != len(self) or frames.dtype != np.uint8:
                raise ValueError(
                    f"{name} must be T = {len(self)} pictures in uint8, got {frames.dtype} of "
                    f"shape {frames.shape}"
                )
            self._freeze(name, frames)
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

    def __getitem__(self, rows: slice) -> Transitions:
        """Return some of the transitions, such as the first ``[:2000]``."""
        return Transitions(**{name: values[rows] for name, values in self._arrays.items()})

    def __add__(self, more: Transitions) -> Transitions:
        """Return these transitions and then others; ValueError where these are not of one form."""
        mine, others = self._arrays, more._arrays
        for name in (part.name for part in fields(self)):
            if (name in mine) != (name in others):
                one = "first" if name in mine else "second"
                raise ValueError(
                    f"only the {one} transitions have {name}: collect both alike, or drop them by "
                    f"dataclasses.replace({one}, {name}=None)"
                )
            if name in mine and mine[name].shape[1:] != others[name].shape[1:]:
                raise ValueError(
                    f"transitions whose {name} have {_size_of(mine[name])} and "
                    f"{_size_of(others[name])} numbers cannot be joined: take both from one task"
                )
        return Transitions(**{name: np.concatenate([mine[name], others[name]]) for name in mine})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write an ``.npz``, not compressed, so that `load` need not read it into memory.

        Parent folders are made. Raises FileError, naming the path and what the system says.
        """
        partial = Path(f"{os.fspath(path)}.part")
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                # The stub takes every name for allow_pickle.
                np.savez(file, **self._arrays)  # type: ignore[arg-type]
            partial.replace(path)
        except OSError as error:
            raise FileError(
                f"cannot write the transitions {os.fspath(path)}: {hindrance(Path(path), error)}"
            ) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Transitions:
        """Return what `save` wrote, mapped: rows are read from the disk when they are used.

        Raises CpgError for a file without such arrays; what is compressed is read at once.
        """
        names = [part.name for part in fields(cls)]
        try:
            with np.load(path, allow_pickle=False) as held, zipfile.ZipFile(path) as archive:
                return cls(
                    **{
                        name: _mapped(Path(path), archive, f"{name}.npy", held)
                        for name in names
                        if name in held.files
                    }
                )
        # What is in a file may be wrong in any way.
        except (OSError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise CpgError(
                f"{os.fspath(path)!r} holds no transitions: {error}. Write it by "
                f"Transitions.save({os.fspath(path)!r})"
            ) from None

    @property
    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        names = [part.name for part in fields(self)]
        return {name: value for name in names if (value := getattr(self, name)) is not None}

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
        self._freeze(name, values)

    def _freeze(self, name: str, values: npt.NDArray[Any]) -> None:
        values.flags.writeable = False
        object.__setattr__(self, name, values)


def _kept(values: Any, dtype: npt.DTypeLike | None = None) -> npt.NDArray[Any]:
    """Return an array of their own; one of a file stays there."""
    if isinstance(values, np.memmap) and dtype in (None, values.dtype):
        return values
    return np.array(values, dtype=dtype)


def _size_of(values: npt.NDArray[Any]) -> str:
    """Return of how many numbers each row is, as 3, or 64 x 64 x 3 of a picture."""
    return " x ".join(map(str, values.shape[1:]))


def _mapped(path: Path, archive: zipfile.ZipFile, name: str, held: Any) -> npt.NDArray[Any]:
    """Return an array of an ``.npz`` as it lies there, or read where it is compressed."""
    inside = archive.getinfo(name)
    if inside.compress_type != zipfile.ZIP_STORED:
        return np.asarray(held[name.removesuffix(".npy")])
    with path.open("rb") as file:
        file.seek(inside.header_offset)
        lengths = struct.unpack("<HH", file.read(_LOCAL_HEADER)[_LENGTHS])
        file.seek(inside.header_offset + _LOCAL_HEADER + sum(lengths))
        version = np.lib.format.read_magic(file)
        read = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
        shape, is_fortran, dtype = read(file)
        if dtype.hasobject or not np.prod(shape):
            raise ValueError(f"{name} is {dtype} of shape {shape}")
        where: dict[str, Any] = {"offset": file.tell(), "shape": shape}
        where["order"] = "F" if is_fortran else "C"
        mapped: npt.NDArray[Any] = np.memmap(path, dtype, "r", **where)
        return mapped


def collect_transitions(
    task: Task,
    *,
    count: int,
    seed: int,
    episode_steps: int = 200,
    policy: Acting | Shares = "random",
    noise: float = 0.0,
    starts: FloatArray | None = None,
    relabel: float = 0.0,
    with_rewards: bool = False,
    with_frames: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Transitions:
    """Return transitions of a policy, by default of uniform random actions, from a task's starts.

    Episodes are not cut at success: what lies behind the goal is part of the world. They are where
    the task says that they are over, and then the transitions have terminations. The rows of an
    episode are neighbours, in order, and the first rows are the same for every larger ``count``:
    what happens in an episode depends on the seed and its number alone.
    Raises TaskError when the simulator diverges, ComponentError for a policy that is none, and
    CpgError for one whose actions are not possible.

    Parameters
    ----------
    count : int
        Rows, ``T``; the last episode is cut to it.
    seed : int
        Decides starts and actions. No gate has the same, whatever its seed.
    episode_steps : int
        Steps after which a new start is sampled.
    policy : name, planner, (planner, model), model, function, mapping or list
        What acts: ``"random"``; ``"held-8"``, random actions kept for 8 steps each, as pushes that
        last reach speeds and joint limits that a planner will visit; a planner with the true
        dynamics; a planner with a model; a model's own ``policy``; a function from observations
        [B, O] to actions [B, A], or an object with such an ``act``. A mapping gives
        each its share of the episodes, as ``{"random": 0.5, CEM(): 0.5}``, and so does a list of
        pairs, ``[("random", 0.5), (CEM(), 0.5)]``, also of what is no key or is equal.
    noise : float
        Share of steps, in [0, 1], at which a random action is done in place of the policy's. A
        policy alone never shows what its other actions do.
    starts : array [N, S], optional
        States of the simulator in which episodes begin in turn, such as those where plans broke
        their promise (``--cpg-states``). By default the task is reset.
    relabel : float
        Share of the episodes, in [0, 1], whose goal is taken to be where they ended; for tasks with
        ``goals=``.
    with_rewards, with_frames : bool
        Keep the task's rewards; what models see of each step as pictures, or what is rendered.
    progress : callable, optional
        Called with rows done and in all, now and then.
    """
    if isinstance(task, type) or not hasattr(task, "rollout") or not hasattr(task, "reset"):
        raise ComponentError(
            f'task is {task!r:.60}, and no task: write oracle_dynamics.task, or TASKS["maze"]() of '
            f"pytest_cpg.tasks"
        )
    count, seed = check_count("count", count, least=1), check_count("seed", seed)
    episode_steps = check_count("episode_steps", episode_steps, least=1)
    for name, share in (("noise", noise), ("relabel", relabel)):
        if not (isinstance(share, Real) and 0 <= share <= 1):
            raise ValueError(f"{name} is a share from 0 to 1, got {share!r}")
    if relabel and not has(task, Relabelled):
        raise ComponentError(
            f"{task.name} has no goals to relabel: leave relabel= out, or give the task goals="
        )
    if with_frames and not (has(task, SeenAsPictures) or has(task, Pictures)):
        raise ComponentError(f"{task.name} draws no pictures: leave with_frames= out")
    shares = shares_of(policy)
    parts: list[dict[str, Any]] = []
    episodes = done = 0
    of_policies = turns([share for _, share in shares])
    of_relabelled = turns([1 - relabel, relabel])
    while done < count:
        # As many as are enough where no episode ends early; then as many again.
        more = min(_AT_ONCE, max(-(-(count - done) // episode_steps), episodes))
        numbers = range(episodes, episodes + more)
        whose = np.fromiter(islice(of_policies, more), np.int64, more)
        relabelled = np.fromiter(islice(of_relabelled, more), bool, more)
        walks = _Walks(task, numbers, seed, starts, steps=episode_steps)
        for turn, (acting, _) in enumerate(shares):
            if (rows := np.flatnonzero(whose == turn)).size:
                walks.follow(rows, acting, noise=noise)
        part = walks.rows(relabelled, with_frames=with_frames)
        parts.append(part)
        episodes, done = numbers.stop, done + len(part["actions"])
        if progress is not None:
            progress(min(done, count), count)
    kept = {name: np.concatenate([part[name] for part in parts])[:count] for name in parts[0]}
    if not with_rewards:
        del kept["rewards"]
    if not has(task, Endings):
        del kept["terminations"]
    return Transitions(**kept)


class _Walks:
    """Some episodes of a collection: starts, streams, and where they lead."""

    def __init__(
        self, task: Task, episodes: range, seed: int, starts: FloatArray | None, *, steps: int
    ) -> None:
        self._task, self._episodes, self._steps = task, episodes, steps
        streams = [Stream.COLLECTION.sequence(seed, episode).spawn(3) for episode in episodes]
        if starts is None:
            seeds = np.array([start.generate_state(1)[0] for start, *_ in streams], np.int64)
            self._starts = task.reset(seeds)
        else:
            self._starts = _checked_starts(task, starts)[np.array(episodes) % len(starts)]
        self._rngs, self._noise = (
            [np.random.default_rng(stream[kind]) for stream in streams] for kind in (1, 2)
        )
        self._states = np.empty((len(episodes), steps, self._starts.shape[1]))
        self._actions = np.empty((len(episodes), steps, task.actions.size))

    def follow(self, rows: npt.NDArray[np.intp], acting: Acting, *, noise: float) -> None:
        """Let a policy act in some of the episodes."""
        rngs, others = ([streams[row] for row in rows] for streams in (self._rngs, self._noise))
        self._states[rows], self._actions[rows] = followed(
            acting,
            self._task,
            self._starts[rows],
            rngs,
            steps=self._steps,
            noise=(noise, others),
        )
        broken = np.argwhere(~np.isfinite(observed(self._task, self._states[rows])).all(axis=-1))
        if len(broken):
            raise TaskError(
                f"{self._task.name}: the simulator diverged under {_name_of(acting)} in episode "
                f"{self._episodes[rows[broken[0, 0]]]} at step {broken[0, 1] + 1}. Reduce the "
                f"simulator's time step or the actions' range."
            )

    def rows(self, relabelled: BoolArray, *, with_frames: bool) -> dict[str, npt.NDArray[Any]]:
        """Return what the steps of the episodes are, by the names of `Transitions`."""
        task, states, actions = self._task, self._states, self._actions
        begun = self._starts
        if relabelled.any():
            begun, states = begun.copy(), states.copy()
            ends = states[relabelled, -1]
            for places in (begun, states):
                places[relabelled] = task.relabelled(places[relabelled], ends)  # type: ignore[attr-defined]  # checked before
        before = np.concatenate([begun[:, None], states[:, :-1]], axis=1)
        is_over, ended = has_ended(task, before), has_ended(task, states)
        if is_over.all():
            raise TaskError(f"{task.name}: every episode is over at its start. Mend terminated().")
        # What is over stays so.
        is_over = np.logical_or.accumulate(is_over, axis=1)
        found: dict[str, Any] = {
            "observations": observed(task, before),
            "actions": actions,
            "next_observations": observed(task, states),
            "rewards": task.reward(states, actions),
            "terminations": ended,
        }
        # None from where an episode is over.
        found = {name: values[~is_over] for name, values in found.items()}
        if with_frames:
            draw = task.pictures if has(task, SeenAsPictures) else task.render  # type: ignore[attr-defined]  # checked before
            found["frames"], found["next_frames"] = (
                np.asarray(draw(places[~is_over])) for places in (before, states)
            )
        return found


def _name_of(acting: Acting) -> str:
    return "random actions" if isinstance(acting, str) else f"{acting!r:.60}"


def _checked_starts(task: Task, starts: FloatArray) -> FloatArray:
    size = task.reset(np.zeros(1, dtype=np.int64)).shape[1]
    states = np.array(starts, dtype=np.float64)
    if states.ndim != 2 or not len(states) or states.shape[1] != size:
        raise ValueError(
            f"starts must be states [N, {size}] of {task.name}, got shape {states.shape}: give "
            f"states of the simulator, which are not observations"
        )
    if not np.isfinite(states).all():
        row, part = np.argwhere(~np.isfinite(states))[0]
        raise ValueError(
            f"starts[{row}, {part}] is {states[row, part]}: leave out states that are not finite"
        )
    return states

"""Pixel task: a task whose models are given pictures of its last steps."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from inspect import signature
from math import prod
from threading import Lock
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np

from pytest_cpg.contracts import (
    BoolArray,
    ComponentError,
    FloatArray,
    IntArray,
    Task,
    TaskFactory,
)
from pytest_cpg.contracts.parts import CacheKey, has
from pytest_cpg.contracts.task import Pictures
from pytest_cpg.tasks.goal_task import GoalTask, TaskAround
from pytest_cpg.tasks.pictures import HEIGHT, rendered
from pytest_cpg.tasks.pixels import Drawing, Pixels, check_plain, resized
from pytest_cpg.tasks.renderer import Frames

# Bytes of frames that are kept: those of the last steps are seen again in the next stacks.
_ROOM = 1 << 26
# Frames that are drawn twice, once for a task in a process.
_TWICE = 4
# What an inner task may have that takes states, and what gives some.
_OF_STATES = ("score_states", "terminated", "strata", "goal")
_TO_STATES = ("redrawn",)


class Drawn(Protocol):
    """A task that draws itself in any size, from any of its cameras."""

    def drawing(self, pixels: Pixels) -> Drawing:
        """Return what draws its states so; raise ComponentError for what it cannot."""
        ...


class Album:
    """The frames of states that were drawn last, each of which is drawn once.

    Attributes
    ----------
    drawn : int
        How many were, but for the few that are drawn twice to be compared.
    """

    def __init__(self, name: str, drawing: Drawing, size: int) -> None:
        self.name, self.drawing, self.drawn = name, drawing, 0
        self._shape = (size, size, 3)
        self._most = max(256, _ROOM // prod(self._shape))
        self._frames: OrderedDict[bytes, Frames] = OrderedDict()
        self._lock = Lock()

    def frames(self, states: FloatArray) -> Frames:
        """Return the frame of each state [B, S]: [B, H, W, 3]."""
        if not len(states):
            return np.empty((0, *self._shape), dtype=np.uint8)
        with self._lock:
            keys = [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in states]
            rows = {key: row for row, key in enumerate(keys) if key not in self._frames}
            if rows:
                drawn = self._drawn(states[list(rows.values())])
                self._frames.update(zip(rows, drawn, strict=True))
            for key in keys:
                self._frames.move_to_end(key)
            frames = np.stack([self._frames[key] for key in keys])
            while len(self._frames) > self._most:
                self._frames.popitem(last=False)
            return frames

    def _drawn(self, states: FloatArray) -> Frames:
        """Draw states [B, S]; the first few twice, as a frame must be a function of its state."""
        frames = self.drawing.draw(np.ascontiguousarray(states))
        is_first, self.drawn = not self.drawn, self.drawn + len(states)
        if is_first:
            again = self.drawing.draw(np.ascontiguousarray(states[:_TWICE][::-1]))[::-1]
            if not np.array_equal(again, frames[: len(again)]):
                raise ComponentError(
                    f"{self.name} draws a state otherwise when it is asked again, in another "
                    f"order. Draw from the state alone, and from no generator."
                )
        return frames


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PixelTask(TaskAround):
    """A task whose models are given pictures; see `Task` and `SeenAsPictures`.

    A state [S] is the inner task's, those of the steps before it, latest first, and one in which
    its goal is reached, where the gate gives it a goal: what is seen is a function of it. All but
    models go by what the inner task observes, and draw nothing.
    """

    slow_pictures: ClassVar = True
    # Of the inner task's goals: those of pictures are states that nobody relabels.
    relabelled: ClassVar = None

    pixels: Pixels
    album: Album = field(init=False, repr=False)

    def __post_init__(self) -> None:
        title = f"task {self._named(self.pixels.written)!r}"
        album = Album(title, _drawing(self._drawn, self.pixels), self.pixels.size)
        object.__setattr__(self, "album", album)

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what it is made of: frames and renderers belong to a process."""
        return _rebuilt, (self.inner, self.pixels)

    def __getattr__(self, name: str) -> Any:
        """Return what else the inner task has, of the states that it knows."""
        if name.startswith("_"):
            raise AttributeError(name)
        value = getattr(self.inner, name)
        if name in _OF_STATES and callable(value):
            return lambda states, *more: value(self._inner(states), *more)
        if name in _TO_STATES and callable(value):
            return lambda states, *more: self._again(value(self._inner(states), *more), states)
        return value

    @property
    def observation_size(self) -> int:
        """Numbers that the task rates, and a probe may read from latents."""
        return self.inner.observation_size

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the simulator's packages, and what draws."""
        return MappingProxyType({**self.inner.versions, "renderer": self.album.drawing.by()})

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's."""
        if not has(self.inner, CacheKey):
            return None
        return f"{self.inner.cache_key} {self.pixels.written}"

    @property
    def picture_shape(self) -> tuple[int, int, int, int]:
        """Frames, rows, columns and colours: [F, H, W, 3]; that of a goal is the last."""
        frames = self.pixels.stack + self.goal_frames
        return (frames, self.pixels.size, self.pixels.size, 3)

    @property
    def goal_frames(self) -> int:
        """How many of the frames, the last, are of a goal: the gate's, or one that frames hide."""
        return int(isinstance(self.inner, GoalTask) or getattr(self.inner, "hides_goal", False))

    @property
    def frames_drawn(self) -> int:
        """Frames that were drawn in this process."""
        return self.album.drawn

    @property
    def with_physics(self) -> Callable[..., PixelTask] | None:
        """Makes the task with mass, friction or gravity times a factor."""
        change = getattr(self.inner, "with_physics", None)
        return None if change is None else lambda **s: replace(self, inner=change(**s))

    def reset(self, seeds: IntArray) -> FloatArray:
        """Return the start of each seed [N], as if it had always been there: states [N, S]."""
        states = self.inner.reset(seeds)
        rows = self.inner.rows_of(seeds) if isinstance(self.inner, GoalTask) else seeds
        return self._begun(states, seeds, rows)

    @property
    def at_episodes(self) -> Callable[[FloatArray, IntArray], FloatArray] | None:
        """Gives starts [N, S] the goals that a file has for episodes [N]; others stay."""
        inner = self.inner
        if not isinstance(inner, GoalTask):
            return None

        def at(states: FloatArray, episodes: IntArray) -> FloatArray:
            begun = inner.at_episodes(self._inner(states), episodes)
            if inner.goals.recorded is None:
                return states
            return self._begun(begun, episodes, episodes)

        return at

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        after, size = self.inner.step(self._inner(states), actions), self._size(states)
        kept, all_seen = (self.pixels.stack - 1) * size, self.pixels.stack * size
        before = np.concatenate([states[:, :kept], states[:, all_seen:]], axis=1)
        return self._joined(after, before)

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        reached = self.inner.rollout(self._inner(states), actions)
        size, steps = reached.shape[2], reached.shape[1]
        # The steps before, oldest first, and then those of the plan.
        flat, goals = np.split(states, [self.pixels.stack * size], axis=1)
        past = flat.reshape(len(states), self.pixels.stack, size)[:, ::-1]
        along = np.concatenate([past, reached], axis=1)
        last = self.pixels.stack
        parts = [along[:, last - back : last - back + steps] for back in range(last)]
        parts.append(np.repeat(goals[:, None], steps, axis=1))
        return self._joined(parts[0], np.concatenate(parts[1:], axis=-1))

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to what the inner task observes [..., O], which is not drawn."""
        return np.asarray(self.inner.observe(self._inner(states)))

    def pictures(self, states: FloatArray) -> Frames:
        """Draw what models see of states [B, S]: [B, F, H, W, 3], the present before a goal."""
        count, stack, size = len(states), self.pixels.stack, self._size(states)
        flat, goals = np.split(states, [stack * size], axis=1)
        seen = flat.reshape(count, stack, size)[:, ::-1]
        if isinstance(self.inner, GoalTask):
            # Without their goal: the state that is the goal has none.
            seen = self.inner.inner_of(seen)
        if self.goal_frames:
            seen = np.concatenate([seen, goals[:, None]], axis=1)
        frames = self.album.frames(seen.reshape(-1, seen.shape[2]))
        return frames.reshape(count, *self.picture_shape)

    @property
    def render(self) -> Callable[[FloatArray], Frames]:
        """Draws states [B, S] as the inner task does, if it does, and beside what models see."""
        return self._beside if has(self.inner, Pictures) else self._alone

    def _alone(self, states: FloatArray) -> Frames:
        times = max(1, HEIGHT // self.pixels.size)
        frames = self.pictures(states).repeat(times, axis=2).repeat(times, axis=3)
        return np.concatenate([*np.moveaxis(frames, 1, 0)], axis=2)

    def _beside(self, states: FloatArray) -> Frames:
        shown = rendered(self.inner, self._inner(states))
        seen = np.concatenate([*np.moveaxis(self.pictures(states), 1, 0)], axis=1)
        # As high as the picture, the frames one below the other.
        height = shown.shape[1]
        width = max(1, height // self.pixels.stack)
        rows = np.arange(height) * seen.shape[1] // height
        columns = np.arange(width) * seen.shape[2] // width
        return np.concatenate([shown, seen[:, rows[:, None], columns]], axis=2)

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by distance to the goal [...]; lower is better."""
        return self.inner.score(observations)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the inner task's reward [...]."""
        return self.inner.reward(self._inner(states), actions)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether the step by actions [..., A] that ended in states [..., S] succeeded."""
        return self.inner.success(self._inner(states), actions)

    @property
    def _drawn(self) -> Task:
        """The task that is drawn, without a goal of the gate."""
        return self.inner.inner if isinstance(self.inner, GoalTask) else self.inner

    def _size(self, states: FloatArray) -> int:
        """Return how many numbers an inner state has; the one that is a goal lacks the goal's."""
        extra = self.inner.goal_size if isinstance(self.inner, GoalTask) else 0
        return int((states.shape[-1] + extra) // (self.pixels.stack + self.goal_frames))

    def _inner(self, states: FloatArray) -> FloatArray:
        return np.ascontiguousarray(states[..., : self._size(states)])

    def _begun(self, states: FloatArray, seeds: IntArray, rows: IntArray) -> FloatArray:
        begun = np.tile(states, self.pixels.stack)
        if not self.goal_frames:
            return begun
        inner: Any = self.inner
        is_of_gate = isinstance(inner, GoalTask)
        goals = (
            inner.goal_states(states, seeds, rows) if is_of_gate else inner.recorded_goals(states)
        )
        return np.concatenate([begun, goals], axis=1)

    def _again(self, inner: FloatArray, states: FloatArray) -> FloatArray:
        """Return states [B, S] with another inner state [B, I] now."""
        return np.concatenate([inner, states[:, inner.shape[1] :]], axis=1)

    def _joined(self, now: FloatArray, before: FloatArray) -> FloatArray:
        # A diverged row is NaN as a whole.
        lost = np.isnan(now).all(axis=-1, keepdims=True)
        return np.concatenate([now, np.where(lost, np.nan, before)], axis=-1)


def seen_as_pixels(task: Task | str, pixels: Any = "pixels", **settings: Any) -> PixelTask:
    """Return a task, or the one of a name, as models see it that are given pictures.

    ``settings`` are those of `Pixels`, as in ``seen_as_pixels("cartpole-swingup", size=84)``, and
    take the place of those that ``pixels`` says.
    """
    from pytest_cpg.tasks import TASKS, named_task

    inner = named_task(task, TASKS)() if isinstance(task, str) else task
    return PixelTask(inner=inner, pixels=Pixels.of({**asdict(Pixels.of(pixels)), **settings}))


def with_pixels(make: TaskFactory, pixels: Pixels) -> TaskFactory:
    """Return what makes a task that is seen in pixels; it takes the same options."""

    def made(**options: Any) -> Task:
        return PixelTask(inner=make(**options), pixels=pixels)

    described: Any = made
    described.__signature__ = signature(make)
    return made


def _rebuilt(inner: Task, pixels: Pixels) -> PixelTask:
    return PixelTask(inner=inner, pixels=pixels)


def _drawing(task: Any, pixels: Pixels) -> Drawing:
    """Return what draws a task; raise ComponentError where nothing does."""
    title = task.name
    if has(task, Drawn):
        return task.drawing(pixels)
    if not has(task, Pictures):
        raise ComponentError(
            f'observe="pixels": task {title!r} has no pictures. Give it render(states [B, S]) '
            f"-> frames [B, H, W, 3], uint8"
        )
    check_plain(task, pixels)
    return Drawing(
        lambda states: resized(task, rendered(task, states), pixels), lambda: "the task's own"
    )

"""World: one environment, put back into any state of any episode before it is stepped.

A state is a row of numbers: the steps of its episode so far, which tell any process how to get
there, and the row of its player. A process that was there keeps what puts its environment back at
once (see `restorers`).
"""

from __future__ import annotations

import hashlib
import os
import threading
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray, TaskError
from pytest_cpg.tasks.gymnasium.environments import (
    definition_of,
    hides_goal,
    is_plain,
    made_to_draw,
    period_of,
    spec_of,
    versions_of,
)
from pytest_cpg.tasks.gymnasium.player import (
    OUTCOME,
    UNTOLD,
    Make,
    Player,
    ResetOptions,
)
from pytest_cpg.tasks.gymnasium.restorers import (
    CopyRestorer,
    ForkRestorer,
    Restorer,
    StateRestorer,
)
from pytest_cpg.tasks.gymnasium.scores import SCORES, Score
from pytest_cpg.tasks.recordings import Recording

# Seed, and how many steps there were.
_HEAD = 2
# Steps of a checked episode, and those after which it is put back.
_CHECKED, _PUT_BACK = 24, (1, 8, 16)


class World:
    """One environment of this process, and what restores it."""

    def __init__(
        self,
        make: Make,
        options: ResetOptions = None,
        success: str | None = None,
        recording: Recording | None = None,
    ) -> None:
        self._made_by = (make, options, success, recording)
        self._lock = threading.Lock()
        # An id may come to mean another environment while this one is in use.
        self.spec = spec_of(make) if isinstance(make, str) else None
        self._player = Player(*self._made_by)
        environment = self._player.environment
        self.title, self.actions = self._player.title, self._player.actions
        self.observation_keys = self._player.sizes
        self.observed = sum(self.observation_keys.values())
        # What a state ends in: whether it can be stepped from, 0 or NaN, and the player's row.
        self.tail = 1 + self.observed + len(OUTCOME)
        self.seen = slice(1 - self.tail, -len(OUTCOME))
        self.cache_key = definition_of(self.spec, options)
        # Whether info tells when a step has succeeded.
        self.info_tells = False
        self.success_key = success
        self.period = period_of(environment)
        self._restorer = self._checked()
        self.restored_by = self._restorer.name
        # Of the distributions that decide what it does.
        is_mujoco = "MuJoCo" in self.restored_by or hasattr(environment.unwrapped, "do_simulation")
        self.versions = versions_of(self.spec, is_mujoco=is_mujoco)
        # Whether reset draws the goal, of which frames show nothing.
        self.hides_goal = hides_goal(environment)
        self.recording, self.recorded_columns = recording, self._player.recorded_columns
        # What puts the environment back, by the state's key; the last ones used are at the end.
        self._kept: dict[bytes, Any] = {}
        self._process = os.getpid()
        self._drawn: dict[int, World] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what makes the environment."""
        return (world_of, self._made_by)

    def score_by(self, word: str) -> Score:
        """Return the score of a word, one of `SCORES`, for what the environment observes."""
        return SCORES[word](self._player.environment, self.observation_keys, self.title)

    def beginning_in(self, recording: Recording) -> World:
        """Return the world whose episodes begin in recorded states."""
        return world_of(*self._made_by[:-1], recording)

    def begin(self, seed: int, steps: int) -> FloatArray:
        """Return the state [S] at the start of a seed's episode, with room for so many steps."""
        with self._lock:
            saved, row = self._restorer.begin(seed)
            state = np.zeros(_HEAD + steps * self.actions.size + self.tail)
            state[0], state[1 - self.tail :] = seed, row
            self._keep(state, saved)
            return state

    def step(self, state: FloatArray, action: FloatArray, repeat: int) -> FloatArray:
        """Return the state [S] after an action [A] from a state [S]."""
        if self.is_lost(state):
            return np.full(len(state), np.nan)
        after, row = state.copy(), state[1 - self.tail :]
        with self._lock:
            if state[-1]:
                after[1 - self.tail :] = self._player.play(row, action[None], repeat)[0][0]
                return after
            saved = self._here(state)
            rows, taken, saved = self._restorer.run(saved, row, action[None], repeat, is_kept=True)
            begin = self._end(state)
            end = begin + taken * len(action)
            if end > len(state) - self.tail:
                raise TaskError(
                    f"{self.title} was played for {int(state[1])} steps, for which its episode has "
                    f"no more room. Give the task a larger budget=."
                )
            after[begin:end] = np.tile(action, taken)
            after[1] += taken
            after[1 - self.tail :] = rows[0]
            self._keep(after, saved)
        return after

    def imagine(self, state: FloatArray, plans: FloatArray, repeat: int) -> FloatArray:
        """Return the ends [P, H, tail] of the states after plans [P, H, A], not to step from."""
        after = np.full((*plans.shape[:2], self.tail), np.nan)
        row = state[1 - self.tail :]
        with self._lock:
            if state[-1]:
                # It is over, whatever the actions.
                after[:, :, 1:] = [self._player.play(row, plan, repeat)[0] for plan in plans]
            else:
                saved = self._here(state)
                after[:, :, 1:] = self._restorer.imagine(saved, row, plans, repeat)
        return after

    def to_draw(self, size: int) -> World:
        """Return the same world, made once more so that frames of a size can be drawn."""
        if size not in self._drawn:
            make, options, success, recording = self._made_by
            making = partial(made_to_draw, make, size)
            drawn = World(making, options, success, recording)
            try:
                drawn.draw(drawn.begin(0, 1))
            # Its code may need a package or a display that is not here.
            except Exception as error:
                fix = (
                    ". Without a display MuJoCo draws with MUJOCO_GL=osmesa, where libosmesa6 is "
                    "installed, or with MUJOCO_GL=egl on a machine with a GPU"
                )
                raise ComponentError(
                    f"{self.title} cannot be drawn, as its own code raises {type(error).__name__}: "
                    f"{error}{fix * ('MuJoCo' in self.restored_by)}"
                ) from error
            self._drawn[size] = drawn
        return self._drawn[size]

    def draw(self, state: FloatArray) -> Any:
        """Return what a state [S] of an episode looks like, or a goal: a frame [H, W, 3]."""
        with self._lock:
            if state[0] < 0 and self.recording is None:
                return self._restorer.draw_goal(int(state[0]))
            end, size = self._end(state), self.actions.size
            # From the last step of the episode that was drawn.
            for begin in range(end, _HEAD, -size):
                before = state.copy()
                before[1] = (begin - _HEAD) // size
                if self._key(before) in self._kept:
                    break
            else:
                before, begin = state.copy(), _HEAD
                before[1] = 0
            saved = self._here(before)
            if begin < end:
                row = np.zeros(self.tail - 1)
                steps = state[begin:end].reshape(-1, size)
                saved = self._restorer.run(saved, row, steps, 1, is_kept=True)[2]
            self._keep(state, saved)
            return self._restorer.draw(saved)

    def is_lost(self, state: FloatArray) -> bool:
        """Tell whether a state [S] was imagined, or has diverged."""
        return bool(np.isnan(state[-self.tail :]).any())

    def _here(self, state: FloatArray) -> Any:
        """Return what puts the environment back into a state [S], which it steps to if need be."""
        if self._process != os.getpid():
            # A fork of this process has its own environment, and none of its processes.
            self._kept.clear()
            self._restorer, self._process = type(self._restorer)(self._player), os.getpid()
        key = self._key(state)
        if (saved := self._kept.get(key)) is None:
            saved, row = self._restorer.begin(int(state[0]))
            steps = state[_HEAD : self._end(state)].reshape(-1, self.actions.size)
            if len(steps):
                saved = self._restorer.run(saved, row, steps, 1, is_kept=True)[2]
        self._keep(state, saved)
        return saved

    def _keep(self, state: FloatArray, saved: Any) -> None:
        key = self._key(state)
        self._kept.pop(key, None)
        self._kept[key] = saved
        if len(self._kept) > self._restorer.most:
            del self._kept[next(iter(self._kept))]

    def _key(self, state: FloatArray) -> bytes:
        return hashlib.blake2b(state[: self._end(state)].tobytes(), digest_size=16).digest()

    def _end(self, state: FloatArray) -> int:
        """Return where the steps so far end in a state [S]."""
        return _HEAD + int(state[1]) * self.actions.size

    def _checked(self) -> Restorer:
        """Return the first restorer that behaves like the environment.

        Raises ComponentError with what differs first when there is none.
        """
        faults: list[str] = []
        for way in _ways(self._player.environment):
            if faults:
                # What another way did to it has no part in this one.
                self._player = Player(*self._made_by)
            try:
                restorer = way(self._player)
                fault = self._fault(restorer)
                if fault is None:
                    fault, restorer = self._fault_anew(restorer)
            except ComponentError:
                raise
            # Whatever the code of an environment raises, or cannot be copied of it.
            except Exception as error:
                fault = f"{type(error).__name__}: {error}"
            if fault is None:
                return restorer
            faults.append(f"by {way.name}, {fault}")
        raise ComponentError(
            f"{self.title} cannot be put back into a state, so that its episodes cannot be "
            f"repeated. Tried in order: {'; '.join(faults)}. Let reset(seed=...) begin anew, and "
            f"draw from self.np_random or the generators of numpy and random; or write a task of "
            f"your own (pytest_cpg.Task)."
        )

    def _fault(self, restorer: Restorer) -> str | None:
        """Return what first differs in an episode that is begun again or put back, None if nothing.

        Of two seeds each episode is played at once, and again with stops; once the other was played
        it goes on from each stop.
        """
        rng = np.random.default_rng(0)
        plans = [self.actions.sample([rng], (_CHECKED,))[0] for _ in range(2)]
        played = [self._begun(restorer, seed, plan) for seed, plan in enumerate(plans)]
        for seed, (plan, (start, rows)) in enumerate(zip(plans, played, strict=True)):
            check_numbers(rows, self.observed, self.title)
            self.info_tells = bool((rows[:, -2] != UNTOLD).any())
            saved, row = restorer.begin(seed)
            if fault := self._difference(start, row):
                return f"reset by the same seed gives another start: {fault}"
            states = {}
            for begin, end in pairwise((0, *_PUT_BACK)):
                after, _, saved = restorer.run(saved, row, plan[begin:end], 1, is_kept=True)
                for step, row in enumerate(after, begin):
                    if fault := self._difference(rows[step], row):
                        return f"the same steps differ at step {step + 1}: {fault}"
                if row[-1]:
                    break
                states[end] = saved, row
            self._begun(restorer, 1 - seed, plans[1 - seed])
            for begin, (saved, row) in states.items():
                after, *_ = restorer.run(saved, row, plan[begin:], 1, is_kept=False)
                for step, row in enumerate(after, begin):
                    if fault := self._difference(rows[step], row):
                        return f"put back to step {begin} it differs at step {step + 1}: {fault}"
        return None

    def _fault_anew(self, restorer: Restorer) -> tuple[str | None, Restorer]:
        """Return what differs in an environment that is made again, as each process does, and it.

        One that seeds something as it is made, and by the system, is itself in this process alone.
        """
        plan = self.actions.sample([np.random.default_rng(0)], (_CHECKED,))[0]
        expected = np.vstack(self._begun(restorer, 0, plan))
        self._player = Player(*self._made_by)
        restorer = type(restorer)(self._player)
        rows = np.vstack(self._begun(restorer, 0, plan))
        for step, (before, row) in enumerate(zip(expected, rows, strict=True)):
            if fault := self._difference(before, row):
                return f"made again it differs at step {step}: {fault}", restorer
        return None, restorer

    def _begun(
        self, restorer: Restorer, seed: int, plan: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the start [R] of a seed's episode, and the rows [H, R] of a plan [H, A]."""
        saved, row = restorer.begin(seed)
        return row, restorer.run(saved, row, plan, 1, is_kept=False)[0]

    def _difference(self, expected: FloatArray, row: FloatArray) -> str | None:
        """Return the first number of a row [R] that is not as expected; None if there is none."""
        differ = ~((expected == row) | (np.isnan(expected) & np.isnan(row)))
        if not differ.any():
            return None
        sizes = self.observation_keys.items()
        names = [f"{name}[{place}]" for name, size in sizes for place in range(size)]
        at = int(np.argmax(differ))
        digits = 9 if f"{row[at]:.9g}" != f"{expected[at]:.9g}" else 17
        pair = f"{row[at]:.{digits}g} instead of {expected[at]:.{digits}g}"
        return f"{[*names, *OUTCOME][at]} is {pair}"


def _ways(environment: Any) -> list[type[Restorer]]:
    """Return the ways of restoring an environment, the cheapest first."""
    bare = environment.unwrapped
    ways: list[type[Restorer]] = [CopyRestorer, ForkRestorer]
    if hasattr(bare, "get_state") and hasattr(bare, "set_state"):
        ways.insert(0 if not hasattr(bare, "data") else 1, StateRestorer)
    return ways


def world_of(
    make: Make,
    options: ResetOptions = None,
    success: str | None = None,
    recording: Recording | None = None,
) -> World:
    """Return the one environment in this process of what an id means now, or a function's own."""
    if not isinstance(make, str) or not is_plain(options):
        return World(make, options, success, recording)
    key = repr((spec_of(make), options, success, recording))
    if key not in _WORLDS:
        _WORLDS[key] = World(make, options, success, recording)
    return _WORLDS[key]


_WORLDS: dict[str, World] = {}


def check_numbers(rows: FloatArray, observed: int, title: str) -> None:
    """Raise ComponentError for NaN among rows [T, R] of first steps."""
    for what, numbers in (("reward", rows[:, -4]), ("observation", rows[:, :observed])):
        if np.isnan(numbers).any():
            raise ComponentError(
                f"{title} gives nan as {what} within its first {len(rows)} steps. Let step return "
                f"finite numbers."
            )

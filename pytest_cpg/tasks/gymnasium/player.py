"""Player: one environment that is reset by seeds, and read as rows of numbers.

A row is what is observed, the goal of the episode, and what came of the last step: sum and largest
of its rewards, whether it succeeded, and whether the environment is over. One that has terminated
stays as it is, without reward; its own time limit is left out.
"""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.utils import seeding

from pytest_cpg.contracts import ComponentError, FloatArray, IntArray
from pytest_cpg.tasks.gymnasium.environments import hold_renderers, made
from pytest_cpg.tasks.gymnasium.setters import setter
from pytest_cpg.tasks.gymnasium.spaces import (
    action_space,
    flat,
    native_action,
    observation_sizes,
)
from pytest_cpg.tasks.recordings import Recording

# The numbers of a row after what is observed.
OUTCOME = ("reward", "largest reward", "success", "terminated")
# Keys of info that environments tell their success by.
_SUCCESS = ("is_success", "success")
_LOWEST = np.finfo(np.float64).min
# Starts from which a step tells what a recorded state leaves to the episode.
_TRIED = 4
# What stands for success where nothing tells it.
UNTOLD = -1.0

Make: TypeAlias = str | Callable[[], Any]
ResetOptions: TypeAlias = Mapping[str, Any] | Callable[[int], Mapping[str, Any]] | None


class Player:
    """An environment of this process, and how it is reset and read.

    ``options`` are those of its resets, or a function of the seed that returns them; ``success``
    is ``"terminated"``, a key of info, or None for the first of the usual keys that is there. With
    a ``recording`` an episode begins at a step of it.
    """

    def __init__(
        self,
        make: Make,
        options: ResetOptions = None,
        success: str | None = None,
        recording: Recording | None = None,
    ) -> None:
        # What it draws while it is made is the same in every process.
        with generators(0):
            self.environment = made(make)
        self.title = str(make) if isinstance(make, str) else str(self.environment)
        self._options, self._success, self._recording = options, success, recording
        self._renderers: dict[str, Any] = {}
        self.spaces = (self.environment.observation_space, self.environment.action_space)
        self.sizes = observation_sizes(self.spaces[0], self.title, make)
        self.actions = action_space(self.spaces[1], self.title)
        self._seen_sizes = dict(self.sizes)
        self._goal_size = 0
        with generators(0):
            self._goal_size = len(self._goal(self._first_reset()))
        if self._goal_size:
            self.sizes["goal"] = self._goal_size
        # The numbers of an observation that are those of a recorded step.
        self.recorded_columns: IntArray = np.zeros(0, dtype=np.int64)
        if recording is not None:
            with generators(0):
                self.recorded_columns = self._found_columns(recording)

    def reset(self, seed: int) -> FloatArray:
        """Reset to a seed's start; return its row [R]. Spaces are seeded like the environment.

        Below 0 stand goals, where it is put by a recording: -1 is that of the start of 0.
        """
        start = episode_of(seed)
        observation, info = self._reset(start)
        goal = self._goal(info)
        if len(goal) != self._goal_size:
            raise ComponentError(
                f"{self.title} has a goal of {len(goal)} numbers in this episode, and of "
                f"{self._goal_size} in its first. Let reset return info['goal'] of one shape."
            )
        row = np.concatenate([self._flat(observation), goal, np.zeros(len(OUTCOME))])
        if self._recording is not None:
            step = int(self._recording.rows(np.array([start]))[0])
            step += self._recording.offset * (seed < 0)
            self._put(self._recording, step)
            columns = self.recorded_columns
            row[columns] = self._recording.arrays["observations"][step, columns]
        return row

    def _found_columns(self, recording: Recording) -> IntArray:
        """Return which numbers of an observation are those of a recorded step.

        What changes in no episode and is other after a step here is of the episode and not of its
        state, as a goal that the seed decides.
        """
        is_of_episode = np.zeros(0, dtype=bool)
        for seed in range(_TRIED):
            self.reset(seed)
            step = int(recording.rows(np.array([seed]))[0])
            observed = recording.arrays["observations"][step]
            if not seed:
                is_of_episode = np.zeros(len(observed), dtype=bool)
            if "actions" not in recording.arrays or not (fixed := recording.fixed).any():
                break
            action = np.asarray(recording.arrays["actions"][step], dtype=np.float64)
            if (
                action.shape != (self.actions.size,)
                or not self.actions.contains(action[None]).all()
            ):
                # Told where the task's steps are compared with the recorded ones.
                break
            try:
                seen = self._flat(self.environment.step(native_action(action, self.spaces[1]))[0])
            except ComponentError:
                raise
            # Whatever its code says of a state that it was put into.
            except Exception as error:
                what = f"{type(error).__name__}: {error}".rstrip(".: ")
                raise ComponentError(
                    f"goals: {self.title}, put where it was at step {step} of {recording.name!r}, "
                    f"raises {what} as it is stepped. Record its states in their own type."
                ) from error
            seen = np.append(seen, np.full(self._goal_size, np.nan))[: len(observed)]
            is_of_episode |= fixed & ~np.isclose(seen, observed, rtol=1e-4, atol=1e-4)
        return np.flatnonzero(~is_of_episode)

    def _put(self, recording: Recording, step: int) -> None:
        """Put the environment where it was at a recorded step.

        Raises ComponentError where the recording does not hold what it takes.
        """
        sizes = [sum(self.sizes.values()), sum(self.sizes.values()) - self._goal_size]
        observed = recording.arrays.get("observations")
        if observed is None or observed.shape[1] not in sizes:
            raise ComponentError(
                f"goals: {self.title} observes {sizes[1]} numbers, and {recording.name!r} has "
                f"{recording.names}. Record observations [N, T, {sizes[1]}] beside what its state "
                f"is set by."
            )
        values = {name: array[step] for name, array in recording.arrays.items()}
        put, names = setter(self.environment, values)
        if put is None:
            raise ComponentError(
                f"goals: {self.title} cannot be put into a state of {recording.name!r}, which has "
                f"{recording.names}: {names}. Record that under these names; or give goals alone, "
                f'and starts are the environment\'s own: np.savez("goals.npz", goals=...).'
            )
        try:
            put()
        # Whatever its code says of numbers that are not those of its state.
        except Exception as error:
            what = f"{type(error).__name__}: {error}".rstrip(".: ")
            raise ComponentError(
                f"goals: {self.title} was given {names} of step {step} of {recording.name!r}, "
                f"which has {recording.names}, and raises {what}. Record them of this environment."
            ) from error

    def _first_reset(self) -> Mapping[str, Any]:
        """Return the info of the first reset, or raise ComponentError with what its code raises."""
        try:
            return self._reset(0)[1]
        except ComponentError:
            raise
        # Whatever it raises, such as where it was written for another version of its engine.
        except Exception as error:
            raise ComponentError(
                f"{self.title} cannot be reset, as its own code raises {type(error).__name__}: "
                f"{error}. Reset it alone, without pytest; its package may need other versions."
            ) from error

    def _reset(self, seed: int, **more: Any) -> tuple[Any, Mapping[str, Any]]:
        _seed_spaces(self.environment, seed)
        if self._options is None and not more:
            return tuple(self.environment.reset(seed=seed))
        options = self._options or {}
        if callable(options):
            try:
                options = options(seed)
            # Whatever a function of the user's raises.
            except Exception as error:
                what = f"{type(error).__name__}: {error}".rstrip(".")
                raise ComponentError(
                    f"{self.title}: the function options= raises {what} for the seed {seed}. Let "
                    f"it return what reset(options=) takes, such as {{'task_id': 1}}."
                ) from error
        try:
            return tuple(self.environment.reset(seed=seed, options={**options, **more}))
        # Whatever its code says of options that it does not take.
        except Exception as error:
            what = f"{type(error).__name__}: {error}".rstrip(".")
            raise ComponentError(
                f"{self.title} cannot be reset with options={options!r}: {what}. Correct options=."
            ) from error

    def _goal(self, info: Mapping[str, Any]) -> FloatArray:
        """Return the goal of an episode that info tells and the observation does not: [G]."""
        if isinstance(self.spaces[0], gymnasium.spaces.Dict) or info.get("goal") is None:
            return np.zeros(0)
        try:
            return np.asarray(info["goal"], dtype=np.float64).ravel()
        except (TypeError, ValueError):
            return np.zeros(0)

    def draw(self) -> Any:
        """Return what the environment looks like now: a frame [H, W, 3]."""
        bare = self.environment.unwrapped
        drawing = getattr(bare, "mujoco_renderer", None)
        viewers = () if drawing is None else tuple(drawing._viewers.values())
        # Copies of an environment share what draws it, which looks at the data of one of them.
        for holder in (drawing, *viewers) if viewers else ():
            holder.model, holder.data = bare.model, bare.data
        # One that has ended leaves no context, and then all is black.
        for viewer in viewers:
            viewer.make_context_current()
        return self._drawn(self.environment.render)

    def draw_goal(self, seed: int) -> Any:
        """Return what the goal of a seed's episode looks like, which reset draws: [H, W, 3]."""
        reset = partial(self._reset, episode_of(seed), render_goal=True)
        return self._drawn(reset)[1]["goal_rendered"]

    def _drawn(self, draw: Callable[[], Any]) -> Any:
        """Draw with the renderers of the first frame: to load meshes takes as long as two frames.

        Copies from before it have none, and make their own.
        """
        bare = self.environment.unwrapped
        for name, renderer in self._renderers.items():
            if vars(bare).get(name) is None and renderer._model is getattr(bare, "model", None):
                setattr(bare, name, renderer)
        drawn = draw()
        self._renderers = hold_renderers(bare)
        return drawn

    def play(self, row: FloatArray, actions: FloatArray, repeat: int) -> tuple[FloatArray, int]:
        """Return the rows [H, R] after each of actions [H, A], and how many steps were taken."""
        row, after, taken = row.copy(), np.empty((len(actions), len(row))), 0
        for step, action in enumerate(actions):
            # Where it is over, not even no reward is one that reaches a threshold; an infinite
            # one would be a state that has diverged.
            row[-4:-1] = 0, _LOWEST, UNTOLD
            for _ in range(repeat):
                if row[-1]:
                    break
                self._step(row, action)
                taken += 1
            after[step] = row
        return after, taken

    def _step(self, row: FloatArray, action: FloatArray) -> None:
        observation, reward, terminated, _, info = self.environment.step(
            native_action(action, self.spaces[1])
        )
        seen = self._flat(observation)
        row[: len(seen)] = seen
        row[-4] += float(reward)
        row[-3] = max(row[-3], float(reward))
        row[-2] = max(row[-2], self._succeeded(info, bool(terminated)))
        row[-1] = bool(terminated)

    def _succeeded(self, info: Mapping[str, Any], terminated: bool) -> float:
        """Return 1 or 0 for a step that succeeded or did not, `UNTOLD` where nothing says so."""
        if self._success == "terminated":
            return float(terminated)
        if self._success is not None and self._success not in info:
            its = f"has {', '.join(map(repr, info))}; write one of these" if info else "is empty"
            raise ComponentError(
                f"{self.title} has no {self._success!r} in its info, which success= names. That "
                f'{its}, or write success="terminated", or pass gym_task(make, success=...) a '
                f"function of observations."
            )
        for key in _SUCCESS if self._success is None else (self._success,):
            if key not in info:
                continue
            value = info[key]
            if not isinstance(value, bool | int | float):
                value = self._number(key, value)
            # NaN is no answer.
            if value == value:
                return float(bool(value))
        return UNTOLD

    def _number(self, key: str, value: Any) -> float:
        """Return an entry of info as a number; NaN, or ComponentError if it was asked for."""
        try:
            return np.asarray(value, dtype=np.float64).item()
        except (TypeError, ValueError):
            if self._success is None:
                return np.nan
            raise ComponentError(
                f"{self.title} has {key!r} in its info, which success= names, as {value!r:.60}. "
                f"Name one that is true or false, or pass gym_task(make, success=...) a function "
                f"of observations."
            ) from None

    def _flat(self, observation: Any) -> FloatArray:
        return flat(observation, self._seen_sizes, self.spaces[0], self.title)


def episode_of(seed: int) -> int:
    """Return the seed of an episode, also of its goal; see `Player.reset`."""
    return seed if seed >= 0 else -1 - seed


def _seed_spaces(environment: Any, seed: int) -> None:
    """Seed the spaces of an environment, and of all that it wraps."""
    while True:
        environment.action_space.seed(seed)
        environment.observation_space.seed(seed)
        if environment is environment.unwrapped or not isinstance(environment, gymnasium.Wrapper):
            return
        environment = environment.env


_USUAL = seeding.np_random


def _np_random(seed: int | None = None) -> Any:
    """Return gymnasium's generator of a seed, or, of none, one seeded by the global generator."""
    return _USUAL(int(_NUMPY.randint(1 << 31)) if seed is None else seed)


@contextmanager
def generators(state: Any) -> Iterator[Callable[[], None]]:
    """Put the global generators of `random` and numpy into a state, or seed them; give them back.

    Environments that draw from them then draw by the seed of the episode. So do spaces that are
    made meanwhile and seeded by nobody: OGBench's manipulation makes its action space anew whenever
    it is asked for, and samples of it. What is lent puts them into that state again.
    """
    before = generator_states()
    try:
        if isinstance(state, int):
            seed_generators(state)
            state = generator_states()
        else:
            _set_generators(state)
        seeding.np_random = _np_random
        held = _bits(state)

        def again() -> None:
            # Numpy takes longer to set them than many an environment to step, and few draw.
            if held is None or _bits(state) != held:
                _set_generators(state)
            else:
                random.setstate(state[0])

        yield again
    finally:
        seeding.np_random = _USUAL
        _set_generators(before)


# Bytes of the state of a Mersenne twister, as numpy has it: 624 words, and which is next.
_MT19937 = 625 * 4
# The legacy generators are what environments draw from; numpy's are one for the process.
_NUMPY = np.random.mtrand._rand


def generator_states() -> tuple[Any, Any]:
    """Return the states of both generators."""
    return random.getstate(), _NUMPY.get_state()


def _bits(states: tuple[Any, Any]) -> bytes | None:
    """Return what numpy's generator draws by, put into these states; None where nothing tells it.

    The second half of a pair of normals is drawn without a trace.
    """
    bits = _NUMPY._bit_generator
    if states[1][3] or not isinstance(bits, np.random.MT19937):
        return None
    return ctypes.string_at(bits.ctypes.state_address, _MT19937)


def _set_generators(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    _NUMPY.set_state(states[1])


def seed_generators(seed: int, *, is_for_good: bool = False) -> None:
    """Seed both generators; ``is_for_good`` lets new spaces draw by them from now on."""
    if is_for_good:
        seeding.np_random = _np_random
    random.seed(seed)
    _NUMPY.seed(seed % (1 << 32))

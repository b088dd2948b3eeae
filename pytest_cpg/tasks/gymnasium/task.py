"""Gymnasium: environments as tasks, put back into any state of any episode before they are stepped.

A state is a row of numbers: what it takes to put the environment back (see `Keeper`), then what it
observed, the rewards of the last step, and whether it is over. An environment that has terminated
stays as it is, without reward, until the budget is spent; its own time limit is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import packages_distributions, version
from typing import Any

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    BoxActions,
    ComponentError,
    FiniteActions,
    FloatArray,
    IntArray,
)
from pytest_cpg.tasks.families import unknown_name
from pytest_cpg.tasks.gymnasium.environments import check_numbers, flat, made_by
from pytest_cpg.tasks.gymnasium.keepers import keeper_of
from pytest_cpg.tasks.variants import (
    check_counts,
    check_least_return,
    check_score,
    check_threshold,
    rated,
    titled,
)

try:
    import gymnasium
except ModuleNotFoundError as error:
    raise ComponentError(
        f"tasks named gym: need {error.name}, which is not installed. "
        f'Type: pip install "pytest-cpg[gymnasium]"'
    ) from error

# Sum and largest of a step's rewards, and whether the environment has terminated.
_OUTCOME = 3
_LOWEST = np.finfo(np.float64).min
_BUDGET = 500
# What its own environments compute with, by the folder that they are in.
_ENGINES = {"box2d": "Box2D", "phys2d": "jax", "tabular": "jax"}


class World:
    """One environment of this process, and its keeper.

    Parameters
    ----------
    make : str or callable
        An id of gymnasium's, or what makes an environment.
    """

    def __init__(self, make: str | Callable[[], Any]) -> None:
        self.make = make
        self._lock = threading.Lock()
        # An id may come to mean another environment while this one is in use.
        self.spec = gymnasium.spec(make) if isinstance(make, str) else None
        environment = _made(make)
        self.spaces = (environment.observation_space, environment.action_space)
        self.title = str(make) if isinstance(make, str) else str(environment)
        self.is_mujoco = hasattr(environment.unwrapped, "do_simulation")
        self.period = _period(environment)
        self._environment = environment
        self._keeper = keeper_of(environment)
        self.observed = _flat_size(self.spaces[0], self.title, make)
        self._check_restores()

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what makes the environment."""
        return (_world_of, (self.make,)) if isinstance(self.make, str) else (World, (self.make,))

    @property
    def size(self) -> int:
        """Numbers that it takes to put the environment back."""
        return self._keeper.size

    def begin(self, seed: int) -> FloatArray:
        """Return the state [S] at the start of a seed's episode."""
        with self._lock:
            kept, observation = self._keeper.begin(seed)
            seen = flat(observation, self.observed, self.spaces[0], self.title)
            return np.concatenate([kept, seen, np.zeros(_OUTCOME)])

    def advance(
        self, state: FloatArray, actions: FloatArray, repeat: int, *, is_kept: bool
    ) -> FloatArray:
        """Return the states [H, S] after each of actions [H, A]; unless kept, not to step from."""
        after = np.full((len(actions), len(state)), np.nan)
        if np.isnan(state).any():
            return after
        size = self.size
        row = np.array(state)
        with self._lock:
            if not row[-1]:
                self._keeper.load(row[:size])
            for step, action in enumerate(actions):
                # Where it is over, not even no reward is one that reaches a threshold; an infinite
                # one would be a state that has diverged.
                row[-_OUTCOME:-1] = 0, _LOWEST
                for _ in range(repeat):
                    if row[-1]:
                        break
                    self._step(row, action, is_kept=is_kept)
                after[step] = row
                if not is_kept:
                    after[step, :size] = np.nan
        return after

    def _step(self, row: FloatArray, action: FloatArray, *, is_kept: bool) -> None:
        before = self._keeper.before() if is_kept else None
        observation, reward, terminated, _, _ = self._running.step(self._given(action))
        row[self.size : -_OUTCOME] = flat(observation, self.observed, self.spaces[0], self.title)
        total, best = row[-_OUTCOME] + float(reward), max(row[-_OUTCOME + 1], float(reward))
        row[-_OUTCOME:] = total, best, bool(terminated)
        if is_kept:
            row[: self.size] = self._keeper.save(row[: self.size], before)

    @property
    def _running(self) -> Any:
        return getattr(self._keeper, "environment", self._environment)

    def _given(self, action: FloatArray) -> Any:
        space = self.spaces[1]
        if isinstance(space, gymnasium.spaces.Discrete):
            return int(action[0])
        return action.astype(space.dtype).reshape(space.shape)

    def _check_restores(self) -> None:
        """Raise ComponentError unless a step from a state that was put back is the same step."""
        space = _action_space(self.spaces[1], self.title)
        actions = space.sample([np.random.default_rng(0)], (3,))[0]
        state = self.begin(1)
        middle = self.advance(state, actions[:2], 1, is_kept=True)[-1]
        ahead = self.advance(state, actions, 1, is_kept=False)
        check_numbers(ahead[:, self.size : -_OUTCOME], ahead[:, -_OUTCOME], self.title)
        self.begin(2)
        again = self.advance(middle, actions[2:], 1, is_kept=False)[-1]
        if not np.array_equal(state, self.begin(1), equal_nan=True):
            raise ComponentError(
                f"{self.title} does not start as before when it is reset by the same seed, so that "
                f"its episodes could not be repeated. Let reset(seed=...) begin anew, and draw "
                f"from self.np_random alone."
            )
        if not np.array_equal(ahead[-1], again, equal_nan=True):
            raise ComponentError(
                f"{self.title} does not go on as before when it is put back into a state: its "
                f"pickle, or its physics, does not hold all of it. Give it a __getstate__ that "
                f"does, or write a task of your own (pytest_cpg.Task)."
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GymnasiumTask:
    """An environment of gymnasium's; see `Task`.

    Attributes
    ----------
    world : World
    name : str
    actions : ActionSpace
    observation_size, budget, action_repeat : int
    threshold : float or None
        Least reward of an environment's step that succeeds; with None no step does, and returns
        are what can be compared.
    least_return : float or None
        As of `Task`.
    score_of : callable or None
        The user's score of observations [..., O]; None rates states by the reward.
    versions : mapping
    """

    world: World = field(repr=False)
    name: str
    actions: ActionSpace
    observation_size: int
    budget: int
    action_repeat: int = 1
    threshold: float | None = None
    least_return: float | None = None
    score_of: Callable[[FloatArray], FloatArray] | None = None
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        check_counts(budget=self.budget, action_repeat=self.action_repeat)
        check_threshold(self.threshold)
        check_least_return(self.least_return)
        check_score(self.score_of)
        asked = [
            f"{name}={getattr(self, name):.12g}"
            for name, usual in (("action_repeat", 1), ("threshold", None), ("least_return", None))
            if getattr(self, name) != usual
        ]
        object.__setattr__(self, "name", titled(self.name, *asked))

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's; None for code that no version stands for."""
        return _definition(self.world.spec) if self.score_of is None else None

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step; 1 where the environment does not tell."""
        return self.world.period * self.action_repeat

    def reset(self, seeds: IntArray) -> FloatArray:
        """Return the start of each seed [N], as `reset(seed=...)` gives it: states [N, S]."""
        return np.stack([self.world.begin(int(seed)) for seed in seeds])

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        after = np.empty(states.shape)
        for row, (state, action) in enumerate(zip(states, actions, strict=True)):
            after[row] = self.world.advance(state, action[None], self.action_repeat, is_kept=True)
        return after

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        after = np.empty((*actions.shape[:2], states.shape[1]))
        for row, (state, plan) in enumerate(zip(states, actions, strict=True)):
            after[row] = self.world.advance(state, plan, self.action_repeat, is_kept=False)
        return after

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O]."""
        return np.array(states[..., self.world.size : -_OUTCOME])

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by the user's score; lower is better.

        Raises
        ------
        WorldModelError
            When the user has given none.
        """
        return rated(
            self.score_of,
            observations,
            name=self.name,
            written=f"gym_task({self.world.title!r}, score=lambda observations: ...) from "
            f"pytest_cpg.tasks.gymnasium.task",
        )

    def score_states(self, states: FloatArray) -> FloatArray:
        """Rate states [..., S] by minus the reward of the step that led there: [...]."""
        if self.score_of is not None:
            return self.score(self.observe(states))
        return np.asarray(-states[..., -3])

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the reward [...], summed over repeats, of steps that ended in states [..., S]."""
        del actions
        return np.array(states[..., -3])

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether the reward [...] of a step of the environment reached the threshold."""
        del actions
        least = np.inf if self.threshold is None else self.threshold
        return np.asarray(states[..., -2] >= least)


def gym_task(
    make: str | Callable[[], Any],
    *,
    name: str = "",
    budget: int | None = None,
    action_repeat: int = 1,
    threshold: float | None = None,
    least_return: float | None = None,
    score: Callable[[FloatArray], FloatArray] | None = None,
) -> GymnasiumTask:
    """Return an environment as a task.

    Parameters
    ----------
    make : str or callable
        An id of gymnasium's, or what makes an environment, without a time limit.
    name : str, optional
        Printed in reports; by default ``gym:`` and the id.
    budget : int, optional
        Steps of an episode; by default the id's ``max_episode_steps``, or 500.

    The others are those of `GymnasiumTask`.

    Raises
    ------
    ComponentError
        When it is unknown, has spaces that are no flat boxes or lists, or cannot be put back.
    """
    if isinstance(make, str):
        check_name(make)
        budget = gymnasium.spec(make).max_episode_steps if budget is None else budget
    world = _world_of(make) if isinstance(make, str) else World(make)
    return GymnasiumTask(
        world=world,
        name=name or f"gym:{world.title}",
        actions=_action_space(world.spaces[1], world.title),
        observation_size=world.observed,
        budget=_BUDGET if budget is None else budget,
        action_repeat=action_repeat,
        threshold=threshold,
        least_return=least_return,
        score_of=score,
        versions={package: version(package) for package in _packages(world)},
    )


def check_name(name: str) -> None:
    """Raise ComponentError unless gymnasium has an environment of this id."""
    try:
        gymnasium.spec(name)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:
        raise unknown_name("Gymnasium environment", "gym:", name, _newest().values()) from error


def _world_of(make: str) -> World:
    """Return the one environment in this process of what an id means now."""
    return _world(make, repr(gymnasium.spec(make)))


@cache
def _world(make: str, spec: str) -> World:
    del spec
    return World(make)


def _definition(spec: Any) -> str | None:
    """Return what defines an environment of an id; None for what no version stands for."""
    if spec is None:
        return None
    wrappers = [(one.entry_point, one.kwargs) for one in spec.additional_wrappers]
    own = ("gymnasium.envs.", *["gymnasium.wrappers."] * len(wrappers))
    entries = [spec.entry_point, *(entry for entry, _ in wrappers)]
    given = [spec.kwargs, *(kwargs for _, kwargs in wrappers)]
    if not all(str(e).startswith(o) for e, o in zip(entries, own, strict=True)):
        return None
    if not all(_is_plain(kwargs) for kwargs in given):
        return None
    return f"gym {spec.id} {entries} {given} {spec.order_enforce}"


def _is_plain(value: Any) -> bool:
    """Say whether a setting is known by its text; that of a file is not what is in the file."""
    if isinstance(value, dict):
        return all(_is_plain(part) for pair in value.items() for part in pair)
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if isinstance(value, str):
        return not set(value) & set("./\\")
    return value is None or type(value) in (bool, int, float)


def _packages(world: World) -> list[str]:
    """Return the distributions that decide what an environment does."""
    engine = _engine(world.spec)
    found = packages_distributions().get(engine, []) if engine else []
    return ["gymnasium", *(["mujoco"] if world.is_mujoco else []), *found]


def _engine(spec: Any) -> str | None:
    """Return what gymnasium's own environment of an id computes with, beside MuJoCo and numpy."""
    entry = str(getattr(spec, "entry_point", ""))
    return _ENGINES.get(entry.removeprefix("gymnasium.envs.").partition(".")[0])


def _made(make: str | Callable[[], Any]) -> Any:
    if not isinstance(make, str):
        return made_by(make)
    try:
        return gymnasium.make(make, max_episode_steps=-1, disable_env_checker=True)
    except gymnasium.error.DependencyNotInstalled as error:
        engine = _engine(gymnasium.spec(make))
        extra = f"gymnasium[{engine.lower()}]" if engine else "pytest-cpg[gymnasium,control]"
        raise ComponentError(
            f"gym:{make} needs a package that is not installed: {error}. "
            f'Type: pip install "{extra}"'
        ) from error
    # An id that is registered for nothing but to say where its code has gone.
    except ImportError as error:
        newest = _newest().get(_family_of(gymnasium.spec(make)), make)
        fix = f" Take gym:{newest}." if newest != make else ""
        raise ComponentError(f"gym:{make} cannot be made: {error}{fix}") from error


def _newest() -> dict[tuple[str | None, str], str]:
    """Return the newest id of every environment."""
    by_version = sorted(gymnasium.registry.values(), key=lambda spec: spec.version or 0)
    return {_family_of(spec): spec.id for spec in by_version}


def _family_of(spec: Any) -> tuple[str | None, str]:
    return spec.namespace, spec.name


def _action_space(space: Any, title: str) -> ActionSpace:
    if isinstance(space, gymnasium.spaces.Discrete):
        return FiniteActions(np.arange(space.start, space.start + space.n)[:, None])
    if isinstance(space, gymnasium.spaces.Box) and np.isfinite([space.low, space.high]).all():
        return BoxActions(np.ravel(space.low), np.ravel(space.high))
    raise ComponentError(
        f"{title} has actions of {space}, and planners draw from a Discrete or a bounded Box. Wrap "
        f"it, for instance in gymnasium.wrappers.RescaleAction, and pass gym_task(lambda: ...) "
        f"from pytest_cpg.tasks.gymnasium.task."
    )


def _flat_size(space: Any, title: str, make: str | Callable[[], Any]) -> int:
    if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1:
        return int(space.shape[0])
    given = make if isinstance(make, str) else getattr(make, "__qualname__", "make")
    inner = given if given.isidentifier() else "make"
    made = f"gymnasium.make({make!r}, max_episode_steps=-1)" if given is make else f"{inner}()"
    raise ComponentError(
        f"{title} has observations of {space}, and a flat Box is needed. Pass "
        f"gym_task(lambda: gymnasium.wrappers.FlattenObservation({made})) from "
        f"pytest_cpg.tasks.gymnasium.task."
    )


def _period(environment: Any) -> float:
    """Return the seconds of a step, 1 where the environment tells neither them nor its films'."""
    found = getattr(environment.unwrapped, "dt", None)
    if found is None:
        rate = environment.metadata.get("render_fps")
        found = 1 / rate if rate else 1.0
    return float(found)

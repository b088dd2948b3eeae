"""Task: a world with a goal, and what it may have beside its methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts.actions import ActionSpace
from pytest_cpg.contracts.arrays import BoolArray, FloatArray, IntArray, as_numbers
from pytest_cpg.contracts.errors import ComponentError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has


@runtime_checkable
class Task(Protocol):
    """A world with a goal: true dynamics, observations, and when an episode has succeeded.

    A state ``[S]`` holds everything that the next state depends on (positions, velocities, solver
    warm start, the episode's target), so that every method is a pure function of its arguments:
    a row's result depends on that row alone, bit for bit.

    It may also have any of `StateScore`, `LeastReturn`, `RewardThreshold`, `Endings`,
    `Strata`, `NoteOnStarts`, `ChangeablePhysics`, `MeasuredColumns`, `Pictures`,
    `SeenAsPictures`, `SlowPictures`, `ObservationKeys`, `Observed`, `ActionRepeat`,
    `SuccessSource`, `ToldSuccess`, `Restored`, `EpisodeGoals`, `ListedGoals`, `GoalPictures`,
    `DrawnGoals` and `CacheKey`.
    """

    @property
    def name(self) -> str:
        """The name used in markers and printed in every report."""

    @property
    def actions(self) -> ActionSpace:
        """What can be done at every step."""

    @property
    def observation_size(self) -> int:
        """Numbers in one observation, ``O``."""

    @property
    def budget(self) -> int:
        """Steps after which an episode has failed."""

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step."""

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the simulator's packages, part of every result."""

    def reset(self, seeds: IntArray) -> FloatArray:
        """Sample one start per seed [N] from the task's own distribution: states [N, S]."""

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states [B, S], exactly as the environment.

        The result can be stepped from again. A row whose simulation diverged is all NaN.
        """

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Imagine with the true dynamics: states [B, S], actions [B, H, A] to states [B, H, S].

        What `observe` reads equals repeated `step` bit for bit; what only `step` reads (a solver's
        warm start) may be NaN. A row whose simulation diverged is NaN from that step on.
        """

    def observe(self, states: FloatArray) -> npt.NDArray[Any]:
        """Map states [..., S] to observations [..., O]: numbers, or pixels of 8 bits."""

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by distance to the goal [...]; lower is better."""

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the reward [...] of the step by actions [..., A] that ended in states [..., S]."""

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether the step by actions [..., A] that ended in states [..., S] succeeded."""


class StateScore(Protocol):
    """A task whose score needs more than is observed: the oracle arm is planned with this one.

    Its `score` may raise WorldModelError, as its models bring their own.
    """

    def score_states(self, states: FloatArray) -> FloatArray:
        """Rate states [..., S] by distance to the goal [...]; lower is better."""


def score_states(task: Task, states: FloatArray) -> FloatArray:
    """Rate states [..., S] as the oracle arm does: by themselves, or by what is observed: [...]."""
    if has(task, StateScore):
        return np.asarray(task.score_states(states))
    return np.asarray(task.score(task.observe(states)))


def check_facts(task: Task) -> Task:
    """Return a task that says of itself what its contract promises; else raise ComponentError."""
    actions, budget, versions = task.actions, task.budget, task.versions
    period = task.control_period
    is_whole = _is_number(budget) and float(budget).is_integer()
    for name, value, is_kept, wanted in (
        ("actions", actions, isinstance(actions, ActionSpace), "FiniteActions or BoxActions"),
        ("budget", budget, is_whole and budget >= 1, "a whole number of at least 1"),
        ("control_period", period, _is_number(period), "a number of seconds"),
        ("versions", versions, isinstance(versions, Mapping), "a dict, package to version"),
    ):
        if not is_kept:
            raise ComponentError(f"task {task.name!r}: {name}: need {wanted}, got {value!r}")
    return task


def _is_number(value: Any) -> bool:
    """Tell whether a value is one number, which numpy and JAX may have in an array []."""
    return hasattr(value, "__float__") and np.ndim(value) == 0


class LeastReturn(Protocol):
    """A task with its goal at an episode's end: it succeeds if its rewards add up to so much.

    Its `success` is not asked, and no episode ends before its budget.
    """

    least_return: float
    """The sum of rewards that is a success."""


class RewardThreshold(Protocol):
    """A task that succeeds at the first step with so much reward."""

    threshold: float
    """The reward that is a success."""


class Endings(Protocol):
    """A task some of whose states end an episode: they stay as they are, without reward."""

    def terminated(self, states: FloatArray) -> BoolArray:
        """Say of states [..., S] whether the episode is over: bool [...]."""


def has_ended(task: object, states: FloatArray) -> BoolArray:
    """Say of states [..., S] whether the episode is over: bool [...]; never without `Endings`."""
    if has(task, Endings):
        return np.asarray(task.terminated(states), dtype=np.bool_)
    return np.zeros(states.shape[:-1], dtype=np.bool_)


class Strata(Protocol):
    """A task whose steps are of different kinds, some of them rare."""

    def strata(self, states: FloatArray, actions: FloatArray) -> Mapping[str, BoolArray]:
        """Say of each kind, by name, which steps by actions [B, A] from states [B, S] are: [B]."""
        ...


def stratum_of(task: Task, stratum: str, states: FloatArray, actions: FloatArray) -> BoolArray:
    """Say which steps by actions [B, A] from states [B, S] are of a stratum: [B].

    Raises ComponentError where the task has none of that name.
    """
    strata = task.strata(states, actions) if has(task, Strata) else {}
    if stratum not in strata:
        fix = did_you_mean(stratum, ["all", *strata])
        raise ComponentError(f"task {task.name!r} has no stratum {stratum!r}. {fix}")
    chosen = np.asarray(strata[stratum])
    if chosen.shape != states.shape[:1] or chosen.dtype != np.bool_:
        raise ComponentError(
            f"task {task.name!r}: strata()[{stratum!r}] is {chosen.dtype} {chosen.shape}. Return "
            f"a bool for each of {len(states)} steps."
        )
    return chosen


class NoteOnStarts(Protocol):
    """A task that has something to say of its starts, which stands below a gate."""

    @property
    def note_on_starts(self) -> str:
        """One clause, such as which share of all starts these are; or None."""


class Parts(Protocol):
    """A task whose observations are of several things, and whose actions are each on one."""

    @property
    def parts(self) -> Mapping[str, Sequence[int]]:
        """The columns of an observation that are of each, by its name."""

    def acted_on(self, actions: FloatArray) -> IntArray:
        """Say which of the parts, by their numbers from 0, actions [B, A] are on: [B]."""
        ...


class Draws(Protocol):
    """A task whose steps are drawn, by what its states hold."""

    def redrawn(self, states: FloatArray, seeds: IntArray) -> FloatArray:
        """Return states [B, S] as they are, but for the draws that come, by seeds [B]."""
        ...


class Chances(Protocol):
    """A task that knows how likely each outcome of a step is."""

    def log_probability(
        self, observations: FloatArray, actions: FloatArray, next_observations: FloatArray
    ) -> FloatArray:
        """Return the logs [B] of the chances that actions lead from one [B, O] to the other."""
        ...


class EpisodeGoals(Protocol):
    """A task each of whose starts has a goal of its own, which is part of the state."""

    def goal(self, states: FloatArray) -> FloatArray:
        """Return the goals [..., G] of states [..., S], the first numbers first."""
        ...


def goals_of(task: object, states: FloatArray) -> tuple[tuple[float, ...], ...]:
    """Return the goal of each state [N, S]; nothing where states have none."""
    if not has(task, EpisodeGoals):
        return ()
    return tuple(tuple(map(float, row)) for row in task.goal(states))


class ListedGoals(Protocol):
    """A task with a list of goals for the episodes of a gate, in order."""

    def at_episodes(self, states: FloatArray, episodes: IntArray) -> FloatArray:
        """Return starts [N, S] with the goals of episodes [N]; TaskError if there are too few."""
        ...


class Relabelled(Protocol):
    """A task with `EpisodeGoals`, whose goals can be where an episode came to."""

    def relabelled(self, states: FloatArray, ends: FloatArray) -> FloatArray:
        """Return states [N, ..., S] with the goals that states [N, S] reach."""
        ...


class ChangeablePhysics(Protocol):
    """A task whose real physics can be other than its own."""

    def with_physics(self, **scales: float) -> Task:
        """Return the task with its mass, friction and gravity times these factors."""


class MeasuredColumns(Protocol):
    """A task whose states can be seen wrongly."""

    measured: IntArray
    """The columns of a state [S] that are measured."""


class Pictures(Protocol):
    """A task that can be filmed."""

    def render(self, states: FloatArray) -> npt.NDArray[np.uint8]:
        """Map states [B, S] to frames [B, H, W, 3]."""


class GoalPictures(Protocol):
    """A task whose pictures can show another goal than its own."""

    def render_goals(self, states: FloatArray, goals: FloatArray) -> npt.NDArray[np.uint8]:
        """Map states [B, S] and goals [B, O] to frames [B, H, W, 3].

        Goals are observations, NaN where any number will do.
        """


class DrawnGoals(Protocol):
    """A task with `EpisodeGoals` that says whether its pictures show them."""

    draws_goals: bool


class SeenAsPictures(Protocol):
    """A task whose models are given pictures to encode, in place of its observations."""

    picture_shape: tuple[int, int, int, int]
    """Of what is seen of one state: frames, rows, columns and colours, ``[F, H, W, C]``."""

    def pictures(self, states: FloatArray) -> npt.NDArray[np.uint8]:
        """Map states [B, S] to what models see of them [B, F, H, W, C]."""
        ...


class SlowPictures(Protocol):
    """A task whose pictures take long: only real steps are drawn, and none that are imagined.

    So true states are not rated as a model rates them, unless its `RatesStates` asks for that.
    """

    slow_pictures: bool
    """True."""


def seen(task: Task, states: FloatArray) -> npt.NDArray[Any]:
    """Return what models are given of states [B, S], as an array of their own.

    Pictures [B, F, H, W, C] of 8 bits where the task has them, else observations [B, O], float64.
    """
    if has(task, SeenAsPictures):
        pictures = np.array(task.pictures(states))
        shape, wanted = pictures.shape, (len(states), *task.picture_shape)
        # Of another way to read them, numbers may be of another type.
        if shape != wanted or (pictures.dtype != np.uint8 and not hasattr(task, "reading")):
            raise ComponentError(
                f"pictures: need {list(wanted)} in uint8, 0 to 255, as picture_shape says, got "
                f"{list(shape)} in {pictures.dtype}. Return (255 * frames).astype(np.uint8) of "
                f"frames from 0 to 1."
            )
        return pictures
    return np.array(task.observe(states), dtype=np.float64)


def observed(task: Task, states: FloatArray) -> FloatArray:
    """Return what is observed of states [..., S] to calculate with [..., O]; see `as_numbers`."""
    return as_numbers(np.asarray(task.observe(states)))


class ObservationKeys(Protocol):
    """A task whose observations are several, joined: a network may read them in another order."""

    observation_keys: Mapping[str, int]
    """How many numbers each name stands for, in the order of an observation."""


class Observed(Protocol):
    """A task that says what it observes, number by number."""

    observed: Sequence[str]
    """What each number of an observation is, ``O`` texts, with its unit if it has one."""


class ActionRepeat(Protocol):
    """A task whose step is several of the simulator's."""

    action_repeat: int
    """How many control steps an action is held for."""


class ToldSuccess(Protocol):
    """A task that may be made without anything that tells its success."""

    tells_success: bool
    """Whether anything does."""


def tells_success(task: object) -> bool:
    """Say whether anything of a task tells when an episode has succeeded."""
    return not has(task, ToldSuccess) or bool(task.tells_success)


class SuccessSource(Protocol):
    """A task whose success is told by somebody else's code."""

    succeeds_by: str
    """What tells it, such as a key of an environment's info."""


class Restored(Protocol):
    """A task whose simulator is not its own, and is put back into each state before it steps."""

    restored_by: str
    """The way in which that is done."""


TaskFactory: TypeAlias = Callable[..., Task]

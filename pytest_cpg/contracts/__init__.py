"""Contracts: protocols of tasks, planners and world models, action spaces, errors.

Everything is batched. Letters in array shapes: ``N`` episodes, ``K`` candidate plans, ``B`` any
batch, ``H`` planning horizon, ``S`` simulator state, ``O`` observation, ``Z`` latent, ``A`` action,
``M`` number of actions in a finite set. ``...`` stands for any leading shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


class CpgError(Exception):
    """A problem that the user can mend; the message says how."""


class ComponentError(CpgError):
    """A task, planner or world model that is unknown, not installed or not usable together."""


class TaskError(CpgError):
    """A task that cannot go on: a diverged simulator, or no start that is not solved already."""


class WorldModelError(CpgError):
    """A world model that broke its contract: shape, dtype, NaN, or no reaction to the action."""


class IncompleteError(CpgError):
    """A comparison whose time ran out: there is no verdict, and its gate fails."""


@dataclass(frozen=True, slots=True, eq=False)
class FiniteActions:
    """A finite set of actions.

    Attributes
    ----------
    values : array [M, A]
        One action a row, in the simulator's own units.
    """

    values: FloatArray

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(f"need actions of shape [M, A], got shape {values.shape}")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @property
    def size(self) -> int:
        """Numbers in one action, ``A``."""
        return int(self.values.shape[1])

    @property
    def idle(self) -> FloatArray:
        """The action nearest to zero, [A]."""
        nearest = int(np.argmin((self.values**2).sum(axis=1)))
        return np.array(self.values[nearest])

    def contains(self, actions: FloatArray) -> BoolArray:
        """Say which of the actions [..., A] are in the set, exactly: [...]."""
        return np.asarray((actions[..., None, :] == self.values).all(axis=-1).any(axis=-1))

    def sample(self, rngs: Sequence[np.random.Generator], shape: tuple[int, ...]) -> FloatArray:
        """Draw uniform actions [N, *shape, A], the row of an episode from its own stream."""
        return self.values[np.stack([rng.integers(len(self.values), size=shape) for rng in rngs])]


@dataclass(frozen=True, slots=True, eq=False)
class BoxActions:
    """All actions between two bounds.

    Attributes
    ----------
    low, high : array [A]
        Finite bounds, in the simulator's own units, ``low < high``.
    """

    low: FloatArray
    high: FloatArray

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = np.array(getattr(self, name), dtype=np.float64)
            bound.flags.writeable = False
            object.__setattr__(self, name, bound)
        if self.low.ndim != 1 or self.low.shape != self.high.shape or not self.low.size:
            raise ValueError(f"need two bounds [A], got {self.low.shape} and {self.high.shape}")
        if not (np.isfinite(self.low) & np.isfinite(self.high) & (self.low < self.high)).all():
            raise ValueError(f"need finite low < high, got {self.low} and {self.high}")

    @property
    def size(self) -> int:
        """Numbers in one action, ``A``."""
        return int(self.low.size)

    @property
    def idle(self) -> FloatArray:
        """The action nearest to zero, [A]."""
        return np.clip(np.zeros_like(self.low), self.low, self.high)

    def contains(self, actions: FloatArray) -> BoolArray:
        """Say which of the actions [..., A] lie within the bounds: [...]."""
        return np.asarray(((actions >= self.low) & (actions <= self.high)).all(axis=-1))

    def sample(self, rngs: Sequence[np.random.Generator], shape: tuple[int, ...]) -> FloatArray:
        """Draw uniform actions [N, *shape, A], the row of an episode from its own stream."""
        unit = np.stack([rng.random((*shape, self.size)) for rng in rngs])
        return self.low + (self.high - self.low) * unit


ActionSpace: TypeAlias = FiniteActions | BoxActions


@runtime_checkable
class Task(Protocol):
    """A world with a goal: true dynamics, what is observed, and when an episode has succeeded.

    A state ``[S]`` holds everything that the next state depends on (positions, velocities, solver
    warm start, the episode's target), so that every method is a pure function of its arguments:
    a row's result depends on that row alone, bit for bit.

    A task whose real physics can be other than its own may offer ``with_physics(**scales) -> Task``
    with factors of mass, friction and gravity, and one whose states can be seen wrongly an array
    ``measured`` of their columns that can. A task with pictures may offer ``render(states [B, S])
    -> frames [B, H, W, 3]``, uint8.

    One whose score needs more than is observed may offer ``score_states(states [..., S])``, which
    the oracle arm is planned with, and raise WorldModelError in `score`: its models bring their
    own.

    One with a number ``least_return`` has its goal at an episode's end: it succeeds if its rewards
    add up to that. Its `success` is not asked, and no episode ends before its budget.
    """

    @property
    def name(self) -> str:
        """The name used in markers and printed in every report."""
        ...

    @property
    def actions(self) -> ActionSpace:
        """What can be done at every step."""
        ...

    @property
    def observation_size(self) -> int:
        """Numbers in one observation, ``O``."""
        ...

    @property
    def budget(self) -> int:
        """Steps after which an episode has failed."""
        ...

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step."""
        ...

    @property
    def versions(self) -> Mapping[str, str]:
        """Versions of the simulator's packages, part of every result."""
        ...

    def reset(self, seeds: IntArray) -> FloatArray:
        """Sample one start per seed [N] from the task's own distribution: states [N, S]."""
        ...

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states [B, S], exactly as the environment.

        The result can be stepped from again. A row whose simulation diverged is all NaN.
        """
        ...

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Imagine with the true dynamics: states [B, S], actions [B, H, A] to states [B, H, S].

        What `observe` reads equals repeated `step` bit for bit; what only `step` reads (a solver's
        warm start) may be NaN. A row whose simulation diverged is NaN from that step on.
        """
        ...

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O]."""
        ...

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by distance to the goal [...]; lower is better."""
        ...

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the reward [...] of the step by actions [..., A] that ended in states [..., S]."""
        ...

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether the step by actions [..., A] that ended in states [..., S] succeeded."""
        ...


@runtime_checkable
class Dynamics(Protocol):
    """One step of a learned world, for ``B`` observations at once.

    Takes and returns numpy arrays or torch tensors.
    """

    def __call__(self, observations: Any, actions: Any) -> Any:
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""
        ...


@runtime_checkable
class WorldModel(Protocol):
    """A learned world that plans may be imagined in.

    Only `rollout` is needed. Latents are float arrays or tensors, or a dict or tuple of them with
    a row for each observation. A model may also have

    ``update(latents [B, Z], actions [B, A], observations [B, O]) -> latents [B, Z]``
        A memory: `encode` is asked at an episode's start only, and this once after every real
        step, also between two plans. Without it the model is encoded anew whenever it is planned.
    ``noise_size``, a whole number
        Of a stochastic model: `rollout` then takes a third argument, standard normal noise
        [B, H, noise_size] from a stream of each episode's own, and draws nothing itself. Zeros
        stand for what is most likely where one prediction is wanted.
    ``decode(latents [..., Z]) -> [..., O]``, in place of `score`
        The task's own score is then used on what it decodes.
    ``reward(latents [..., Z], actions [..., A]) -> [...]``, in place of `score`
        Of the actions taken in these latents; one that needs a third argument gets the latents
        they led to. The score of a step is then minus its reward, with a ``discount`` in (0, 1],
        by default 1, of each step that a plan has behind it.
    ``terminal_value(latents [B, Z]) -> [B]``, beside `reward`
        The score of a step is then minus the return of a plan that ends there: all rewards up to
        it, and this value of where it is by then.
    ``rates_states = False``
        It can only rate what a plan led to, not what `encode` gives: there is no third arm then.
    ``plan(latents [N, Z], rngs, remaining [N]) -> (actions [N, H, A], lengths [N])``
        A planner of its own, which replaces the gate's in the learned arm; it is asked for one
        episode at a time. See `Planner.plan`.
    """

    def encode(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to latents [B, Z]."""
        ...

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        ...

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate latents [..., Z] by distance to the goal [...]; lower is better."""
        ...


class PlanningModel(Protocol):
    """What a planner sees of a world, oracle or learned: how plans may be imagined and rated.

    A world that can be differentiated has a ``plan_gradient`` other than None. It maps latents
    [B, Z], actions [B, H, A] and weights [B, H] to the gradient [B, H, A] of the scores' sum by
    these weights. One whose latents can be seen from outside has an ``observe`` other than None,
    from latents [B, H, Z] to observations [B, H, O].
    """

    @property
    def actions(self) -> ActionSpace:
        """What can be done at every step."""
        ...

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z].

        ``B`` is a multiple of the number of planning episodes, and rows of one episode are
        neighbours: candidate ``k`` of episode ``n`` is row ``n * K + k``.
        """
        ...

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate latents [B, H, Z] by distance to the goal [B, H], never NaN; lower is better."""
        ...


class Plans(NamedTuple):
    """What a planner decided.

    Attributes
    ----------
    actions : array [N, H, A]
    lengths : array [N], int
        How many of an episode's actions are executed before it plans again, 1 to ``remaining``.
    confidences : array [N], optional
        How sure the planner is that each episode will succeed, on any scale, higher is surer.
    memory : array [N, ...], optional
        What each episode's next plan may begin from, finite; see `Planner`.
    """

    actions: FloatArray
    lengths: IntArray
    confidences: FloatArray | None = None
    memory: FloatArray | None = None


@runtime_checkable
class Planner(Protocol):
    """A search for actions through a world that can be imagined.

    A planner is a value without memory: the same arguments give the same plans, and the plan of an
    episode depends on its own latent, stream and remaining steps alone.

    One that begins a plan from the last one has an attribute ``is_warm_started = True``. It returns
    `Plans.memory`, and is called with the keyword ``memory=``: what it returned for these episodes
    [N, ...], or None when it is their first plan. Shift it by ``lengths`` before returning it: so
    many actions will have been executed by then.
    """

    @property
    def name(self) -> str:
        """The name printed in every report."""
        ...

    @property
    def horizon(self) -> int:
        """Steps that are imagined ahead, ``H``."""
        ...

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
    ) -> Plans:
        """Plan for ``N`` episodes at once.

        Parameters
        ----------
        world_model : PlanningModel
        latents : array [N, Z]
            Where each episode is.
        rngs : N generators
            One stream per episode. Draw the same amount from each, whatever ``remaining`` is.
        remaining : array [N], int
            Steps left in each episode's budget, at least 1.
        """
        ...


TaskFactory: TypeAlias = Callable[..., Task]
PlannerFactory: TypeAlias = Callable[..., Planner]
WorldModelFactory: TypeAlias = Callable[[Task], Any]

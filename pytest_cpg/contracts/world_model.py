"""World model: a learned world, what it may have beside its rollout, and several side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from pytest_cpg.contracts.arrays import BoolArray, FloatArray, IntArray
from pytest_cpg.contracts.parts import members
from pytest_cpg.contracts.planner import Plans, WarmStart
from pytest_cpg.contracts.task import Task


@runtime_checkable
class Dynamics(Protocol):
    """One step of a learned world, for ``B`` observations at once.

    Takes and returns numpy arrays or torch tensors.
    """

    def __call__(self, observations: Any, actions: Any) -> Any:
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""


class Rollout(Protocol):
    """All that a world model needs, where its latents are observations that the task can rate."""

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""


class Encoder(Protocol):
    """A model whose latents are not observations."""

    def encode(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to latents [B, Z]."""


class Memory(Protocol):
    """A model that is encoded at an episode's start only, and knows what came since.

    Without it a model is encoded anew whenever it is planned with.
    """

    def update(
        self, latents: FloatArray, actions: FloatArray, observations: FloatArray
    ) -> FloatArray:
        """Map latents [B, Z] to those after actions [B, A] led to observations [B, O].

        It is asked once after every real step, also between two plans.
        """


class Score(Protocol):
    """A model that rates plans itself; its rewards are then not asked."""

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate latents [..., Z] by distance to the goal [...]; lower is better."""


class Cost(Protocol):
    """A model that rates whole plans.

    Where nothing but the end of a plan decides (``objective="terminal"`` with ``execute``), it is
    asked once for each plan, and nothing else is. Any other objective reads scores of steps: those
    of the model's `Score`, `Reward` or `Decoder`, and without one of them it is refused.
    """

    def cost(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and plans [B, H, A] to costs [B]; lower is better.

        That of a stochastic model takes noise as its rollout does.
        """


class Reward(Protocol):
    """A model whose plans are rated by its rewards, in place of `Score`.

    The score of a step is then minus its reward, with the model's `Discount` of each step that a
    plan has behind it.
    """

    def reward(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [..., Z] and the actions [..., A] taken in them to rewards [...].

        One that needs a third argument gets the latents [..., Z] that they led to.
        """


class TerminalValue(Protocol):
    """A model that knows what comes after a plan, beside its `Reward`.

    The score of a step is then minus the return of a plan that ends there: all rewards up to it,
    and this value of where it is by then.
    """

    def terminal_value(self, latents: FloatArray) -> FloatArray:
        """Map latents [B, Z] to the rewards expected from there on [B]."""


class OwnPolicy(Protocol):
    """A model that knows what it would do; planners may begin from it (`MPPI.policy_plans`)."""

    def policy(self, latents: FloatArray) -> FloatArray:
        """Map latents [B, Z] to actions [B, A] of the task; a box's are clipped to its bounds.

        One that needs a second argument gets standard normal noise [B, A] from a stream of each
        episode's own, and draws nothing itself.
        """


class Decoder(Protocol):
    """A model whose plans the task rates by what it decodes, where it has no rating of its own."""

    def decode(self, latents: FloatArray) -> FloatArray:
        """Map latents [..., Z] to observations [..., O]."""


class OwnPlan(Protocol):
    """A model with a planner of its own, which replaces the gate's in the learned arm.

    It may also have `WarmStart`, as a planner may.
    """

    def plan(
        self, latents: FloatArray, rngs: Sequence[np.random.Generator], remaining: IntArray
    ) -> Plans | tuple[FloatArray, IntArray]:
        """Return actions [N, H, A] and lengths [N] from latents [N, Z]; see `Planner.plan`.

        It is asked for one episode at a time.
        """


class Noise(Protocol):
    """A stochastic model, which draws nothing itself.

    Its `rollout` takes a third argument: standard normal noise [B, H, noise_size] from a stream of
    each episode's own. Zeros stand for what is most likely where one prediction is wanted.
    """

    noise_size: int
    """Normal numbers that it reads in each step."""


class BatchMultiple(Protocol):
    """A model, or a function, that takes only multiples of so many rows.

    Rows are added by repeating the last one, and what comes back for them is left out.
    """

    batch_multiple: int
    """How many: the members of a vectorised ensemble that divides its rows among them."""


class Discount(Protocol):
    """A model whose later rewards count less."""

    discount: float
    """Of a reward one step later, in (0, 1]; 1 for a model that does not say."""


class RatesStates(Protocol):
    """A model that says whether it can rate what `encode` gives, or only what a plan led to."""

    rates_states: bool
    """True for a model that does not say; without it there is no third arm."""


class OpaqueLatents(Protocol):
    """A model that says whether its latents tell nothing of what it saw, such as numbers of it."""

    has_opaque_latents: bool
    """False for a model that does not say; with it no probe looks for what was seen."""


class Embedding(Protocol):
    """A model with `OpaqueLatents` that knows what it saw, too, and not only its number."""

    def embed(self, pictures: Any) -> FloatArray:
        """Map pictures [B, F, H, W, C] to what the model makes of each [B, D], its goal apart."""
        ...


class TrainedPlanner(Protocol):
    """A model that says how it is planned with, for ``planner="as-trained"`` in a marker."""

    @property
    def trained_planner(self) -> Any:
        """A `Planner`, or its name in markers and its settings: ``{"name": "icem", ...}``."""


@runtime_checkable
class WorldModel(Encoder, Rollout, Score, Protocol):
    """A learned world that plans may be imagined in.

    Only `rollout` is needed. Latents are float arrays or tensors, or a dict or tuple of them with
    a row for each observation. A model may also have any of `Memory`, `Decoder`, `Cost`, `Reward`,
    `TerminalValue`, `OwnPolicy`, `OwnPlan`, `Noise`, `BatchMultiple`, `Discount`, `RatesStates`,
    `OpaqueLatents`, `Embedding`, `TrainedPlanner` and `CacheKey`.
    """


# Names of all that a model with a rollout may have: methods, and what it says of itself.
METHODS = tuple(
    name
    for part in (Encoder, Memory, Score, Cost, Decoder, Reward, TerminalValue, OwnPolicy, OwnPlan)
    for name in members(part)
)
FACTS = tuple(
    name
    for part in (Noise, Discount, WarmStart, RatesStates, OpaqueLatents, TrainedPlanner)
    for name in members(part)
)


WorldModelFactory: TypeAlias = Callable[[Task], Any]


# Maps a step's number, from 0, and observations [E, B, O] to the actions [E, B, A] taken there.
Act: TypeAlias = Callable[[int, FloatArray], FloatArray]


class Imagined(NamedTuple):
    """What every member imagined of every row."""

    #: [E, B, H]: The reward of the step that ended an episode counts; after it they are 0.
    rewards: FloatArray
    #: [E, B, H, O]: After each action; the last one of an episode stays.
    observations: FloatArray
    #: [E, B, H]: Whether the episode had ended by this step; once true, true for ever.
    terminated: BoolArray


class Members(Protocol):
    """A model that is several."""

    @property
    def members(self) -> int:
        """How many members it has, ``E``, 2 or more."""


@runtime_checkable
class EnsembleStep(Members, Protocol):
    """One step of every member. Takes and returns numpy arrays or torch tensors.

    It may also have `Noise`: its ``step`` then takes a third argument, standard normal noise
    [E, B, noise_size].
    """

    def step(self, observations: Any, actions: Any) -> Any:
        """Map observations [E, B, O], actions [E, B, A] to next ones [E, B, O], rewards [E, B].

        A third value says which rows have terminated [E, B], where the model predicts that.
        """


@runtime_checkable
class EnsembleRollout(Members, Protocol):
    """All steps of every member at once, for a model that does its own stepping."""

    def rollout(self, observations: Any, act: Act, horizon: int) -> Imagined:
        """Imagine ``horizon`` steps from observations [E, B, O]."""

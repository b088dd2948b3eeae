"""Planner: a search for actions, the world that it is shown and its plans; and policies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from pytest_cpg.contracts.actions import ActionSpace
from pytest_cpg.contracts.arrays import FloatArray, IntArray
from pytest_cpg.contracts.parts import has


class PlanningModel(Protocol):
    """What a planner sees of a world, oracle or learned: how plans may be imagined and rated.

    It may also have any of `PlanCosts`, `Differentiable`, `Observer`, `Actor` and `Members`.
    """

    @property
    def actions(self) -> ActionSpace:
        """What can be done at every step."""

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z].

        ``B`` is a multiple of the number of planning episodes, and rows of one episode are
        neighbours: candidate ``k`` of episode ``n`` is row ``n * K + k``.
        """

    def score(self, latents: FloatArray) -> FloatArray:
        """Rate latents [B, H, Z] by distance to the goal [B, H], never NaN; lower is better."""


class PlanCosts(Protocol):
    """A world that rates whole plans, where nobody asks for the score of each step."""

    def plan_costs(self, latents: FloatArray, plans: FloatArray, lengths: IntArray) -> FloatArray:
        """Return costs [N, K] of plans [N, K, H, A] from latents [N, Z], never NaN.

        Lower is better. The plans of an episode end after its first ``lengths`` [N] actions. Unless
        the model has a cost of its own, it is the score of the last of them.
        """


class Differentiable(Protocol):
    """A world whose plans can be differentiated."""

    def plan_gradient(
        self, latents: FloatArray, actions: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Return the gradient [B, H, A] of the scores' sum by weights [B, H].

        The plans are actions [B, H, A] from latents [B, Z].
        """


class Observer(Protocol):
    """A world whose latents can be seen from outside."""

    def observe(self, latents: FloatArray) -> FloatArray:
        """Map latents [B, H, Z] to observations [B, H, O]."""


class Actor(Protocol):
    """A world whose model has a policy of its own, from which plans may begin."""

    @property
    def has_noisy_policy(self) -> bool:
        """Whether noise changes what it does."""

    def policy_plans(self, latents: FloatArray, noise: FloatArray) -> FloatArray:
        """Map latents [B, Z] and standard normal noise [B, H, A] to what it would do [B, H, A]."""


class Members(Protocol):
    """A world that a learned model imagines, and may not be sure of."""

    members: Sequence[Callable[[FloatArray, FloatArray], FloatArray]] | None
    """The rollout of each member of an ensemble, as of `PlanningModel`; None of the truth."""


class Plans(NamedTuple):
    """What a planner decided."""

    #: [N, H, A].
    actions: FloatArray
    #: [N]: How many of an episode's actions are executed before it plans again, 1 to
    #: ``remaining``.
    lengths: IntArray
    #: [N]: How sure the planner is that each episode will succeed, on any scale, higher is surer.
    confidences: FloatArray | None = None
    #: [N, ...]: What each episode's next plan may begin from, finite; see `Planner`.
    memory: FloatArray | None = None


@runtime_checkable
class Planner(Protocol):
    """A search for actions through a world that can be imagined.

    A planner is a value without memory: the same arguments give the same plans, and the plan of an
    episode depends on its own latent, stream and remaining steps alone.

    It may also have any of `WarmStart`, `RolloutSteps` and `CacheKey`.
    """

    @property
    def name(self) -> str:
        """The name printed in every report."""

    @property
    def horizon(self) -> int:
        """Steps that are imagined ahead, ``H``."""

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
        latents : array [N, Z]
            Where each episode is.
        rngs : N generators
            One stream per episode. Draw the same amount from each, whatever ``remaining`` is.
        remaining : array [N], int
            Steps left in each episode's budget, at least 1.
        """


class WarmStart(Protocol):
    """A planner that begins a plan from the last one, if ``is_warm_started`` is true.

    It returns `Plans.memory`, and is called with the keyword ``memory=``: what it returned for
    these episodes [N, ...], or None when it is their first plan. Shift it by ``lengths`` before
    returning it: so many actions will have been executed by then.
    """

    is_warm_started: bool
    """Whether plans begin from the last ones."""


def is_warm_started(planner: object) -> bool:
    """Say whether a planner is called with ``memory=``; see `WarmStart`."""
    return has(planner, WarmStart) and bool(planner.is_warm_started)


class RolloutSteps(Protocol):
    """A planner whose cost cannot be counted in an empty world, as it needs more to plan in."""

    rollout_steps: int
    """Model steps that one plan imagines."""


PlannerFactory: TypeAlias = Callable[..., Planner]


class Policy(Protocol):
    """A function from what is observed to what is done.

    It is deterministic and without memory: an observation has one action, whatever was asked
    before and whatever else is in the batch. One with a ``noise_size``, ``D`` of 0 or more, is also
    given the step, from 0, and normal noise [B, D]: the same of both have the same action.
    """

    def act(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to actions [B, A], in the simulator's own units."""

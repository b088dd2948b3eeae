"""Task: a world with a goal, and what it may have beside its methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias, runtime_checkable

from pytest_cpg.contracts.actions import ActionSpace
from pytest_cpg.contracts.arrays import BoolArray, FloatArray, IntArray


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


TaskFactory: TypeAlias = Callable[..., Task]

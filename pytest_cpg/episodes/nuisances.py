"""Nuisances: columns that tell a planner nothing, in what models observe of a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import BoolArray, ComponentError, FloatArray, IntArray, Task
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import ObservationKeys, Observed, SeenAsPictures
from pytest_cpg.contracts.task import observed as observed_of
from pytest_cpg.episodes.perturbations import keep_whole
from pytest_cpg.tasks.goal_task import TaskAround

Kind: TypeAlias = Literal["redundant", "fast"]

# Of sines, as published.
_FREQUENCY = 12.0
# More would be a network of nuisances.
_MOST_COLUMNS = 10_000


@dataclass(frozen=True, slots=True)
class Nuisance:
    """Models observe 1 to 10 000 columns more, which are functions of what they observe already.

    As the reference implementation of the gap has them (wmel 0.18, `obs_robustness`): "redundant"
    ones are hyperbolic tangents, as easy to predict as what they are of, and steeper each time that
    all columns have been used; "fast" ones are sines, which no small network predicts. The task's
    score reads the columns before them, and true states have none: the oracle arm stays as it is.
    """

    columns: int
    kind: Kind = "redundant"

    def __post_init__(self) -> None:
        keep_whole(self, "columns", least=1, most=_MOST_COLUMNS)
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: need one of {get_args(Kind)}, got {self.kind!r}")

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        return f"{self.kind}-nuisance-{self.columns}"

    def observe(self, task: Task) -> Task:
        """Return the task with these columns behind those that it observes."""
        name = str(task.name)
        if has(task, SeenAsPictures):
            raise ComponentError(
                f"perturbation {self.name!r}: models of {name!r} are given pictures, "
                f"which have no columns. Leave observe= or the perturbation out."
            )
        return Cluttered(inner=task, nuisance=self)

    def of(self, observations: FloatArray) -> FloatArray:
        """Return the columns [..., N] of observations [..., O]."""
        column, size = np.arange(self.columns), observations.shape[-1]
        values = observations[..., column % size]
        if self.kind == "redundant":
            return np.asarray(np.tanh(values * (1 + column // size)))
        return np.asarray(np.sin(_FREQUENCY * (1 + column) * values))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cluttered(TaskAround):
    """A task whose models observe a nuisance, too; see `Task`."""

    nuisance: Nuisance

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.inner.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def observation_size(self) -> int:
        """Numbers in one observation, ``O``."""
        return self.inner.observation_size + self.nuisance.columns

    @property
    def observed(self) -> list[str] | None:
        """What each number of an observation is, where the task says so."""
        if not has(self.inner, Observed):
            return None
        of_nuisance = (f"{self.nuisance.kind} nuisance {j}" for j in range(self.nuisance.columns))
        return [*self.inner.observed, *of_nuisance]

    @property
    def observation_keys(self) -> dict[str, int] | None:
        """How many numbers each name stands for, where the task says so."""
        if not has(self.inner, ObservationKeys):
            return None
        return {**self.inner.observation_keys, self.nuisance.name: self.nuisance.columns}

    # Plainly, as `__getattr__` is not asked where a protocol is checked.
    def reset(self, seeds: IntArray) -> FloatArray:
        """Return a start for each seed [N]: states [N, S]."""
        return self.inner.reset(seeds)

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        return self.inner.step(states, actions)

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        return self.inner.rollout(states, actions)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give the inner task's reward [...]."""
        return self.inner.reward(states, actions)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether states [..., S] succeed; see `Task.success`."""
        return self.inner.success(states, actions)

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O]."""
        seen = observed_of(self.inner, states)
        return np.concatenate([seen, self.nuisance.of(seen)], axis=-1)

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by what is no nuisance in them."""
        return self.inner.score(observations[..., : self.inner.observation_size])

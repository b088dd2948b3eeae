"""Ensemble: several learned worlds that imagine side by side, each going its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from pytest_cpg.contracts.arrays import BoolArray, FloatArray

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

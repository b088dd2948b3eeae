"""Formulas: what tasks of the DeepMind Control suite observe and reward, for whole batches.

A file is a task, and all there is to add one: its `FORMULAS`, and in `PRESET` the planner that
solves it. The file bears the task's name. The numbers are dm_control's own; module and method are
named in each docstring. Column 0 of a state [S] is the time, then come the joints in the model's
order, their velocities, the solver's warm start, and the episode's context.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray

# dm_control.utils.rewards.tolerance: the Gaussian falls to 0.1 one margin away from the bounds.
_GAUSSIAN = -2 * np.log(0.1)
# Words for two sets of actions; see `TaskOptions`.
LEVELS, BOX = "levels", "box"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """What one task of the suite observes and wants."""

    domain: str
    name: str
    # Controls of each actuator, in the actuator's units; actions are all their combinations.
    levels: Sequence[float]
    # Least reward of a step that succeeds.
    threshold: float
    # What each number of an observation is, with its unit if it has one.
    observed: Sequence[str]
    # As in `Task`.
    observe: Callable[[FloatArray], FloatArray]
    score: Callable[[FloatArray], FloatArray]
    reward: Callable[[FloatArray, FloatArray], FloatArray]
    # Maps dm_control's physics to the episode's part of the state, [C].
    context: Callable[[Any], FloatArray] = field(default=lambda _: np.empty(0))
    # Actions are everything that the actuators can do, unless others are asked for.
    is_box: bool = False

    @property
    def usual_actions(self) -> str:
        """The word for the actions of the task, where nothing else is asked for."""
        return BOX if self.is_box else LEVELS

    @property
    def title(self) -> str:
        """The task's name in a marker."""
        return titled(self.domain, self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A planner that solves a task with the true dynamics, and how the task is to be set for it."""

    planner: str
    # Fields of the planner that are not as it has them by itself.
    settings: Mapping[str, Any] = field(default_factory=dict)
    # What a marker would say of the task: ``budget``, ``action_repeat``, ``actions``, ``goals``.
    options: Mapping[str, Any] = field(default_factory=dict)
    # What a name of an environment would say behind a comma: ``score``, ``success``.
    named: Mapping[str, str] = field(default_factory=dict)
    # How many of random starts, of seed 0, the oracle arm solved, and of how many.
    solved: int
    starts: int = 100
    # How many of 30 random actions solved, and seconds of processor time that the oracle took.
    chance: int | None = None
    seconds: int | None = None

    def __post_init__(self) -> None:
        for name in ("settings", "options", "named"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))


def titled(domain: str, name: str) -> str:
    """Return the name in a marker of a task that the suite names in two parts.

    >>> titled("ball_in_cup", "catch")
    'ball-in-cup-catch'
    """
    return f"{domain}-{name}".replace("_", "-")


# Files by the names of their tasks.
_FILES: Mapping[str, str] = MappingProxyType(
    {file.name.replace("_", "-"): f"{__name__}.{file.name}" for file in iter_modules(__path__)}
)
TITLES = tuple(sorted(_FILES))


def formulas_of(title: str) -> Formulas:
    """Return the formulas of the task of a name, one of `TITLES`."""
    formulas: Formulas = import_module(_FILES[title]).FORMULAS
    return formulas


def preset_of(title: str) -> Preset:
    """Return the preset of the task of a name, one of `TITLES`."""
    preset: Preset = import_module(_FILES[title]).PRESET
    return preset


def gaussian(distance: FloatArray) -> FloatArray:
    """Return suite rewards' falling off with the distance from the bounds, in margins."""
    return np.asarray(np.exp(-0.5 * _GAUSSIAN * distance**2))

"""Perturbations: what may go wrong in the real world while a plan is carried out.

Every one has a name that a marker may give in its place, such as ``"drop-next-5"``, and those of
users come from the hook ``pytest_cpg_perturbations``. All but ``observe`` is applied to real steps,
in all arms alike, and no model is told of it. Several are joined by commas: ``"kick-0.1,delay-2"``.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, fields
from itertools import chain
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoolArray,
    BoxActions,
    ComponentError,
    FloatArray,
    IntArray,
    Task,
)
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import ChangeablePhysics, MeasuredColumns
from pytest_cpg.episodes.moment import Moment


class Perturbation(Protocol):
    """What goes wrong, under a name that says all of it; each of these methods may be left out.

    - ``observe(task)`` returns the task as models observe it, in training as well.
    - ``world(task)`` returns the task that real steps are taken in.
    - ``see(states, moment)`` returns what the planner is told [B, S] of states [B, S].
    - ``skip(moment)`` returns how many [B] of the planned actions are lost without time passing.
    - ``act(actions, moment)`` returns the executed actions [B, A], given the planned ones.
    - ``push(states, moment)`` returns where a step leads [B, S], given where it would lead.

    Nothing that is given is written to. With an attribute ``cache_key``, a text that is changed
    with whatever it does, arms that it perturbs are kept (docs/reproducibility.md).
    """

    @property
    def name(self) -> str:
        """As reports have it, and the marker."""


EFFECTS = {
    "observe": ", task",
    "world": ", task",
    "see": ", states, moment",
    "skip": ", moment",
    "act": ", actions, moment",
    "push": ", states, moment",
}
"""What the method of each takes."""


@dataclass(frozen=True, slots=True)
class _Timed:
    """Happens once in an episode, or ``at`` a step, ``every`` so many, or by ``probability``."""

    _: KW_ONLY
    at: int | None = None
    every: int | None = None
    probability: float | None = None

    def _check_moments(self) -> None:
        moments = [name for name in _MOMENTS if getattr(self, name) is not None]
        if len(moments) > 1:
            raise ValueError(f"{moments[0]}= and {moments[1]}= both say when it happens")
        for name, least in (("at", 0), ("every", 1)):
            if name in moments:
                keep_whole(self, name, least=least, most=_MOST_STEPS)
        if self.probability is not None:
            _keep_positive(self, "probability")
            if self.probability > 1:
                raise ValueError(f"probability: need at most 1, got {self.probability!r}")

    @property
    def _when(self) -> str:
        when = [
            f"-{m}-{_short(getattr(self, m))}" for m in _MOMENTS if getattr(self, m) is not None
        ]
        return "".join(when)

    def _struck(self, moment: Moment, *, count: int, within: int) -> BoolArray:
        """Say whether it happens now [B], for ``count`` steps; by itself ``within`` a share."""
        budget = int(moment.task.budget)

        def table(episode: int) -> BoolArray:
            steps, rng = np.arange(budget), moment.rng(episode)
            if self.every is not None:
                return np.asarray(steps % (self.every + count) >= self.every)
            if self.probability is not None:
                begun = np.concatenate([[0], np.cumsum(rng.random(budget) < self.probability)])
                return np.asarray(begun[steps] > begun[np.maximum(steps - count, 0)])
            at = rng.integers(1, max(1, budget // within) + 1) if self.at is None else self.at
            return np.asarray((steps >= at) & (steps < at + count))

        struck: BoolArray = moment.kept("struck", table)[moment.rows, moment.steps]
        return struck


@dataclass(frozen=True, slots=True)
class _NextActions(_Timed):
    """Something befalls the next ``count`` planned actions."""

    count: int
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        keep_whole(self, "count", least=0, most=_MOST_STEPS)
        self._check_moments()

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        return f"{self.kind}-{self.count}{self._when}"


@dataclass(frozen=True, slots=True)
class DropActions(_NextActions):
    """After some step the next planned actions are lost; the idle action takes their place.

    The time of the environment goes on, and the budget with it. Without any of ``at``, ``every``
    and ``probability`` it happens once in an episode, after a number of steps that is drawn from 1
    to a tenth of the budget: early enough for most episodes not to be over.

    ``count`` actions are lost, from 0 to 1 000 000; ``at`` and ``every`` are steps taken before, or
    between one loss and the next, ``probability`` that of a loss to begin after a step, in (0, 1].
    """

    kind: ClassVar[str] = "drop-next"

    def act(self, planned: FloatArray, moment: Moment) -> FloatArray:
        """Return the idle action in place of lost ones."""
        is_lost = self._struck(moment, count=self.count, within=_EARLY)
        return np.where(is_lost[:, None], moment.task.actions.idle, planned)


@dataclass(frozen=True, slots=True)
class SkipActions(_NextActions):
    """The queue of planned actions is shortened by the next ones, and no time passes.

    As the paper that introduced the gap drops actions: once, after a number of steps that is drawn
    from 1 to half the budget, unless ``at``, ``every`` or ``probability`` say when.
    """

    kind: ClassVar[str] = "skip-next"

    def skip(self, moment: Moment) -> IntArray:
        """Return how many planned actions are skipped [B]."""
        return self.count * self._struck(moment, count=1, within=2)


@dataclass(frozen=True, slots=True)
class Kick(_Timed):
    """A step leads elsewhere: the world is pushed by normal noise.

    It is added to the columns of the simulator's state that the task calls ``measured``, with this
    standard deviation in their units, above 0. It happens when lost actions would begin to be.
    """

    deviation: float

    def __post_init__(self) -> None:
        _keep_positive(self, "deviation")
        self._check_moments()

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        return f"kick-{_short(self.deviation)}{self._when}"

    def push(self, states: FloatArray, moment: Moment) -> FloatArray:
        """Return pushed states."""
        columns, pushed = _measured(moment.task, self), states.copy()
        struck = self._struck(moment, count=1, within=_EARLY)
        noise = self.deviation * moment.normal(len(columns))
        pushed[:, columns] += np.where(struck[:, None], noise, 0.0)
        return pushed


@dataclass(frozen=True, slots=True)
class DelayActions:
    """Every planned action is executed 1 to 10 000 steps late, after as many idle ones."""

    steps: int

    def __post_init__(self) -> None:
        keep_whole(self, "steps", least=1, most=_MOST_DELAY)

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        return f"delay-{self.steps}"

    def act(self, planned: FloatArray, moment: Moment) -> FloatArray:
        """Return the actions that were planned so many steps ago."""
        idle = np.tile(moment.task.actions.idle, (self.steps, 1))
        pending = moment.kept("pending", lambda _: idle)
        line = np.concatenate([pending[moment.rows], planned[:, None]], axis=1)
        pending[moment.rows] = line[:, 1:]
        delayed: FloatArray = line[:, 0]
        return delayed


@dataclass(frozen=True, slots=True)
class _Noise:
    deviation: float
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        _keep_positive(self, "deviation")

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        return f"{self.kind}-{_short(self.deviation)}"


@dataclass(frozen=True, slots=True)
class ActionNoise(_Noise):
    """Normal noise on every executed action.

    What leaves the range of the actions is clipped. In a finite set the nearest action is taken,
    with each number in units of its range, so that small noise often has no effect. The standard
    deviation is a share of each number's range, above 0.
    """

    kind: ClassVar[str] = "action-noise"

    def act(self, planned: FloatArray, moment: Moment) -> FloatArray:
        """Return noisy actions."""
        noise = self.deviation * moment.normal(planned.shape[1])
        return _blurred(moment.task.actions, planned, noise)


@dataclass(frozen=True, slots=True)
class ObservationNoise(_Noise):
    """Normal noise on what every plan begins from; the world itself is where it is.

    It is added to the columns of the simulator's state that the task calls ``measured``, so that
    oracle and learned model are deceived alike. The standard deviation is in the units of the
    state, above 0.
    """

    kind: ClassVar[str] = "observation-noise"

    def see(self, states: FloatArray, moment: Moment) -> FloatArray:
        """Return noisy states."""
        columns, seen = _measured(moment.task, self), states.copy()
        seen[:, columns] += self.deviation * moment.normal(len(columns))
        return seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Physics:
    """The real world differs from the world that the oracle imagines.

    Mass, friction and gravity are factors above 0, not all of them 1. Friction is of contacts, and
    of joints both dry and viscous.
    """

    mass: float = 1.0
    friction: float = 1.0
    gravity: float = 1.0

    def __post_init__(self) -> None:
        for name in _SCALES:
            _keep_positive(self, name)
        if not self.scales:
            raise ValueError("physics: need a factor other than 1, as in Physics(mass=1.2)")

    @property
    def scales(self) -> dict[str, float]:
        """The factors that change something, by name."""
        values = {field.name: float(getattr(self, field.name)) for field in fields(self)}
        return {name: scale for name, scale in values.items() if scale != 1}

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        return ",".join(f"{name}-{_short(scale)}" for name, scale in self.scales.items())

    def world(self, task: Task) -> Task:
        """Return the task with these physics."""
        if not has(task, ChangeablePhysics):
            raise ComponentError(
                f"the physics of task {str(task.name)!r} cannot be changed to {self.name!r}: it "
                f"has no with_physics(). Use a control task such as cartpole-swingup, give yours "
                f'that method, or perturb its actions: perturbation="drop-next-5".'
            )
        return task.with_physics(**self.scales)


@dataclass(frozen=True, slots=True)
class Several:
    """Perturbations of any kinds, each applied to what the ones before it have left."""

    parts: tuple[Perturbation, ...]

    def __post_init__(self) -> None:
        such = "as in Several((Kick(0.1), DelayActions(2)))"
        if not isinstance(self.parts, tuple) or not self.parts:
            raise ValueError(f"need a tuple of perturbations, {such}, got {self.parts!r:.80}")
        for part in self.parts:
            if isinstance(part, str):
                raise ValueError(
                    f"{part!r} is a name, and Several takes objects, {such}. Names are joined by "
                    f'commas: perturbation="kick-0.1,delay-2"'
                )
            check_perturbation(part, f"Join objects, {such}")

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        return ",".join(part.name for part in self.parts)


def check_perturbation(
    value: Any, cure: str, *, what: str = "need a perturbation or its name, got"
) -> None:
    """Raise ValueError, with the cure, for what has no effect, and for what has no name."""
    has_effect = any(callable(getattr(value, effect, None)) for effect in EFFECTS)
    if isinstance(value, type) or not (has_effect or isinstance(value, Several)):
        raise ValueError(f"{what} {value!r:.80}. {cure}")
    if not isinstance(getattr(value, "name", None), str):
        raise ValueError(f"the perturbation {value!r:.60} has no name. Give it one: a text")


def parts_of(perturbation: Perturbation | None) -> tuple[Perturbation, ...]:
    """Return what goes wrong one after the other."""
    if isinstance(perturbation, Several):
        return tuple(chain.from_iterable(map(parts_of, perturbation.parts)))
    return () if perturbation is None else (perturbation,)


_MOMENTS = ("at", "every", "probability")
_SCALES = ("mass", "friction", "gravity")
# Longer than any episode; what is delayed waits in memory.
_MOST_STEPS, _MOST_DELAY = 1_000_000, 10_000
# What has no time of its own comes within this share of the budget.
_EARLY = 10


def _short(value: float) -> str:
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def keep_whole(perturbation: Any, name: str, *, least: int, most: int) -> None:
    """Keep a field as an int, or raise ValueError."""
    value = getattr(perturbation, name)
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}: need a whole number of at least {least}, got {value!r}")
    if int(value) > most:
        raise ValueError(f"{name}: need a whole number of at most {most}, got {value!r}")
    object.__setattr__(perturbation, name, int(value))


def _keep_positive(perturbation: Any, name: str) -> None:
    value = getattr(perturbation, name)
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{name}: need a number above 0, got {value!r}")
    object.__setattr__(perturbation, name, float(value))


def _blurred(actions: ActionSpace, planned: FloatArray, noise: FloatArray) -> FloatArray:
    """Return actions [B, A] that differ from the planned ones by noise in units of their ranges."""
    span = actions.high - actions.low
    if isinstance(actions, BoxActions):
        return actions.nearest(planned + noise * span)
    unit = np.where(span > 0, span, 1.0)
    wanted = planned / unit + noise * (span > 0)
    distances = ((wanted[:, None] - actions.values / unit) ** 2).sum(axis=-1)
    nearest: FloatArray = actions.values[distances.argmin(axis=1)]
    return nearest


def _measured(task: Task, perturbation: Perturbation) -> IntArray:
    if not has(task, MeasuredColumns):
        raise ComponentError(
            f"task {str(task.name)!r} does not say what of its states is measured, and "
            f"{perturbation.name!r} cannot be added to the rest. Give it an attribute measured: "
            f"the columns of a state that are."
        )
    return np.asarray(task.measured, dtype=np.int64)

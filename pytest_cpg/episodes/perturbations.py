"""Perturbations: what may go wrong in the real world while a plan is carried out, as values.

Every one has a name that a marker may give in its place, such as ``"drop-next-5"``; they are
applied to real steps only, in all arms alike, and no model is told of them.
"""

from __future__ import annotations

import math
import re
from dataclasses import KW_ONLY, dataclass, fields
from numbers import Integral, Real
from typing import Any, ClassVar, TypeAlias

from pytest_cpg.contracts.lookup import nearest


@dataclass(frozen=True, slots=True)
class DropActions:
    """After some step the next planned actions are lost; the idle action takes their place.

    The time of the environment goes on, and the budget with it. Without any of ``at``, ``every``
    and ``probability`` it happens once in an episode, after a number of steps that is drawn from 1
    to a tenth of the budget: early enough for most episodes not to be over.

    ``count`` actions are lost, from 0 to 1 000 000; ``at`` and ``every`` are steps taken before, or
    between one loss and the next, ``probability`` that of a loss to begin after a step, in (0, 1].
    """

    count: int
    _: KW_ONLY
    at: int | None = None
    every: int | None = None
    probability: float | None = None

    def __post_init__(self) -> None:
        _keep_whole(self, "count", least=0, most=_MOST_STEPS)
        moments = [name for name in _MOMENTS if getattr(self, name) is not None]
        if len(moments) > 1:
            raise ValueError(f"{moments[0]}= and {moments[1]}= both say when actions are dropped")
        for name, least in (("at", 0), ("every", 1)):
            if name in moments:
                _keep_whole(self, name, least=least, most=_MOST_STEPS)
        if self.probability is not None:
            _keep_positive(self, "probability")
            if self.probability > 1:
                raise ValueError(f"probability: need at most 1, got {self.probability!r}")

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        when = [
            f"-{m}-{_short(getattr(self, m))}" for m in _MOMENTS if getattr(self, m) is not None
        ]
        return f"drop-next-{self.count}{''.join(when)}"


@dataclass(frozen=True, slots=True)
class DelayActions:
    """Every planned action is executed 1 to 10 000 steps late, after as many idle ones."""

    steps: int

    def __post_init__(self) -> None:
        _keep_whole(self, "steps", least=1, most=_MOST_DELAY)

    @property
    def name(self) -> str:
        """The name, as a marker takes it."""
        return f"delay-{self.steps}"


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


@dataclass(frozen=True, slots=True)
class ObservationNoise(_Noise):
    """Normal noise on what every plan begins from; the world itself is where it is.

    It is added to the columns of the simulator's state that the task calls ``measured``, so that
    oracle and learned model are deceived alike. The standard deviation is in the units of the
    state, above 0.
    """

    kind: ClassVar[str] = "observation-noise"


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


Perturbation: TypeAlias = DropActions | DelayActions | ActionNoise | ObservationNoise | Physics

_MOMENTS = ("at", "every", "probability")
_SCALES = ("mass", "friction", "gravity")
# Longer than any episode; what is delayed waits in memory.
_MOST_STEPS, _MOST_DELAY = 1_000_000, 10_000
_EXAMPLES = (
    "drop-next-5",
    "drop-next-5-at-20",
    "drop-next-5-every-40",
    "delay-2",
    "action-noise-0.1",
    "observation-noise-0.05",
    "mass-1.2",
    "friction-0.5",
    "gravity-0.9",
)
_KINDS = ("drop-next", "delay", "action-noise", "observation-noise", *_SCALES)
_WRITE = f"Write one such as {', '.join(map(repr, _EXAMPLES))}."
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_NAMED = re.compile(rf"([a-z-]+)-({_NUMBER})")
_DROPPED = re.compile(rf"(drop-next)-({_NUMBER})(?:-({'|'.join(_MOMENTS)})-({_NUMBER}))?")


def parse_perturbation(value: Any) -> Perturbation | None:
    """Return the perturbation of a name, or the perturbation itself; None for ``"none"``.

    Raises ValueError, naming the value and what to type instead.

    >>> parse_perturbation("drop-next-5-at-20")
    DropActions(count=5, at=20, every=None, probability=None)
    >>> parse_perturbation("mass-1.2,gravity-0.9").name
    'mass-1.2,gravity-0.9'
    """
    if value is None or isinstance(value, Perturbation):
        return value
    if value == "none":
        return None
    if not isinstance(value, str):
        raise ValueError(f"need a perturbation or its name, got {value!r}. {_WRITE}")
    dropped = _DROPPED.fullmatch(value)
    if dropped:
        _, number, moment, when = dropped.groups()
        return DropActions(_figure(number), **({moment: _figure(when)} if moment else {}))
    parts: list[tuple[str, str]] = []
    for part in value.split(","):
        match = _NAMED.fullmatch(part) or _DROPPED.fullmatch(part)
        if match is None or match[1] not in _KINDS:
            close = nearest(part, _EXAMPLES)
            fix = f"Did you mean {close!r}?" if close else _WRITE
            raise ValueError(f"no perturbation is named {part!r}. {fix}")
        parts.append((match[1], match[2]))
    kind, number = parts[0]
    if kind in _SCALES or len(parts) > 1:
        if len({*_SCALES}.intersection(name for name, _ in parts)) < len(parts):
            raise ValueError(
                f"{value!r}: only mass, friction and gravity can be joined, each once, as in "
                f"'mass-1.2,gravity-0.9'. Write one gate for each."
            )
        return Physics(**{name: float(scale) for name, scale in parts})
    if kind == "delay":
        return DelayActions(_figure(number))
    return (ActionNoise if kind == "action-noise" else ObservationNoise)(float(number))


def _figure(text: str) -> Any:
    """Return a number: a whole one where it is written so."""
    return int(text) if text.isdecimal() else float(text)


def _short(value: float) -> str:
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _keep_whole(perturbation: Any, name: str, *, least: int, most: int) -> None:
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

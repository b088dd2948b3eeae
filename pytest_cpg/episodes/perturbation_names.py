"""Perturbations by name, as a marker takes them: what makes each, and what to write instead."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from pytest_cpg.contracts.errors import own_frames
from pytest_cpg.contracts.lookup import nearest
from pytest_cpg.episodes.nuisances import Nuisance
from pytest_cpg.episodes.perturbations import (
    ActionNoise,
    DelayActions,
    DropActions,
    Kick,
    ObservationNoise,
    Perturbation,
    Physics,
    Several,
    SkipActions,
    check_perturbation,
)

PerturbationFactory: TypeAlias = Callable[..., Perturbation]

PERTURBATIONS: Mapping[str, PerturbationFactory] = {
    "drop-next": DropActions,
    "skip-next": SkipActions,
    "delay": DelayActions,
    "action-noise": ActionNoise,
    "observation-noise": ObservationNoise,
    "kick": Kick,
    "mass": lambda factor: Physics(mass=factor),
    "friction": lambda factor: Physics(friction=factor),
    "gravity": lambda factor: Physics(gravity=factor),
    "redundant-nuisance": partial(Nuisance, kind="redundant"),
    "fast-nuisance": partial(Nuisance, kind="fast"),
}
"""What makes each, given the number behind its name, and by name those behind words."""

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
    "kick-0.1",
    "skip-next-5",
    "fast-nuisance-16",
    "redundant-nuisance-16",
)
_WRITE = f"Write one such as {', '.join(map(repr, _EXAMPLES))}."
_OBJECT = "Return an object with a name, and any of observe, world, see, skip, act and push."
_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_BEHIND = re.compile(rf"(?:-({_NUMBER}))?((?:-[a-z]+-{_NUMBER})*)")
_WORDS = re.compile(rf"-([a-z]+)-({_NUMBER})")


def parse_perturbation(
    value: Any, known: Mapping[str, PerturbationFactory] = PERTURBATIONS
) -> Perturbation | None:
    """Return the perturbation of a name, or the perturbation itself; None for ``"none"``.

    Raises ValueError, naming the value and what to type instead.

    >>> parse_perturbation("drop-next-5-at-20").count
    5
    >>> parse_perturbation("mass-1.2, gravity-0.9, delay-2").name
    'mass-1.2,gravity-0.9,delay-2'
    """
    if value is None or value == "none":
        return None
    if not isinstance(value, str):
        return _checked(value)
    parts = [_made(part.strip(), known) for part in value.split(",")]
    physics = [part for part in parts if isinstance(part, Physics)]
    scales: dict[str, float] = {}
    for part in physics:
        if scales.keys() & part.scales.keys():
            raise ValueError(f"{value!r}: mass, friction and gravity may be changed once each")
        scales |= part.scales
    if physics:
        parts = [Physics(**scales), *(part for part in parts if not isinstance(part, Physics))]
    return parts[0] if len(parts) == 1 else Several(tuple(parts))


def _made(text: str, known: Mapping[str, PerturbationFactory]) -> Perturbation:
    """Return the perturbation that a part of a name stands for."""
    # A name of a user's may begin as another does, and end as a number does.
    behind = ((name, _BEHIND.fullmatch(text.removeprefix(name))) for name in known)
    meant = [(name, match) for name, match in behind if match and text.startswith(name)]
    name, match = max(meant, key=lambda one: len(one[0]), default=("", None))
    numbers = [_figure(match[1])] if match and match[1] else []
    words = _WORDS.findall(match[2] if match else "")
    moments = {word: _figure(when) for word, when in words}
    if len(moments) < len(words):
        raise ValueError(f"{text!r} says a word twice. Write each of them once")
    try:
        inspect.signature(known[name]).bind(*numbers, **moments)
    except (KeyError, TypeError):
        if name and not numbers and _needs_number(known[name], moments):
            usual = next((each for each in _EXAMPLES if each.startswith(f"{name}-")), "-0.5")
            number = re.findall(_NUMBER, usual)[0]
            example = f"{name}-{number}{text.removeprefix(name)}"
            raise ValueError(f"perturbation {text!r} needs a number: write {example!r}") from None
        others = [name for name in known if name not in PERTURBATIONS]
        close = nearest(re.split(rf"-{_NUMBER}", text)[0], others) or nearest(text, _EXAMPLES)
        fix = f"Did you mean {close!r}?" if close else _WRITE
        raise ValueError(f"no perturbation is named {text!r}. {fix}") from None
    if known is PERTURBATIONS or known[name] is PERTURBATIONS.get(name):
        return known[name](*numbers, **moments)
    return _contributed(text, name, partial(known[name], *numbers, **moments))


def _contributed(text: str, name: str, make: Callable[[], Any]) -> Perturbation:
    """Return what a user's factory makes; raise ValueError, naming the perturbation."""
    factory = f"{text!r}: what makes {name!r}"
    try:
        made = make()
    except Exception as error:
        frames = own_frames(error)
        where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        raise ValueError(f"{factory} raised {type(error).__name__}: {error}{where}") from error
    check_perturbation(made, _OBJECT, what=f"{factory} returned")
    perturbation: Perturbation = made
    return perturbation


def _needs_number(make: PerturbationFactory, moments: Mapping[str, Any]) -> bool:
    """Say whether a number is all that a name lacks."""
    try:
        inspect.signature(make).bind(0, **moments)
    except TypeError:
        return False
    return True


def _checked(value: Any) -> Perturbation:
    check_perturbation(value, _WRITE)
    perturbation: Perturbation = value
    return perturbation


def _figure(text: str) -> Any:
    """Return a number: a whole one where it is written so."""
    return int(text) if text.isdecimal() else float(text)

"""Settings: what the fields of planners may be, by names that mean the same in all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import fields
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

Ties: TypeAlias = Literal["earliest", "published"]
Objective: TypeAlias = Literal["best", "sum", "terminal", "peak-and-tail"]
Gradients: TypeAlias = Literal["auto", "finite-differences"]

_CHOICES = {"ties": Ties, "objective": Objective, "gradients": Gradients}
# The least of each.
_COUNTS = {
    **dict.fromkeys(("horizon", "execute", "iterations", "samples", "candidates"), 1),
    "elites": 1,
    "width": 1,
    "policy_plans": 0,
}
_POSITIVE = "above 0", lambda value: 0 < value < math.inf
_NOT_NEGATIVE = "of at least 0", lambda value: 0 <= value < math.inf
_NUMBERS: dict[str, tuple[str, Callable[[float], bool]]] = {
    **dict.fromkeys(("temperature", "learning_rate", "difference"), _POSITIVE),
    **dict.fromkeys(("initial_deviation", "minimum_deviation", "deviation"), _NOT_NEGATIVE),
    **dict.fromkeys(("noise", "colour"), _NOT_NEGATIVE),
    "smoothing": ("in [0, 1)", lambda value: 0 <= value < 1),
    "correlation": ("in (-1, 1)", lambda value: -1 < value < 1),
    "keep": ("in [0, 1]", lambda value: 0 <= value <= 1),
    "decay": ("of at least 1", lambda value: 1 <= value < math.inf),
}
# The first of each two may not be more than the second.
_BOUNDS = (
    ("execute", "horizon"),
    ("elites", "samples"),
    ("policy_plans", "samples"),
    ("minimum_deviation", "deviation"),
)


def check_settings(planner: Any) -> None:
    """Raise ValueError unless every field of a planner may be what it is.

    A field that is annotated so may be None, and one whose default is a bool is one.
    """
    for field in fields(planner):
        name, value = field.name, getattr(planner, field.name)
        if value is None and str(field.type).endswith("| None"):
            continue
        wanted = None
        if name in _COUNTS:
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not is_whole or value < _COUNTS[name]:
                wanted = f"a whole number of at least {_COUNTS[name]}"
        elif name in _NUMBERS:
            text, fits = _NUMBERS[name]
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if not is_number or not fits(value):
                wanted = f"a number {text}"
        elif name in _CHOICES and value not in get_args(_CHOICES[name]):
            wanted = f"one of {get_args(_CHOICES[name])}"
        elif isinstance(field.default, bool) and not isinstance(value, bool):
            wanted = "True or False"
        if wanted:
            raise ValueError(f"{name} must be {wanted}, got {value!r}")
    for name, limit in _BOUNDS:
        value, most = getattr(planner, name, None), getattr(planner, limit, None)
        if value is not None and most is not None and value > most:
            raise ValueError(f"{name} must not exceed {limit} {most}, got {value}")


def written(planner: Any, always: Container[str]) -> str:
    """Return how a planner is made: the fields that are always named, and those that differ."""
    shown = (
        f"{field.name}={getattr(planner, field.name)!r}"
        for field in fields(planner)
        if field.name in always or getattr(planner, field.name) != field.default
    )
    return f"{type(planner).__name__}({', '.join(shown)})"

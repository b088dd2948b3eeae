"""Setters: how an environment is put into a state that somebody recorded of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from inspect import Parameter, signature
from typing import Any

import gymnasium

from pytest_cpg.contracts import FloatArray

_NAMES = ("set_state", "_set_state")
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def setter(
    environment: Any, recorded: Mapping[str, FloatArray]
) -> tuple[Callable[[], Any] | None, str]:
    """Return what puts an environment into a recorded state, and what it is given.

    It is a method ``set_state`` of the environment, whose arguments are recorded by their names, or
    its attribute ``state``. None where nothing does, with what is missing.
    """
    missing = "it has neither a method set_state nor an attribute state"
    for holder in _holders(environment):
        for method in (getattr(holder, name, None) for name in _NAMES):
            if not callable(method):
                continue
            names = _arguments(method)
            values = {name: _value(name, recorded, alone=len(names) == 1) for name in names}
            if names and all(value is not None for value in values.values()):
                return partial(method, **values), f"{method.__name__}({', '.join(names)})"
            missing = f"its {method.__name__} takes {', '.join(names) or 'nothing'}"
    state, bare = _value("state", recorded, alone=True), environment.unwrapped
    if hasattr(bare, "state") and not missing.startswith("its "):
        if state is not None:
            return partial(setattr, bare, "state", state), "state"
        missing = "it has an attribute state, to be recorded as states"
    return None, missing


def _holders(environment: Any) -> Iterator[Any]:
    """Yield an environment, those that it wraps, and one that it keeps its physics in."""
    while True:
        yield environment
        if environment is environment.unwrapped:
            break
        environment = environment.env
    yield from (part for part in vars(environment).values() if isinstance(part, gymnasium.Env))


def _arguments(method: Callable[..., Any]) -> list[str]:
    """Return the names of the arguments that a method must be given."""
    try:
        parameters = signature(method).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in _NAMED and p.default is Parameter.empty]


def _value(name: str, recorded: Mapping[str, FloatArray], *, alone: bool) -> Any:
    """Return what was recorded as an argument, or as states where it is the only one."""
    for key in (name, f"{name}s", *(("states", "state") if alone else ())):
        if key in recorded:
            return recorded[key].copy()
    return None

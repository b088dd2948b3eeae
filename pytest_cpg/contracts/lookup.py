"""Lookup: from the name in a marker to the component it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.parts import members

T = TypeVar("T")


def check_complete(kind: str, name: str, component: T, protocol: type) -> T:
    """Return a component that has every member of its protocol, or say what it lacks."""
    missing = [member for member in members(protocol) if not hasattr(component, member)]
    if not missing:
        return component
    raise ComponentError(
        f"{kind} {name!r} is {component!r}, which lacks {', '.join(missing)}. "
        f"Give it every member of pytest_cpg.{protocol.__name__}."
    )


def lacking(value: object, protocol: type) -> str:
    """Return which members of a protocol an object lacks; nothing of what is no attempt at it."""
    missing = [name for name in members(protocol) if not hasattr(value, name)]
    is_own = type(value).__module__ != "builtins"
    return f", which lacks {', '.join(missing)}" if is_own else ""


def lookup(kind: str, name: str, table: Mapping[str, T], *, meant: str | None = None) -> T:
    """Return ``table[name]``, or say what to type instead: ``meant``, or the nearest name."""
    if name in table:
        return table[name]
    close = meant or nearest(name, table)
    extension = f" To add one, return it from the pytest_cpg_{hook_suffix(kind)} hook."
    fix = f"Did you mean {close!r}?" if close else f"{did_you_mean(name, table)}{extension}"
    raise ComponentError(f"no {kind} named {name!r}. {fix}")


def did_you_mean(name: str, names: Iterable[str], *, prefix: str = "") -> str:
    """Return a sentence that names the nearest known name, behind a prefix, or all of them."""
    names = sorted(names)
    close = nearest(name, names)
    return f"Did you mean {prefix + close!r}?" if close else f"Known: {', '.join(names)}."


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that was probably meant; None where none is near."""
    names = sorted(names)
    same = [other for other in names if other.casefold() == name.casefold()]
    return next(iter(same or get_close_matches(name, names, n=1)), None)


def unknown_name(what: str, prefix: str, name: str, known_names: Iterable[str]) -> ComponentError:
    """Return the error for a name behind a prefix that stands for nothing."""
    return ComponentError(
        f"no {what} {prefix + name!r}. {did_you_mean(name, known_names, prefix=prefix)}"
    )


def hook_suffix(kind: str) -> str:
    """Return the last part of the hook's name: ``"world model"`` to ``"world_models"``."""
    return f"{kind.replace(' ', '_')}s"

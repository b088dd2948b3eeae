"""Names of worlds that say what they are like: ``blocks:5-unobserved,k=1,stratum=push``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pytest_cpg.contracts.lookup import did_you_mean


def named(
    text: str, options: Mapping[str, Callable[[str], Any]]
) -> tuple[str, str, dict[str, Any]]:
    """Return what a name says first, the setting behind a dash, and options as ``k=1``.

    Raises ValueError for an option that there is not, or of another type.
    """
    first, *others = text.split(",")
    head, _, setting = first.partition("-")
    values: dict[str, Any] = {}
    for part in others:
        key, is_said, value = part.partition("=")
        if key not in options or not is_said:
            raise ValueError(f"no option {part!r}. {did_you_mean(key, options)}")
        try:
            values[key] = options[key](value)
        except ValueError as error:
            raise ValueError(f"{key}: need a number, got {value!r}") from error
    return head, setting, values


def check_among(what: str, value: str, known: Iterable[str]) -> None:
    """Raise ValueError for a value that is not among those."""
    if value not in (names := tuple(known)):
        raise ValueError(f"no {what} {value!r}. {did_you_mean(value, names)}")

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
        key, sign, value = (piece.strip() for piece in part.partition("="))
        if key not in options or not sign:
            raise ValueError(f"no option {part.strip()!r}. {did_you_mean(key, options)}")
        if key in values:
            raise ValueError(f"{key} stands there twice")
        try:
            values[key] = options[key](value)
        except ValueError as error:
            raise ValueError(f"{key}: need a number, got {value!r}") from error
    return head, setting, values


def check_among(what: str, value: str, known: Iterable[str]) -> None:
    """Raise ValueError for a value that is not among those."""
    if value not in (names := tuple(known)):
        raise ValueError(f"no {what} {value!r}. {did_you_mean(value, names)}")


def written(value: Any) -> str:
    """Return a value as a name has it.

    >>> [written(value) for value in (8.0, 3.25, 1234567, "push")]
    ['8', '3.25', '1234567', 'push']
    """
    return str(value).removesuffix(".0")


def check_within(what: str, value: float, least: float, most: float) -> None:
    """Raise ValueError for a number that is not between these."""
    if not least <= value <= most:
        raise ValueError(f"{what}: need {least:g} to {most:g}, got {value!r}")

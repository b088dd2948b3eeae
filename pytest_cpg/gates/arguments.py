"""Arguments: what a marker and the command line may say, as data, and how one value is read.

Loaded in every session, with gates or without, and so as small as can be.
"""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

REQUIRED: Final = object()
"""Default of an argument that a marker has to give."""
# Of every variable of the environment that is an option.
PREFIX = "PYTEST_CPG_"
_NOTHING: Mapping[str, str] = MappingProxyType({})


# Plain classes here: making a dataclass takes up to a millisecond of every session.
class Option:
    """One option, which may be given on the command line, in the environment and the ini file.

    Parameters
    ----------
    kind : str
        Type of the ini value, as pytest names it.
    is_for_one_gate : bool
        Whether a marker may give it, too.
    is_for_one_run : bool
        Whether it is given on the command line only.
    overruled : mapping
        What leaves it without a part, such as ``"quick"``, and why.
    """

    def __init__(
        self,
        name: str,
        parse: Callable[[Any], Any],
        kind: Literal["int", "float", "string"],
        default: Any,
        metavar: str,
        help: str,  # noqa: A002  # as argparse calls it
        *,
        is_for_one_gate: bool = True,
        is_for_one_run: bool = False,
        overruled: Mapping[str, str] = _NOTHING,
    ) -> None:
        self.name, self.parse, self.kind, self.default = name, parse, kind, default
        self.metavar, self.help = metavar, help
        self.is_for_one_gate, self.is_for_one_run = is_for_one_gate, is_for_one_run
        self.overruled = overruled

    @property
    def flag(self) -> str:
        """As typed on the command line."""
        return f"--cpg-{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """As set in the environment."""
        return f"{PREFIX}{self.name.upper()}"


class Argument:
    """One argument of a kind's marker.

    Parameters
    ----------
    parse : callable or None
        Returns the value that is meant, or raises ValueError or ArgumentTypeError with what to
        write instead; None for the parser and the default of the option.
    default : optional
        Its value where nobody gives one, which is not parsed; None for an argument that may be
        left out, `REQUIRED` for one that may not.
    option : str, optional
        The option that wins over the marker where it is typed, as ``"episodes"`` of
        ``--cpg-episodes``; its value in the ini file is the default.
    """

    __slots__ = ("default", "help", "name", "option", "parse")

    def __init__(
        self,
        name: str,
        parse: Callable[[Any], Any] | None,
        default: Any = None,
        *,
        help: str = "",  # noqa: A002  # as argparse calls it
        option: str = "",
    ) -> None:
        self.name, self.parse, self.default = name, parse, default
        self.help, self.option = help, option

    def __repr__(self) -> str:
        return f"Argument({self.name!r})"


def of_option(name: str) -> Argument:
    """Return the argument that is an option, too, and has its name, parser and default."""
    return Argument(name, None, option=name)


def as_given(value: Any) -> Any:
    """Return a value that is read later, with others beside it."""
    return value


def whole(least: int, most: float = float("inf")) -> Callable[[Any], int]:
    """Return a parser of whole numbers from ``least`` to ``most``."""

    def parse(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ArgumentTypeError(f"need a whole number of at least {least}, got {value!r}")
        if number > most:
            raise ArgumentTypeError(f"need a whole number of at most {most}, got {value!r:.40}")
        return number

    return parse


def between(low: float, high: float) -> Callable[[Any], float]:
    """Return a parser of numbers between two excluded bounds."""

    def parse(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if isinstance(value, bool) or not low < number < high:
            raise ArgumentTypeError(
                f"need a number between {low:g} and {high:g} (both excluded), got {value!r}"
            )
        return number

    return parse


def seconds(value: Any) -> float:
    """Parse a time in seconds; 0 is no limit."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not 0 <= number < float("inf"):
        raise ArgumentTypeError(f"need a number of seconds, 0 for no limit, got {value!r}")
    return number


def one_of(*choices: str) -> Callable[[Any], str]:
    """Return a parser of one of some words."""

    def parse(value: Any) -> str:
        if value not in choices:
            raise ArgumentTypeError(f"need one of {', '.join(choices)}, got {value!r}")
        return str(value)

    return parse


def name(value: Any) -> str:
    """Parse a name of one's own choice, which may be empty."""
    if not isinstance(value, str):
        raise ArgumentTypeError(f"need a name, got {value!r}")
    if re.search(r"[\ud800-\udfff]", value):
        raise ArgumentTypeError(f"need a name without lone surrogates, got {value!r}")
    return value


def gate_name(value: Any) -> str:
    """Parse a gate's own name, which must not look like a test's or like a second comparison."""
    given = name(value)
    if not given or "::" in given or re.search(r" #\d+$", given):
        raise ArgumentTypeError(
            f"need a name without '::' that does not end in ' #2', got {given!r}"
        )
    return given


def all_or_whole(value: Any) -> str:
    """Parse ``"all"`` or a whole number, as text."""
    if value == "all":
        return "all"
    try:
        return str(whole(0)(value))
    except ArgumentTypeError:
        raise ArgumentTypeError(f"need all or a whole number, got {value!r}") from None


def path(value: Any) -> str:
    """Parse a path, which must not be empty."""
    if not isinstance(value, str) or not value:
        raise ArgumentTypeError(f"need a path, got {value!r}")
    return value


def model_name(value: Any) -> str:
    """Parse where a model comes from, as text; it is looked for when a gate is collected."""
    if not isinstance(value, str) or not value:
        raise ArgumentTypeError(
            f"need the name of a registered world model, got {value!r}; or module:factory, or the "
            f"path of a checkpoint. Or leave it out, and return the model itself from a "
            f"learned_dynamics fixture."
        )
    return value


def digests(value: Any) -> str:
    """Parse digests of files, separated by commas, as they are printed."""
    from pytest_cpg.machine.files import digests_in

    try:
        return ",".join(digests_in(value))
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from None


def optional(parse: Callable[[Any], str]) -> Callable[[Any], str]:
    """Return a parser that also takes an empty text, for nothing."""
    return lambda value: "" if value == "" else parse(value)

"""Settings: options of a session, parsed once at the edge into a frozen value.

An option is taken from the command line, then the environment, then the closest marker that
gives it, then the ini file, then its default: what is typed for one run wins over what is written
in a test, and a test over the project's configuration.
"""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import pytest


def whole(least: int) -> Callable[[Any], int]:
    """Return a parser of whole numbers of at least ``least``."""

    def parse(value: Any) -> int:
        try:
            number = int(value) if isinstance(value, str) else value
        except ValueError:
            number = None
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ArgumentTypeError(f"need a whole number of at least {least}, got {value!r}")
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


# Named tuples here: making a dataclass takes a millisecond of every session, with gates or without.
class Option(NamedTuple):
    """One option: where it may be given is the same for all of them."""

    name: str
    parse: Callable[[Any], Any]
    default: Any
    metavar: str
    help: str


OPTIONS = (
    Option(
        name="episodes",
        parse=whole(1),
        default=50,
        metavar="N",
        help="episodes per arm (default 50)",
    ),
    Option(
        name="seed",
        parse=whole(0),
        default=0,
        metavar="SEED",
        help="seed of starts and planner noise (default 0)",
    ),
    Option(
        name="confidence",
        parse=between(0, 1),
        default=0.95,
        metavar="LEVEL",
        help="level of every interval, in (0, 1) (default 0.95)",
    ),
    Option(
        name="tolerance",
        parse=between(0, 0.5),
        default=0.05,
        metavar="RATE",
        help="how near to 0 or 1 a success rate counts as such, in (0, 0.5) (default 0.05)",
    ),
)


class Settings(NamedTuple):
    """What was asked of a whole session.

    Attributes
    ----------
    typed : mapping
        Option name to value, from the command line or the environment; these win over markers.
    project : mapping
        Option name to value, from the ini file or the defaults; markers win over these.
    """

    typed: Mapping[str, Any]
    project: Mapping[str, Any]

    def resolve(self, name: str, marked: Mapping[str, Any]) -> Any:
        """Return the value of one option for a test with these marker arguments."""
        for values in (self.typed, marked, self.project):
            if name in values:
                return values[name]
        raise KeyError(name)


def add_options(parser: pytest.Parser) -> None:
    """Declare every option on the command line and in the ini file."""
    group = parser.getgroup("cpg", "gate on the planning gap of a learned world model")
    for option in OPTIONS:
        flag = f"--cpg-{option.name}"
        group.addoption(
            flag,
            dest=f"cpg_{option.name}",
            type=option.parse,
            default=None,
            metavar=option.metavar,
            help=f"{option.help}; also {_variable(option)} and cpg_{option.name} in the ini file",
        )
        kind: Literal["float", "int"] = "float" if isinstance(option.default, float) else "int"
        help_text = f"default of {flag}: {option.help}"
        parser.addini(f"cpg_{option.name}", help_text, type=kind, default=option.default)


def read_settings(config: pytest.Config) -> Settings:
    """Read command line, environment and ini file.

    Raises
    ------
    pytest.UsageError
        Naming the place, the value and what is needed.
    """
    typed, project = {}, {}
    for option in OPTIONS:
        given = config.getoption(f"cpg_{option.name}")
        variable = os.environ.get(_variable(option))
        if given is not None:
            typed[option.name] = given
        elif variable:
            typed[option.name] = _parsed(option, variable, _variable(option))
        project[option.name] = _ini_value(config, option)
    return Settings(typed, project)


def _variable(option: Option) -> str:
    return f"PYTEST_CPG_{option.name.upper()}"


def _parsed(option: Option, value: Any, place: str) -> Any:
    try:
        return option.parse(value)
    except ArgumentTypeError as error:
        raise pytest.UsageError(f"{place}: {error}") from None


def _ini_value(config: pytest.Config, option: Option) -> Any:
    name = f"cpg_{option.name}"
    place = f"{name} in {config.inipath or 'the ini file'}"
    try:
        value = config.getini(name)
    except (TypeError, ValueError, pytest.UsageError) as error:
        # pytest converts the value itself, and its message names neither file nor setting.
        raise pytest.UsageError(f"{place}: {error}. Give {option.help}.") from None
    return _parsed(option, value, place)

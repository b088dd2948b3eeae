"""Contributed: what is wrong with a kind of gate that a plugin or a conftest file contributes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from inspect import getattr_static
from typing import Any

import pytest

from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates.arguments import COMMON, Argument
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.options import Option
from pytest_cpg.gates.parts import half_part

# Beside those that a kind names, the fixture that measures takes these.
_TAKEN = frozenset({"request", "cpg_executor", "learned_dynamics"})


def check_kind(marker: str, kind: Any, others: Mapping[str, Any], options: Collection[str]) -> None:
    """Raise pytest.UsageError for what is no kind of gate, or cannot stand beside the others."""
    # The first alone: what is wrong may let the next check fail.
    for wrong in _wrong_in(marker, kind, others, options):
        raise pytest.UsageError(f"the kind of gate {marker!r}{wrong}")


def _wrong_in(
    marker: str, kind: Any, others: Mapping[str, Any], options: Collection[str]
) -> Iterator[str]:
    """Yield what is wrong with a kind, and what to write."""
    if isinstance(kind, type):
        yield f" is the class {kind.__name__}. Contribute an object of it: {kind.__name__}()."
    # Asking for a member may import what a session without gates does not need.
    lacking = [name for name in _WANTED if name not in (*dir(kind), *_OPTIONAL)]
    if lacking:
        yield (
            f" is {kind!r}, which lacks {', '.join(lacking)}. Give it every member of "
            f"pytest_cpg.gates.kind.GateKind."
        )
    for name, (is_right, wanted) in _WANTED.items():
        # So may a property of these.
        if name in ("labels", "result") and isinstance(getattr_static(kind, name), property):
            continue
        value = getattr(kind, name, ())
        if not is_right(value):
            yield f": {name} is {value!r}. Write {wanted}."
    for option in getattr(kind, "options", ()):
        if option.name not in options:
            yield (
                f" has the option {option.flag}, and was contributed when the command line had "
                f"been read. Contribute it from a plugin, or from the conftest.py beside the ini "
                f"file."
            )
    yield from (f": {wrong}" for wrong in _wrong_arguments(kind.arguments, options))
    fixtures = getattr(kind, "fixtures", ())
    for name in fixtures:
        if name in _TAKEN or fixtures.count(name) > 1:
            yield f": fixtures names {name}, which is given already. Leave it out."
    if half := half_part(kind):
        yield f" {half}."
    if kind.marker != marker:
        yield f" says that its marker is {kind.marker!r}. Contribute it under that name."
    if marker in others or kind.fixture in {other.fixture for other in others.values()}:
        yield (
            f" has the marker or the fixture {kind.fixture!r} of another one. Rename yours in its "
            f"pytest_cpg_gates hook."
        )


def _wrong_arguments(arguments: Sequence[Argument], options: Collection[str]) -> Iterator[str]:
    names = [argument.name for argument in COMMON]
    for argument in arguments:
        if not _is_name(argument.name):
            yield f"an argument is called {argument.name!r}. Write a name as of a variable."
        if argument.name in names:
            yield f"two arguments are called {argument.name}, or all kinds have it. Rename yours."
        if argument.option and argument.option not in options:
            close = did_you_mean(argument.option, options)
            yield f"there is no option {argument.option!r}. {close}"
        if argument.parse is not None and not callable(argument.parse):
            yield (
                f"the parser of {argument.name} is {argument.parse!r}. Write a function of the "
                f"value."
            )
        names.append(argument.name)


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and given.isidentifier()


def _are(kind: type, given: Any) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(one, kind) for one in given)


def _are_labels(given: Any) -> bool:
    are_right = isinstance(given, Mapping) and _are(str, [*given])
    return are_right and bool(given) and _are(Severity, [*given.values()])


# What each member is, and what to write in place of anything else.
_WANTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("marker", "fixture"), (_is_name, "a name as of a variable")),
    "help": (lambda given: isinstance(given, str), "a line of text"),
    "arguments": (partial(_are, Argument), "a tuple: arguments = (Argument(...),)"),
    "labels": (_are_labels, "a dict from labels, best first, to Severity"),
    "result": (lambda given: isinstance(given, type), "the class of results"),
    **dict.fromkeys(("parse", "measure", "judge", "card"), (callable, "a method")),
    "options": (partial(_are, Option), "a tuple: options = (Option(...),)"),
    "fixtures": (
        lambda given: _are(object, given) and all(map(_is_name, given)),
        'a tuple of names: fixtures = ("my_fixture",)',
    ),
}
_OPTIONAL = ("options", "fixtures")

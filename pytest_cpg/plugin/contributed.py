"""Contributed: what is wrong with a kind of gate that a plugin or a conftest file contributes.

Ours are known to be right, by a test: sessions without others do not load this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from inspect import getattr_static
from typing import Any

import pytest

from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates.arguments import COMMON, Argument
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.options import Option
from pytest_cpg.gates.parts import half_part

_MEMBERS = (
    *("marker", "fixture", "help", "arguments", "labels", "result"),
    *("parse", "measure", "judge", "card"),
)
# Beside those that a kind names, the fixture that measures takes these.
_TAKEN = frozenset({"request", "cpg_executor", "learned_dynamics"})


def check_kind(marker: str, kind: Any, others: Mapping[str, Any], options: Collection[str]) -> None:
    """Raise pytest.UsageError for what is no kind of gate, or cannot stand beside the others.

    ``options`` are the names that `of_option` may give.
    """
    if isinstance(kind, type):
        raise pytest.UsageError(
            f"the kind of gate {marker!r} is the class {kind.__name__}. Contribute an object of "
            f"it: {kind.__name__}()."
        )
    # Asking for a member may import what a session without gates does not need.
    lacking = [name for name in _MEMBERS if name not in dir(kind)]
    if lacking:
        raise pytest.UsageError(
            f"the kind of gate {marker!r} is {kind!r}, which lacks {', '.join(lacking)}. Give it "
            f"every member of pytest_cpg.gates.kind.GateKind."
        )
    _check_options(marker, kind, options)
    for wrong in _wrong_in(kind, options):
        raise pytest.UsageError(f"the kind of gate {marker!r}: {wrong}")
    if half := half_part(kind):
        raise pytest.UsageError(f"the kind of gate {marker!r} {half}.")
    if kind.marker != marker:
        raise pytest.UsageError(
            f"the kind of gate {marker!r} says that its marker is {kind.marker!r}. Contribute it "
            f"under that name."
        )
    if marker in others or kind.fixture in {other.fixture for other in others.values()}:
        raise pytest.UsageError(
            f"two kinds of gate have the marker {marker!r} or the fixture {kind.fixture!r}. "
            f"Rename yours in its pytest_cpg_gates hook."
        )


def _check_options(marker: str, kind: Any, declared: Collection[str]) -> None:
    own = getattr(kind, "options", ())
    if not isinstance(own, list | tuple) or not all(isinstance(one, Option) for one in own):
        raise pytest.UsageError(
            f"the kind of gate {marker!r}: options is {own!r}. Write a tuple: options = "
            f"(Option(...),)."
        )
    for late in (one for one in own if one.name not in declared):
        raise pytest.UsageError(
            f"the kind of gate {marker!r} has the option {late.flag}, and was contributed when the "
            f"command line had been read. Contribute it from a plugin, or from the conftest.py "
            f"beside the ini file."
        )


def _wrong_in(kind: Any, options: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the members of a kind, and what to write."""
    for name in ("marker", "fixture"):
        if not _is_name(getattr(kind, name)):
            yield f"{name} is {getattr(kind, name)!r}. Write a name as of a variable."
    if not isinstance(kind.help, str):
        yield f"help is {kind.help!r}. Write a line of text."
    yield from _wrong_arguments(kind.arguments, options)
    fixtures = getattr(kind, "fixtures", ())
    if not isinstance(fixtures, list | tuple) or not all(map(_is_name, fixtures)):
        yield f'fixtures is {fixtures!r}. Write a tuple of names: fixtures = ("my_fixture",).'
    elif twice := [one for one in fixtures if one in _TAKEN or fixtures.count(one) > 1]:
        yield f"fixtures names {twice[0]}, which is given already. Leave it out."
    # A property may import what a session without gates does not need.
    if not isinstance(getattr_static(kind, "labels"), property):
        yield from _wrong_labels(kind.labels)
    if not isinstance(getattr_static(kind, "result"), property | type):
        yield f"result is {kind.result!r}. Write the class of results."
    for name in ("parse", "measure", "judge", "card"):
        if not callable(getattr(kind, name)):
            yield f"{name} is {getattr(kind, name)!r}. Write a method."


def _wrong_arguments(arguments: Any, options: Collection[str]) -> Iterator[str]:
    if not isinstance(arguments, list | tuple):
        yield f"arguments is {arguments!r}. Write a tuple: arguments = (Argument(...),)."
        return
    names = [one.name for one in COMMON]
    for one in arguments:
        if not isinstance(one, Argument):
            yield f"arguments holds {one!r}. Write Argument(...) or of_option(...)."
            return
        if not _is_name(one.name):
            yield f"an argument is called {one.name!r}. Write a name as of a variable."
        elif one.name in names:
            yield f"two arguments are called {one.name}, or all kinds have it. Rename yours."
        elif one.option and one.option not in options:
            yield f"there is no option {one.option!r}. {did_you_mean(one.option, options)}"
        elif one.parse is not None and not callable(one.parse):
            yield f"the parser of {one.name} is {one.parse!r}. Write a function of the value."
        names.append(one.name)


def _wrong_labels(labels: Any) -> Iterator[str]:
    if not isinstance(labels, Mapping) or not labels:
        yield f"labels is {labels!r}. Write a dict from labels, best first, to Severity."
        return
    for label, severity in labels.items():
        if not isinstance(label, str) or not isinstance(severity, Severity):
            yield f"labels holds {label!r}: {severity!r}. Write a text, and a Severity."


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and given.isidentifier()

"""Kinds: which kinds of gate a session has, by their markers, and the fixtures that measure.

Loaded in every session, with gates or without, and so as small as can be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg import gates

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import GateKind
    from pytest_cpg.gates.options import Option
    from pytest_cpg.plugin.options import DeclaredOptions

_COMPONENTS = ("tasks", "planners", "world_models", "checkpoint_readers")
# What the hook of each name returns a dict of.
EXTENSION_POINTS = {
    "pytest_cpg_gates": "from markers to kinds of gate",
    **{f"pytest_cpg_{what}": "from names to factories" for what in _COMPONENTS},
}


class GateKinds:
    """The kinds of gate that plugins and conftest files have contributed.

    Parameters
    ----------
    parser : pytest.Parser
        Where options are declared.
    measured : callable
        Given a fixture's request, a kind and the values of its fixtures, returns a result.

    Attributes
    ----------
    table : dict
        By marker.
    """

    def __init__(self, parser: pytest.Parser, measured: Callable[..., Any]) -> None:
        self._parser, self._measured = parser, measured
        self._options: DeclaredOptions | None = None
        self._config: pytest.Config | None = None
        # Taken before pluggy knows of the hook: it would search every plugin of every session.
        self._early: list[object] = [gates]
        self._registered: set[str] = set()
        self.table: dict[str, GateKind[Any, Any]] = {}

    def declared(self) -> Mapping[str, Option]:
        """Return the options of every session and of its kinds, by name, declared by now.

        Raises pytest.UsageError where two have one name.
        """
        if self._options is None:
            from pytest_cpg.plugin.options import DeclaredOptions

            self._options = DeclaredOptions(self._parser)
            for plugin in self._early:
                _declare_of(plugin, self._options)
        return self._options.table

    def unknown_in_ini(self, config: pytest.Config) -> list[str]:
        """Return settings of the ini file that nobody heeds."""
        # Where there is any, something is asked of the session.
        return self._options.unknown_in_ini(config) if self._options else []

    def take(self, plugin: object) -> None:
        """Take what a plugin contributes by the hook ``pytest_cpg_gates``, if anything.

        Raises pytest.UsageError when it is no kind, there is one of that marker, or any of our
        hooks is no function.
        """
        if self._config is not None:
            self._add(_contributed(plugin), self._config)
            return
        self._early.append(plugin)
        if _hooks_of(plugin).get("pytest_cpg_gates") is None:
            return
        if self._options is None:
            self.declared()
        else:
            _declare_of(plugin, self._options)

    def open(self, config: pytest.Config) -> None:
        """Add what plugins, ours first, have contributed, and from now on what they bring."""
        self._config = config
        for plugin in self._early:
            self._add(_contributed(plugin), config)

    def of(self, node: pytest.Item) -> Iterator[GateKind[Any, Any]]:
        """Yield the kinds of gate that a test is marked with; more than one is refused."""
        return (kind for name, kind in self.table.items() if node.get_closest_marker(name))

    def has_gate(self, node: pytest.Item) -> bool:
        """Say whether a test is marked as a gate."""
        return any(mark.name in self.table for mark in node.iter_markers())

    def unknown_of(self, node: pytest.Item) -> list[tuple[pytest.Mark, list[str]]]:
        """Return what says something by a name that nobody has registered, and what is near it."""
        marks = [mark for mark in node.iter_markers() if mark.kwargs]
        if {mark.name for mark in marks} <= self._registered:
            return []
        lines: list[str] = node.config.getini("markers")
        self._registered = {re.split(r"[:(]", line)[0].strip() for line in lines}
        unknown = [mark for mark in marks if mark.name not in self._registered]
        return [(mark, near) for mark in unknown if (near := _near(mark.name, self.table))]

    def marked(self, nodes: Iterable[pytest.Item]) -> list[pytest.Item]:
        """Return the tests that are marked as gates."""
        return [node for node in nodes if self.has_gate(node)]

    def are_named_in(self, path: Path) -> bool:
        """Say whether a file names the marker of a kind, and so may have gates."""
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        return any(re.search(rf"\bmark\.{marker}\b", text) for marker in self.table)

    def _add(self, kinds: Mapping[str, Any], config: pytest.Config) -> None:
        # One plugin for all: pytest goes through the names of each.
        fixtures = ModuleType(f"fixtures of {[*kinds]}")
        for marker, kind in kinds.items():
            # Ours are known to be right, and whoever asks loads them.
            if not isinstance(kind, gates.BuiltIn):
                from pytest_cpg.plugin.contributed import check_kind

                check_kind(marker, kind, self.table, self.declared())
            self.table[marker] = kind
            config.addinivalue_line("markers", f"{_shown(kind, config)}: {kind.help}")
            setattr(fixtures, kind.fixture, _fixture(kind, self._measured))
        if kinds:
            config.pluginmanager.register(fixtures)


KINDS: pytest.StashKey[GateKinds] = pytest.StashKey()


def _contributed(plugin: Any) -> Mapping[str, Any]:
    """Return the kinds of gate that a plugin contributes, by their markers.

    Raises pytest.UsageError when any of our hooks is no function, or this one raises or returns
    something else.
    """
    hooks = _hooks_of(plugin)
    for name, hook in hooks.items():
        if not (hook is None or callable(hook)):
            raise pytest.UsageError(
                f"{name} is {hook!r}. Write a function that returns a dict "
                f"{EXTENSION_POINTS[name]}."
            )
    contribute = hooks.get("pytest_cpg_gates")
    try:
        found = contribute() if contribute else None
    # A user's code may raise anything.
    except Exception as error:
        from pytest_cpg.gates.answer import fault_of

        raise pytest.UsageError(fault_of("a pytest_cpg_gates hook", error).whole) from None
    if found is not None and not isinstance(found, Mapping):
        raise pytest.UsageError(
            f"a pytest_cpg_gates hook returned {found!r}. Return a dict from markers to kinds "
            f"of gate."
        )
    return found or {}


def _hooks_of(plugin: object) -> Mapping[str, Any]:
    """Return what a plugin has in the place of our hooks, by their names."""
    # An object that answers to every name has those that it lists, as for pytest.
    return {name: getattr(plugin, name) for name in EXTENSION_POINTS if name in dir(plugin)}


def _declare_of(plugin: object, options: DeclaredOptions) -> None:
    """Declare the options of the kinds that a plugin contributes."""
    try:
        kinds = _contributed(plugin)
    # What is wrong is said once the session is configured.
    except pytest.UsageError:
        return
    options.declare_of(kinds)


def _near(name: str, markers: Iterable[str]) -> list[str]:
    """Return the markers that a name may be meant for, the nearest first.

    A short one has to be there with all its letters: others have markers as short.
    """
    from difflib import get_close_matches

    folded = {marker.casefold(): marker for marker in markers}
    near = get_close_matches(name.casefold(), folded)
    return [folded[one] for one in near if len(one) > 3 or {*one} == {*name.casefold()}]


def _shown(kind: GateKind[Any, Any], config: pytest.Config) -> str:
    """Return what pytest is to know of a marker: its arguments where somebody reads them."""
    if not getattr(config.option, "markers", False):
        return kind.marker
    from pytest_cpg.gates.arguments import signature

    return signature(kind.marker, kind.arguments)


def _fixture(kind: GateKind[Any, Any], measure: Callable[..., Any]) -> object:
    """Return the fixture that measures for a kind, and gives the result."""

    def measured(request: pytest.FixtureRequest, **given: Any) -> Any:
        __tracebackhide__ = True
        return measure(request, kind, **given)

    # The model comes last: what is wrong with the task is said first.
    names = ("request", "cpg_executor", *getattr(kind, "fixtures", ()), "learned_dynamics")
    measured.__signature__ = Signature(  # type: ignore[attr-defined]  # which pytest reads
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    measured.__doc__ = f"Give the gate's result, measured before the test's body: {kind.help}"
    return pytest.fixture(name=kind.fixture)(measured)

"""Kinds: which kinds of gate a session has, what it has collected, and what earlier ones had.

Every session loads this, and no kind of ours.
"""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from inspect import Parameter, Signature, isroutine
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.gates import BUILT_IN, GATES
from pytest_cpg.plugin.options import DeclaredOptions

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import GateKind

# What every gate cost when it last ran, nothing of one whose kind does not say.
COSTS = "cpg/costs.1"
_COMPONENTS = ("tasks", "planners", "world_models", "checkpoint_readers", "perturbations")
# What the hook of each name returns a dict of.
EXTENSION_POINTS = {
    "pytest_cpg_gates": "from markers to kinds of gate",
    **{f"pytest_cpg_{what}": "from names to factories" for what in _COMPONENTS},
}


class Collected:
    """What a session has collected, before it is known whether it has gates.

    ``uncollected`` has "failed" and "skipped" where a file was not collected for that, ``errors``
    what went wrong, ``refused`` what is wrong with markers of the file at hand.
    """

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.gates: list[pytest.Item] = []
        self.uncollected: set[str] = set()
        self.errors: dict[str, str] = {}
        self.refused: list[str] = []


class GateKinds:
    """The kinds of gate by their markers: ours, and those of plugins and conftest files."""

    def __init__(self, parser: pytest.Parser, measured: Callable[..., Any]) -> None:
        self._measured = measured
        self.options = DeclaredOptions(parser)
        self._config: pytest.Config | None = None
        # Taken before the session is configured.
        self._early: list[object] = []
        self._registered: set[str] = set()
        self._contributed: dict[str, GateKind[Any, Any]] = {}
        self.table: Mapping[str, GateKind[Any, Any]] = ChainMap(self._contributed, GATES)  # type: ignore[arg-type]  # only read

    def take(self, plugin: object) -> None:
        """Take what a plugin contributes by the hook ``pytest_cpg_gates``, if anything."""
        if self._config is not None:
            self._add(_contributed(plugin), self._config)
            return
        self._early.append(plugin)
        try:
            kinds = _contributed(plugin)
        # What is wrong is said once the session is configured.
        except pytest.UsageError:
            return
        self.options.declare_of(kinds)

    def open(self, config: pytest.Config) -> None:
        """Add our kinds and those of plugins, and from now on what plugins bring."""
        self._config = config
        fixtures = ModuleType("fixtures of our gates")
        for marker, kind in BUILT_IN.items():
            shown = _shown(GATES[marker]) if config.option.markers else marker
            config.addinivalue_line("markers", shown)
            setattr(fixtures, marker, _fixture(marker, marker, kind.fixtures, self._measured))
        config.pluginmanager.register(fixtures)
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
        if not kinds:
            return
        from pytest_cpg.plugin.contributed import check_kind

        # One plugin for all: pytest goes through the names of each.
        fixtures = ModuleType(f"fixtures of {[*kinds]}")
        for marker, kind in kinds.items():
            check_kind(marker, kind, self.table, self.options.table)
            self._contributed[marker] = kind
            config.addinivalue_line("markers", _shown(kind))
            needs = getattr(kind, "fixtures", ())
            fixture = _fixture(marker, kind.fixture, needs, self._measured)
            setattr(fixtures, kind.fixture, fixture)
        config.pluginmanager.register(fixtures)


KINDS: pytest.StashKey[GateKinds] = pytest.StashKey()


def _contributed(plugin: Any) -> Mapping[str, Any]:
    """Return the kinds of gate that a plugin contributes, or raise pytest.UsageError."""
    hooks = _hooks_of(plugin)
    if unknown := sorted(hooks.keys() - EXTENSION_POINTS.keys()):
        from pytest_cpg.contracts.lookup import did_you_mean

        raise pytest.UsageError(
            f"pytest-cpg has no hook {unknown[0]}. {did_you_mean(unknown[0], EXTENSION_POINTS)}"
        )
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


def is_hook(name: str) -> bool:
    """Say whether pytest takes a function of this name for a hook of ours."""
    return name.startswith("pytest_cpg_")


def _hooks_of(plugin: Any) -> dict[str, Any]:
    """Return what a plugin has for hooks of ours, by the hook: its name, or as ``specname`` says.

    As for pytest, a hook that we do not have is a function, and not an optional one.
    """
    hooks = {}
    # An object that answers to every name has those that it lists.
    for name in dir(plugin):
        if not name.startswith("pytest_"):
            continue
        member = getattr(plugin, name)
        options = getattr(member, "pytest_impl", None)
        options = options if isinstance(options, dict) else {}
        hook = options.get("specname") or name
        is_taken = isroutine(member) and not options.get("optionalhook")
        if is_hook(hook) and (hook in EXTENSION_POINTS or is_taken):
            hooks[hook] = member
    return hooks


def _near(name: str, markers: Iterable[str]) -> list[str]:
    """Return the markers that a name may be meant for, the nearest first.

    A short one has to be there with all its letters: others have markers as short.
    """
    from difflib import get_close_matches

    folded = {marker.casefold(): marker for marker in markers}
    near = get_close_matches(name.casefold(), folded)
    return [folded[one] for one in near if len(one) > 3 or {*one} == {*name.casefold()}]


def _shown(kind: GateKind[Any, Any]) -> str:
    """Return what pytest is to know of a marker."""
    from pytest_cpg.gates.arguments import signature

    return f"{signature(kind.marker, kind.arguments)}: {kind.help}"


def _fixture(marker: str, name: str, needs: Iterable[str], measure: Callable[..., Any]) -> object:
    """Return the fixture that measures for a kind, and gives the result."""

    def measured(request: pytest.FixtureRequest, **values: Any) -> Any:
        __tracebackhide__ = True
        return measure(request, marker, **values)

    # The model comes last: what is wrong with the task is said first.
    names = ("request", "cpg_executor", *needs, "learned_dynamics")
    measured.__signature__ = Signature(  # type: ignore[attr-defined]  # which pytest reads
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    measured.__doc__ = f"Give the result of a test marked {marker}, measured before its body."
    return pytest.fixture(name=name)(measured)


def remembered_costs(config: pytest.Config) -> dict[str, Any]:
    """Return what pytest's cache has of each gate, by gate id."""
    cache = getattr(config, "cache", None)
    costs = cache.get(COSTS, {}) if cache else _on_disk(config)
    # Whatever else somebody's editor has left; kinds check what they have to do with.
    pairs = costs.items() if isinstance(costs, dict) else ()
    return {gate: cost for gate, cost in pairs if isinstance(cost, dict)}


def had_gates(config: pytest.Config, *kept: str) -> bool:
    """Say whether an earlier session had gates, by what it kept in files or pytest's cache."""
    return any((config.rootpath / path).exists() for path in kept) or bool(remembered_costs(config))


def remember_costs(config: pytest.Config, costs: Mapping[str, Any]) -> None:
    """Add to what pytest's cache has of each gate, where that can be written."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return
    # Pytest's own plugins say that it cannot, and a warning may be an error.
    with warnings.catch_warnings(action="ignore"), suppress(OSError, ValueError):
        cache.set(COSTS, {**remembered_costs(config), **costs})


def _on_disk(config: pytest.Config) -> Any:
    """Return the costs where there is no cache yet: until conftest files are loaded."""
    # A project without a cache has no folder for it, either.
    with suppress(OSError, ValueError):
        folder = config.rootpath / os.path.expandvars(config.getini("cache_dir"))
        return json.loads((folder / "v" / COSTS).read_text(encoding="utf-8"))
    return {}

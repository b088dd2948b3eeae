"""Kinds: which kinds of gate a session has, by their markers, and the fixtures that measure.

Loaded in every session, with gates or without, and so as small as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.gates import BuiltIn
from pytest_cpg.gates.arguments import REQUIRED, Argument, as_given, gate_name, of_option

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import GateKind

COMMON = (
    Argument("max_verdict", as_given, help="the worst verdict that the test accepts"),
    of_option("drift"),
    of_option("timeout"),
    of_option("model"),
    Argument("id", gate_name, "", help="the gate's name, in place of the test's"),
)
"""Arguments of every kind."""


def contributed(plugin: object) -> Mapping[str, Any]:
    """Return the kinds of gate that a plugin contributes, by their markers.

    Raises pytest.UsageError when it raises, or returns something else.
    """
    contribute = getattr(plugin, "pytest_cpg_gates", None)
    try:
        found = None if contribute is None else contribute()
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


class GateKinds:
    """The kinds of gate that plugins and conftest files have contributed.

    Parameters
    ----------
    measured : callable
        Given a fixture's request, a kind and the values of its fixtures, returns a result.

    Attributes
    ----------
    table : dict
        By marker.
    """

    def __init__(self, config: pytest.Config, measured: Callable[..., Any]) -> None:
        self._config, self._measured = config, measured
        self.table: dict[str, GateKind[Any, Any]] = {}

    def add(self, plugin: object) -> None:
        """Take what a plugin contributes by the hook ``pytest_cpg_gates``, if anything.

        Raises pytest.UsageError when it is no kind, or there is one of that marker.
        """
        for marker, kind in contributed(plugin).items():
            # Ours are known to be right, and whoever asks loads them.
            if not isinstance(kind, BuiltIn):
                from pytest_cpg.plugin.contributed import check_kind
                from pytest_cpg.plugin.settings import DECLARED

                declared: Any = self._config.pluginmanager.get_plugin(DECLARED)
                check_kind(marker, kind, self.table, declared.options)
            self.table[marker] = kind
            self._config.addinivalue_line("markers", self._line(kind))
            self._config.pluginmanager.register(
                _fixture(kind, self._measured), f"cpg-fixture-{marker}"
            )

    def of(self, node: pytest.Item) -> Iterator[GateKind[Any, Any]]:
        """Yield the kinds of gate that a test is marked with; more than one is refused."""
        return (kind for name, kind in self.table.items() if node.get_closest_marker(name))

    def _line(self, kind: GateKind[Any, Any]) -> str:
        """Return what pytest is to know of a marker: its arguments where somebody reads them."""
        is_read = getattr(self._config.option, "markers", False)
        return f"{_signature(kind) if is_read else kind.marker}: {kind.help}"


KINDS: pytest.StashKey[GateKinds] = pytest.StashKey()


def _signature(kind: GateKind[Any, Any]) -> str:
    """Return how ``pytest --markers`` writes the marker of a kind."""
    return f"{kind.marker}({', '.join(map(_written, (*kind.arguments, *COMMON)))})"


def _written(argument: Argument) -> str:
    has_default = argument.default not in (None, "", REQUIRED)
    return f"{argument.name}={argument.default!r}" if has_default else argument.name


def _fixture(kind: GateKind[Any, Any], measure: Callable[..., Any]) -> ModuleType:
    """Return a plugin with the fixture that measures for this kind, and gives the result."""

    def measured(request: pytest.FixtureRequest, **given: Any) -> Any:
        __tracebackhide__ = True
        return measure(request, kind, **given)

    # The model comes last: what is wrong with the task is said first.
    names = ("request", "cpg_executor", *kind.fixtures, "learned_dynamics")
    measured.__signature__ = Signature(  # type: ignore[attr-defined]  # which pytest reads
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    )
    measured.__doc__ = f"Give the gate's result, measured before the test's body: {kind.help}"
    plugin = ModuleType(f"pytest_cpg gate {kind.marker}")
    plugin.measured = pytest.fixture(name=kind.fixture)(measured)  # type: ignore[attr-defined]  # a module takes any
    return plugin

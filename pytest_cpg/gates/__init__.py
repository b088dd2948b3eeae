"""Gates: the questions about a world model, each a kind of its own.

A kind measures, judges and fills in a card; how one is shown or asked for stands above.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import GateKind
    from pytest_cpg.gates.options import Option

PREFIX = "PYTEST_CPG_"
"""Of every variable of the environment that is an option."""
# Where a project keeps what it accepted, and what its sessions found, from its root directory.
BASELINE, HISTORY = ".cpg/baseline.json", ".cpg/history"


class BuiltIn:
    """A kind of ours, loaded when it is first asked for more than what every session asks for.

    Most sessions have no gate of it, and loading it takes a millisecond of each.

    Parameters
    ----------
    place : str
        Module and class of the kind, whose members are this one's.
    options : str
        Module and name of the kind's options, if it brings any.
    """

    def __init__(
        self,
        place: str,
        *,
        marker: str,
        fixtures: tuple[str, ...],
        help: str,  # noqa: A002  # as a kind calls it
        options: str = "",
    ) -> None:
        self.marker = self.fixture = marker
        self.fixtures, self.help = fixtures, help
        self._place, self._options = place, options
        self._kind: GateKind[Any, Any] | None = None

    @property
    def options(self) -> tuple[Option, ...]:
        """What the kind brings, loaded without the kind."""
        return _at(self._options) if self._options else ()

    def __getattr__(self, name: str) -> Any:
        # Whoever copies it asks for some of these before there is anything to load it with.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._loaded(), name)

    def __dir__(self) -> Iterable[str]:
        return dir(self._loaded())

    def _loaded(self) -> GateKind[Any, Any]:
        if self._kind is None:
            self._kind = _at(self._place)()
        return self._kind


def _at(place: str) -> Any:
    from pkgutil import resolve_name

    return resolve_name(f"{__name__}.{place}")


_BUILT_IN = (
    BuiltIn(
        "planning_gap.kind:PlanningGap",
        marker="cpg",
        fixtures=("oracle_dynamics", "training_data"),
        help="gate this test on the planning gap between the true dynamics and a learned world "
        "model.",
        options="options:OF_PLANNING_GAP",
    ),
    BuiltIn(
        "policy_comparison.kind:PolicyComparison",
        marker="cpg_opcc",
        fixtures=("training_data",),
        help="gate this test on whether a learned world model knows when it is wrong about "
        "policies.",
    ),
    BuiltIn(
        "plan_quality.kind:PlanQuality",
        marker="cpg_plan_quality",
        fixtures=("oracle_dynamics",),
        help="gate this test on whether plans that a learned world model likes are as good in "
        "truth.",
    ),
)
GATES = cast(
    "Mapping[str, GateKind[Any, Any]]", MappingProxyType({kind.marker: kind for kind in _BUILT_IN})
)
"""The built-in kinds by their markers."""


def pytest_cpg_gates() -> Mapping[str, GateKind[Any, Any]]:
    """Contribute the built-in kinds, by the hook that brings in any other."""
    return GATES

"""Gates: the questions about a world model, each a kind of its own.

A kind measures, judges and fills in a card; how one is shown or asked for stands above.
Sessions without gates load this, and no kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import GateKind

PREFIX = "PYTEST_CPG_"
"""Of every variable of the environment that is an option."""
# Where a project keeps what it accepted, and what its sessions found, from its root directory.
BASELINE, HISTORY = ".cpg/baseline.json", ".cpg/history"


class BuiltIn(NamedTuple):
    """Where a kind of ours is, and which fixtures of a test it takes beside the model."""

    place: str
    fixtures: tuple[str, ...]


BUILT_IN = {
    "cpg": BuiltIn("planning_gap.kind:PlanningGap", ("oracle_dynamics", "training_data")),
    "cpg_opcc": BuiltIn("policy_comparison.kind:PolicyComparison", ("training_data",)),
    "cpg_plan_quality": BuiltIn("plan_quality.kind:PlanQuality", ("oracle_dynamics",)),
    "cpg_counterfactual": BuiltIn("prediction.counterfactual:counterfactual", ()),
    "cpg_retrieval": BuiltIn("prediction.retrieval:retrieval", ()),
    "cpg_response": BuiltIn("prediction.response:response", ()),
    "cpg_suite": BuiltIn("planning_gap.suite:Suite", ()),
}
"""By marker."""


class _Kinds(Mapping[str, "GateKind[Any, Any]"]):
    """Our kinds by their markers, each loaded when it is first asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, GateKind[Any, Any]] = {}

    def __getitem__(self, marker: str) -> GateKind[Any, Any]:
        if marker not in self._loaded:
            module, _, name = BUILT_IN[marker].place.partition(":")
            self._loaded[marker] = getattr(import_module(f"{__name__}.{module}"), name)()
        return self._loaded[marker]

    def __iter__(self) -> Iterator[str]:
        return iter(BUILT_IN)

    def __len__(self) -> int:
        return len(BUILT_IN)


GATES: Mapping[str, GateKind[Any, Any]] = _Kinds()
"""The built-in kinds by their markers."""

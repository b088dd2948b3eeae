"""Gates: the questions about a world model, each a kind of its own.

A kind measures, judges and fills in a card; how one is shown or asked for stands above.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_cpg.gates.planning_gap.kind import PlanningGap
from pytest_cpg.gates.policy_comparison.kind import PolicyComparison

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import GateKind

GATES: Mapping[str, GateKind[Any, Any]] = MappingProxyType(
    {kind.marker: kind for kind in (PlanningGap(), PolicyComparison())}
)
"""The built-in kinds by their markers; loaded in every session, and so they import little."""

"""Support: what options ask of a kind of gate, and the refusal where it does not have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_cpg.contracts.parts import has
from pytest_cpg.gates.parts import Alarms, Baselined, Forecasts, Replays, SmokeTest
from pytest_cpg.plugin.item import fail
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import GateKind
    from pytest_cpg.plugin.marker import Gate

# What a kind needs for it, and what it says where that is missing.
_NEEDS: Mapping[str, tuple[type, str]] = {
    "plan": (Forecasts, "says nothing before it is run"),
    "quick": (SmokeTest, "has no smoke test"),
    "replay": (Replays, "has no episodes to run again"),
    "render": (Replays, "has no episodes to film"),
    "update_baseline": (Baselined, "has nothing to keep in a baseline"),
    "correction": (Alarms, "has no p-value, and shares no error rate"),
}


def check_supports(kind: GateKind[Any, Any], option: str) -> None:
    """Fail where an option asks a kind for what it does not have."""
    part, why = _NEEDS[option]
    if not has(kind, part):
        _refuse(kind, option, why)


def _refuse(kind: GateKind[Any, Any], option: str, why: str) -> NoReturn:
    fail(
        f"--cpg-{option.replace('_', '-')}: a gate marked {kind.marker} {why}. Leave such gates "
        f"out: -m 'not {kind.marker}'."
    )


def check_gate(gate: Gate, settings: Settings) -> None:
    """Fail where the session or the marker asks a gate for what its kind does not have."""
    asked = {*settings.switches, *settings.typed} & {"quick", "replay", "render", "update_baseline"}
    if settings.of_session("correction") == "holm":
        asked.add("correction")
    for option in sorted(asked):
        check_supports(gate.kind, option)
        if option in ("replay", "render") and gate.task is None:
            _refuse(gate.kind, option, "has no task to run episodes on")
    if gate.drift == "fail" and not has(gate.kind, Baselined):
        fail(
            f"drift='fail': a gate marked {gate.kind.marker} keeps nothing to compare with. Leave "
            f"drift out of its marker, or such gates: -m 'not {gate.kind.marker}'."
        )

"""Forecasts: what --cpg-plan says of every gate that was collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.gates.answer import ask_at_end
from pytest_cpg.gates.kept import entry_for
from pytest_cpg.plugin.memory import COSTS, remembered
from pytest_cpg.plugin.support import check_supports
from pytest_cpg.render.forecasts import forecast_table

if TYPE_CHECKING:
    from pytest_cpg.gates.finding import Finding
    from pytest_cpg.gates.kind import ForecastLine
    from pytest_cpg.plugin.marker import Gate
    from pytest_cpg.plugin.measuring import SessionRuns
    from pytest_cpg.report.baseline import Baseline


def forecast_lines(
    config: pytest.Config, gates: Mapping[str, Gate], runs: SessionRuns, accepted: Baseline | None
) -> tuple[list[str], list[Finding]]:
    """Return the lines of --cpg-plan, none where nothing is printed, and what kinds did wrong."""
    costs = remembered(config, COSTS)
    forecasts: dict[str, ForecastLine] = {}
    faults: list[Finding] = []
    for name, gate in gates.items():
        check_supports(gate.kind, "plan")
        kind: Any = gate.kind
        forecast = ask_at_end(
            faults,
            kind,
            "forecast",
            gate.spec,
            runs.task(gate.task) if gate.task else None,
            cost=costs.get(name),
            accepted=entry_for(kind, accepted.gates.get(name)) if accepted else None,
        )
        if forecast is not None:
            forecasts[name] = forecast
    if not config.pluginmanager.hasplugin("terminalreporter") or (faults and not forecasts):
        return [], faults
    return forecast_table(forecasts, width=config.get_terminal_writer().fullwidth), faults

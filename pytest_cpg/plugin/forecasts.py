"""Forecasts: what --cpg-plan says of every gate that was collected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.gates.planning_gap.forecast import forecast
from pytest_cpg.gates.planning_gap.forecast_line import line_of
from pytest_cpg.plugin.selection import COSTS, remembered
from pytest_cpg.render.forecasts import forecast_table

if TYPE_CHECKING:
    from pytest_cpg.gates.planning_gap.compare import Baseline
    from pytest_cpg.plugin.marker import Gate
    from pytest_cpg.plugin.measuring import SessionRuns


def forecast_lines(
    config: pytest.Config, gates: Mapping[str, Gate], runs: SessionRuns, accepted: Baseline | None
) -> list[str]:
    """Return the lines of --cpg-plan; none where nothing is printed."""
    costs = remembered(config, COSTS)
    specs: dict[str, Any] = {name: gate.spec for name, gate in gates.items()}
    forecasts = {
        name: line_of(
            forecast(name, spec.design(runs.task(spec.task)), spec.criteria, costs, accepted)
        )
        for name, spec in specs.items()
    }
    if not config.pluginmanager.hasplugin("terminalreporter"):
        return []
    return forecast_table(forecasts, width=config.get_terminal_writer().fullwidth)

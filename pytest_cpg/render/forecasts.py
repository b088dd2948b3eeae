"""Forecasts: one line for every gate that could be run, and what it could find."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_cpg.gates.kind import ForecastLine
from pytest_cpg.gates.notation import duration, fitted_names, for_log
from pytest_cpg.render.columns import aligned
from pytest_cpg.render.line import wrapped

_NARROWEST_COLUMN = 6
# One before the name and one behind it.
_BLANKS = 2


def forecast_table(forecasts: Mapping[str, ForecastLine], *, width: int) -> list[str]:
    """Return the table of all gates, by id, fit for a terminal of this width."""
    if not forecasts:
        return ["no gate was collected"]
    rows = [one.cells for one in forecasts.values()]
    cells, headings = aligned(rows, least=_NARROWEST_COLUMN)
    numbers = max(map(len, headings.values()))
    names = fitted_names(tuple(forecasts), width - _BLANKS - numbers)
    lines, columns = [f" {names.shared}"] if names.shared else [], None
    for gate, row, line in zip(forecasts, rows, cells, strict=True):
        # A heading stands wherever what is below it changes.
        if tuple(row) != columns:
            columns = tuple(row)
            lines.append(f" {'gate':{names.width}s} {headings[columns]}")
        lines += names.rows(" ", gate, line)
    for note in dict.fromkeys(note for one in forecasts.values() for note in one.notes):
        lines += wrapped(note, width - 1, " ")
    return [*map(for_log, lines), *_in_all([one.seconds for one in forecasts.values()])]


def _in_all(seconds: Sequence[float | None]) -> list[str]:
    """Return how long all gates take together, where that is not said already."""
    known = [one for one in seconds if one is not None]
    if len(seconds) < 2 or not known:
        return []
    count = len(seconds) - len(known)
    unknown = f", and {count} gate{'s'[: count != 1]} unknown" * bool(count)
    return [f" In all about {duration(sum(known))}{unknown}."]

"""Forecast's line: what --cpg-plan says of a gate on the planning gap."""

from __future__ import annotations

from pytest_cpg.gates import kind
from pytest_cpg.gates.notation import duration
from pytest_cpg.gates.planning_gap.forecast import POWER, WANTED_GAPS, Forecast


def line_of(one: Forecast) -> kind.ForecastLine:
    """Return a forecast as cells, and what a reader of them has to know."""
    notes = [
        f"finds: the smallest gap found {100 * POWER:.0f} times in 100 if the arms are "
        f"independent; paired: if half of the starts decide for both arms and a paired interval "
        f"judges; n@0.2: episodes per arm that find a gap of 0.2"
    ]
    if one.source == "assumed":
        notes.append("? oracle rate assumed, where gaps are hardest to find: the gate was not run")
    if one.may_stop:
        notes.append(
            "<= at most: the gate stops as soon as its verdict is settled, and n@, which is for "
            "gates of one size, says nothing of it"
        )
    needed = ("-" if n is None else str(n) for n in one.needed)
    return kind.ForecastLine(
        cells={
            "episodes": f"{'<=' * one.may_stop}{one.episodes}",
            "oracle": f"{one.oracle_rate:.2f}{'?' * (one.source == 'assumed')}",
            "finds": _gap(one.detectable),
            "paired": _gap(one.paired),
            **{f"n@{gap:g}": n for gap, n in zip(WANTED_GAPS, needed, strict=True)},
            "time": "?" if one.seconds is None else duration(one.seconds),
        },
        notes=tuple(notes),
    )


def _gap(gap: float | None) -> str:
    return "-" if gap is None else f"{gap:.2f}"

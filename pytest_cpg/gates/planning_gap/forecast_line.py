"""Forecast's line: what --cpg-plan says of a gate on the planning gap."""

from __future__ import annotations

from pytest_cpg.gates import kind
from pytest_cpg.gates.notation import duration, found_drop
from pytest_cpg.gates.planning_gap.forecast import POWER, WANTED_GAPS, Forecast


def line_of(one: Forecast) -> kind.ForecastLine:
    """Return a forecast as cells, and what a reader of them has to know."""
    notes = [
        f"finds: the smallest drop that fails the gate {POWER * 5:.0f} times in 5; paired: if half "
        f"of the starts decide for both arms and a paired interval judges",
        "n@0.2: the starts that find a drop of 0.2 as often",
    ]
    if one.source == "assumed":
        notes.append(
            f"?: not run here yet; assumed to be {one.oracle_rate:.2f}, where drops are hardest to "
            f"find"
        )
    if one.may_stop:
        notes.append(
            "<= at most: the gate stops as soon as its verdict is settled, and n@, which is for "
            "gates of one size, says nothing of it"
        )
    needed = ("-" if n is None else str(n) for n in one.needed)
    return kind.ForecastLine(
        cells={
            "starts": f"{'<=' * one.may_stop}{one.episodes}",
            "oracle": f"{one.oracle_rate:.2f}{'?' * (one.source == 'assumed')}",
            "finds": _gap(one.detectable),
            "paired": _gap(one.paired),
            **{f"n@{gap:g}": n for gap, n in zip(WANTED_GAPS, needed, strict=True)},
            "time": "?" if one.seconds is None else duration(one.seconds),
        },
        notes=tuple(notes),
        seconds=one.seconds,
    )


def _gap(gap: float | None) -> str:
    return "-" if gap is None else found_drop(gap)

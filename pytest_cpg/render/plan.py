"""Plan: one line for every gate that could be run, and what it could find."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from pytest_cpg.gates.notation import fitted_names, for_log
from pytest_cpg.gates.planning_gap.forecast import POWER, WANTED_GAPS, Forecast

# Blanks and seven columns of numbers.
_NUMBERS_WIDTH = 59
# As many seconds are given in minutes, and as many minutes in hours.
_LONG = 600


def plan_lines(forecasts: Sequence[Forecast], *, width: int) -> list[str]:
    """Return the table of all gates, fit for a terminal of this width."""
    if not forecasts:
        return ["no gate was collected"]
    names = fitted_names(tuple(one.gate for one in forecasts), width - _NUMBERS_WIDTH)
    space = max(len(name) for name in [*names.values(), "gate"])
    wanted = " ".join(f"{'n@' + f'{gap:g}':>6s}" for gap in WANTED_GAPS)
    lines = [f" {'gate':{space}s} episodes oracle  finds paired {wanted}   time"]
    lines += [_line(one, names[one.gate], space) for one in forecasts]
    notes = [
        f"finds: the smallest gap found {100 * POWER:.0f} times in 100 if the arms are "
        f"independent; paired: if half of the starts decide for both arms and a paired interval "
        f"judges; n@0.2: episodes per arm that find a gap of 0.2"
    ]
    if any(one.source == "assumed" for one in forecasts):
        notes.append("? oracle rate assumed, where gaps are hardest to find: the gate was not run")
    if any(one.may_stop for one in forecasts):
        notes.append(
            "<= at most: the gate stops as soon as its verdict is settled, and n@, which is for "
            "gates of one size, says nothing of it"
        )
    for note in notes:
        lines += textwrap.wrap(note, width - 1, initial_indent=" ", subsequent_indent=" ")
    return list(map(for_log, lines))


def _line(one: Forecast, name: str, space: int) -> str:
    episodes = f"{'<=' * one.may_stop}{one.episodes}"
    rate = f"{one.oracle_rate:.2f}{'?' * (one.source == 'assumed')}"
    needed = " ".join(f"{'-' if n is None else n:>6}" for n in one.needed)
    return (
        f" {name:{space}s} {episodes:>8s} {rate:>6s} {_gap(one.detectable):>6s} "
        f"{_gap(one.paired):>6s} {needed} {_time(one.seconds):>6s}"
    )


def _gap(gap: float | None) -> str:
    return "-" if gap is None else f"{gap:.2f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    if seconds < _LONG:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < _LONG else f"{minutes / 60:.0f} h"

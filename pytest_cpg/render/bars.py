"""Bars: numbers as lengths, and every start of a gate as one sign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_cpg.gates.card import Figure
from pytest_cpg.gates.drift import Drift
from pytest_cpg.render.line import Line

_FULL, _WAS, _EIGHTHS = "█", "░", ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")
# For a stream without them: what is less than half of a sign is left out.
_ASCII = str.maketrans(
    {_FULL: "#", _WAS: "-", **dict.fromkeys("▏▎▍", " "), **dict.fromkeys("▌▋▊▉", "#")}
)
# Of the sets of cells, in their order: as it should be, worse, better, neither.
_SIGNS = ".Xo-"
_LOST_NOW, _LOST_BEFORE = "X", "x"
_COLOURS: Mapping[str, Mapping[str, bool]] = {
    "X": {"red": True, "bold": True},
    "x": {"red": True},
    ".": {"light": True},
    "-": {"light": True},
}
_IN_GROUP, _IN_ROW, _MOST_ROWS = 10, 50, 3
_BETWEEN = "   "


def in_ascii(text: str) -> str:
    """Return a text whose bars every stream can show.

    >>> in_ascii("██▋░░")
    '###--'
    """
    return text.translate(_ASCII)


def bar_text(
    value: float, axis: tuple[float, float], size: int, *, then: float | None = None
) -> tuple[str, str]:
    """Return a number as a bar from zero, and by how much it was longer ``then``.

    >>> bar_text(0.72, (0, 1), 10), bar_text(0.7, (0, 1), 10, then=0.9)
    (('███████▎', ''), ('███████', '░░'))
    """
    low, high = axis

    def place(number: float) -> float:
        return min(max((number - low) / (high - low), 0.0), 1.0) * size

    # What lies beyond an end stands there.
    zero, end = place(0.0), place(value)
    if zero > 0:
        begin, stop = sorted((round(zero), round(end)))
        return f"{' ' * begin}{_FULL * (stop - begin)}", ""
    if then is not None and round(place(then)) > round(end):
        return _FULL * round(end), _WAS * (round(place(then)) - round(end))
    eighths = round(8 * end)
    return f"{_FULL * (eighths // 8)}{_EIGHTHS[eighths % 8]}", ""


def starts_rows(
    figures: Sequence[Figure], drift: Drift | None, *, lead: int, width: int
) -> Iterator[Line]:
    """Yield one sign for each cell of the first figure that has some, and what the signs mean.

    Cells that are worse are told apart by whether they were when the last result was accepted,
    where that is known.
    """
    drawn = next((one for one in figures if one.kind == "cells" and any(one.series.values())), None)
    if drawn is None:
        return
    worse = drift.worse if drift is not None else None
    signs: dict[int, str] = {}
    names: dict[str, str] = {}
    for sign, (name, cells) in zip(_SIGNS, drawn.series.items(), strict=False):
        names[sign] = name
        signs |= dict.fromkeys(cells, sign)
    if drift is not None and worse is not None:
        lost_before = {cell for cell, sign in signs.items() if sign == _LOST_NOW} - {*worse}
        signs |= dict.fromkeys(lost_before, _LOST_BEFORE)
        signs |= dict.fromkeys(worse, _LOST_NOW)
        names |= {_LOST_NOW: f"lost since {drift.since}", _LOST_BEFORE: "lost before, too"}
    ordered = "".join(signs[cell] for cell in sorted(signs))
    shown = [ordered[at : at + _IN_ROW] for at in range(0, len(ordered), _IN_ROW)][:_MOST_ROWS]
    name = f"{drawn.axes[0]}s"
    lead = max(lead, len(name) + 2)
    for row in shown:
        yield Line(((f"  {name:{lead}s}", {}), *_row(row)))
        name = ""
    more = len(ordered) - _MOST_ROWS * _IN_ROW
    if more > 0:
        yield Line.of(f"{'':{lead + 2}s}... and {more} more")
    counted = [(sign, ordered.count(sign)) for sign in "Xx.o-"]
    meant = [f"{sign} {names[sign]}: {count}" for sign, count in counted if count]
    yield from (Line.of(text) for text in _packed(meant, " " * (lead + 2), width))


def _row(signs: str) -> Iterator[tuple[str, Mapping[str, bool]]]:
    """Yield the signs of a row in groups, equal ones together."""
    text = " ".join(signs[at : at + _IN_GROUP] for at in range(0, len(signs), _IN_GROUP))
    begin = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or text[at] != text[begin]:
            yield text[begin:at], _COLOURS.get(text[begin], {})
            begin = at


def _packed(entries: Sequence[str], indent: str, width: int) -> Iterator[str]:
    line = ""
    for entry in entries:
        if line and len(f"{indent}{line}{_BETWEEN}{entry}") > width:
            yield f"{indent}{line}"
            line = entry
        else:
            line = f"{line}{_BETWEEN}{entry}" if line else entry
    if line:
        yield f"{indent}{line}"

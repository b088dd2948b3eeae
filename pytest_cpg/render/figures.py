"""Figures: their data as the coordinates and paths of inline SVG.

Everything is in the units of a figure's own view box, which are pixels at its natural size. Paths
are written by hand, with one path for all marks of a kind: a page of 200 gates must stay small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress, cycle, repeat
from typing import TypeAlias

from pytest_cpg.gates.card import Figure, Trend
from pytest_cpg.render.axis import Axis

PLOT_WIDTH, PLOT_HEIGHT = 300, 110
CELL = 12
# A row of the grid fits a narrow telephone; longer gates get wider rows, not higher grids.
_SHORT_ROW, _LONG_ROW, _MOST_IN_SHORT_ROWS = 25, 50, 250
# Smaller steps between two labels would let their letters touch.
_LABEL_HEIGHT = 12
# Of most letters at 11 px, and a gap beside the words.
_LETTER_WIDTH, _GAP = 6, 10
# Nobody reads more at a glance, and each one costs the page some bytes.
_MOST_LINES = 40

# The mark of each set of cells: where in its cell it begins, and its strokes. A full square, a
# cross, a hollow diamond and a dot differ without any colour.
MARKS: Mapping[str, tuple[int, int, str]] = {
    "square": (2, 6, "h8"),
    "cross": (2, 2, "l8 8m0-8l-8 8"),
    "diamond": (1, 6, "l5-5 5 5-5 5z"),
    "dot": (5, 6, "h2"),
}
# How a series of this name looks in every figure; the others take what is left.
_LINES = {"learned": "thick", "oracle": "thin", "chance": "dotted", "limit": "limit"}
_FREE_LINES = ("thick", "thin", "dashed", "dotted")
# Kinds whose series end where their names can stand.
_NAMED_AT_THE_END = ("curves", "steps")

_Points: TypeAlias = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A picture of two axes, from (0, 0) to (`PLOT_WIDTH`, `PLOT_HEIGHT`).

    Attributes
    ----------
    kind, title, reading, upward : str
        As in `Figure`; what is drawn upward is said above its axis.
    said : str
        For those who do not see it.
    left, right : int
        Room for words beside it, in pixels.
    marks : tuple of (str, str)
        Styles and paths.
    names : tuple of (float, str)
        Heights and names of series, clear of each other.
    ends : tuple of (str, str)
        What stands below its left end and its right one.
    """

    kind: str
    title: str
    reading: str = ""
    upward: str = ""
    said: str
    left: int
    right: int
    ticks: tuple[tuple[float, str], ...]
    rules: str
    frame: str
    marks: tuple[tuple[str, str], ...]
    names: tuple[tuple[float, str], ...] = ()
    ends: tuple[str, str] = ("", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A cell for every place, in the order of their numbers.

    Attributes
    ----------
    sets : tuple of (mark, name, count, places, path)
    """

    kind: str = "cells"
    title: str
    reading: str
    width: int
    height: int
    columns: int
    what: str
    sets: tuple[tuple[str, str, int, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Lines of text."""

    kind: str = "list"
    title: str
    reading: str
    lines: tuple[tuple[str, str], ...]
    more: int


Drawn: TypeAlias = Plot | Grid | Listing


def draw(figure: Figure) -> Drawn:
    """Return a figure as a page shows it."""
    if figure.kind == "cells":
        return _grid(figure)
    return _listing(figure) if figure.kind == "list" else _plot(figure)


def _plot(figure: Figure) -> Plot:
    points = list(chain.from_iterable(figure.series.values()))
    values, heights = [x for x, _ in points], [y for _, y in points]
    if figure.scale is None:
        up = Axis.upward(heights, length=PLOT_HEIGHT)
    else:
        up = Axis.between(*figure.scale, length=PLOT_HEIGHT)
    if figure.kind == "scatter":
        across = Axis.upward(values, length=PLOT_WIDTH)
    else:
        ends = min(values, default=0.0), max(values, default=1.0)
        across = Axis.between(*ends, length=PLOT_WIDTH)
    names = _names(figure, up)
    ticks = [(up.height(tick), f"{tick:.3g}") for tick in up.ticks]
    far = f"{_written(across.high)} {figure.axes[0]}".rstrip()
    return Plot(
        kind=figure.kind,
        title=figure.title,
        reading=figure.reading,
        upward=figure.axes[1],
        said=_said(figure, far),
        left=_room(text for _, text in ticks),
        right=_room(name for _, name in names),
        ticks=tuple(ticks),
        rules=_rules(up, is_zero=False),
        frame=_rules(up, is_zero=True),
        marks=_marks(figure, across, up),
        names=names,
        ends=(_written(across.low), far),
    )


def _marks(figure: Figure, across: Axis, up: Axis) -> tuple[tuple[str, str], ...]:
    """Return a style and a path for every series that has points."""
    free = [style for style in _FREE_LINES if style not in map(_LINES.get, figure.series)]
    left = cycle(free or _FREE_LINES)
    marks = []
    for name, points in figure.series.items():
        style = _LINES.get(name) or next(left)
        if not points:
            continue
        if name == "limit" or figure.kind == "curves":
            path = _line(points, across, up)
        elif figure.kind == "scatter":
            style = "dots"
            path = _stops(f"{across.at(x):g} {up.height(y):g}" for x, y in points)
        else:
            path = _stairs(points, across, up)
        marks.append((style, path))
    return tuple(marks)


def _line(points: _Points, across: Axis, up: Axis) -> str:
    return "M" + "L".join(f"{across.at(x):g} {up.height(y):g}" for x, y in points)


def _stairs(points: _Points, across: Axis, up: Axis) -> str:
    """Return a staircase that turns upward at each point, with one stair at most for each pixel."""
    pixels = [(round(across.at(x)), round(up.height(y))) for x, y in points]
    x, y = pixels[0]
    path = [f"M{x} {y}"]
    for right, height in dict(pixels[1:]).items():
        if height != y:
            path.append(f"h{right - x}v{height - y}")
            x, y = right, height
    return "".join([*path, f"H{pixels[-1][0]}"])


def _names(figure: Figure, up: Axis) -> tuple[tuple[float, str], ...]:
    """Return where the name of each series stands at its end; none where there is only one."""
    named = {name: points for name, points in figure.series.items() if points and name != "limit"}
    if figure.kind not in _NAMED_AT_THE_END or len(named) < 2:
        return ()
    heights = _spread([up.height(points[-1][1]) for points in named.values()])
    return tuple(zip(heights, named, strict=True))


def _spread(heights: Sequence[float]) -> list[float]:
    """Move labels apart until none touches another, and none leaves the plot at its foot."""
    order = sorted(range(len(heights)), key=lambda place: -heights[place])
    floor, placed = float(PLOT_HEIGHT), [0.0] * len(heights)
    for place in order:
        placed[place] = round(min(heights[place], floor), 1)
        floor = placed[place] - _LABEL_HEIGHT
    return placed


def _said(figure: Figure, far: str) -> str:
    """Return where the series of a figure end, or where its numbers are."""
    if figure.kind not in _NAMED_AT_THE_END:
        return f"{figure.title}; the report in JSON has its numbers"
    ends = ", ".join(
        f"{name} {points[-1][1]:.2f}" for name, points in figure.series.items() if points
    )
    return f"{ends} at {far}"


def _rules(axis: Axis, *, is_zero: bool) -> str:
    ticks = (axis.height(tick) for tick in axis.ticks if (tick == 0) is is_zero)
    return "".join(f"M0 {height:g}h{PLOT_WIDTH}" for height in ticks)


def _room(words: Iterable[str]) -> int:
    longest = max(map(len, words), default=0)
    return _GAP + _LETTER_WIDTH * longest


def _written(value: float) -> str:
    return f"{value:g}" if float(value).is_integer() else f"{value:.3g}"


def trend(trends: Sequence[Trend], *, is_hollow: Sequence[bool]) -> Plot:
    """Draw a number over several sessions, from left to right."""
    first, bounds = trends[0], [one.bound for one in trends]
    if first.axis is None:
        ends = chain.from_iterable((one.low, one.estimate, one.high) for one in bounds)
        axis, form = Axis.around(ends, length=PLOT_HEIGHT), "{:+.3g}"
    else:
        axis, form = Axis.between(*first.axis, length=PLOT_HEIGHT), "{:.3g}"
    stride = PLOT_WIDTH / len(bounds)
    across = [round((place + 0.5) * stride, 1) for place in range(len(bounds))]
    points = [f"{x:g} {axis.height(one.estimate):g}" for x, one in zip(across, bounds, strict=True)]
    whiskers = (
        f"M{x:g} {axis.height(one.low):g}V{axis.height(one.high):g}"
        for x, one in zip(across, bounds, strict=True)
    )
    marks = {
        "whiskers": "".join(whiskers),
        "thick": "M" + "L".join(points),
        "dots": _stops(points),
        "hollow": _stops(compress(points, is_hollow)),
    }
    ticks = [(axis.height(tick), form.format(tick) if tick else "0") for tick in axis.ticks]
    return Plot(
        kind="trend",
        title=first.name,
        said=f"{first.name} by session; the table that follows has the numbers",
        left=_room(text for _, text in ticks),
        right=_GAP,
        ticks=tuple(ticks),
        rules=_rules(axis, is_zero=False),
        frame=_rules(axis, is_zero=True),
        marks=tuple((style, path) for style, path in marks.items() if path),
    )


def _stops(points: Iterable[str]) -> str:
    """Return strokes of no length: a round cap makes a dot of each."""
    return "".join(f"M{point}h0" for point in points)


def _grid(figure: Figure) -> Grid:
    marked = dict(zip(MARKS, figure.series.items(), strict=False))
    cells = sorted(
        chain.from_iterable(zip(places, repeat(mark)) for mark, (_, places) in marked.items())
    )
    columns = _SHORT_ROW if len(cells) <= _MOST_IN_SHORT_ROWS else _LONG_ROW
    paths: dict[str, list[str]] = {mark: [] for mark in marked}
    for place, (_, mark) in enumerate(cells):
        row, column = divmod(place, columns)
        x, y, strokes = MARKS[mark]
        paths[mark].append(f"M{column * CELL + x} {row * CELL + y}{strokes}")
    return Grid(
        title=figure.title,
        reading=figure.reading,
        width=columns * CELL,
        height=math.ceil(len(cells) / columns) * CELL,
        columns=columns,
        what=figure.axes[0],
        sets=tuple(
            (mark, name, len(places), ranges(places), "".join(paths[mark]))
            for mark, (name, places) in marked.items()
        ),
    )


def ranges(numbers: Iterable[int]) -> str:
    """Return increasing whole numbers with runs drawn together.

    >>> ranges([0, 1, 2, 5, 7, 8])
    '0-2, 5, 7-8'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def _listing(figure: Figure) -> Listing:
    lines = [(name, ", ".join(texts)) for name, texts in figure.series.items()]
    return Listing(
        title=figure.title,
        reading=figure.reading,
        lines=tuple(lines[:_MOST_LINES]),
        more=max(0, len(lines) - _MOST_LINES),
    )

"""Figures: their data as the coordinates and paths of inline SVG.

Drawn by hand: charting libraries need a network, a script or more room than a page of 200 gates,
where all marks of a kind are one path. Units are those of a figure's own view box.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, compress, cycle, pairwise
from typing import Literal, NamedTuple, TypeAlias

from pytest_cpg.gates.card import Figure, Trend
from pytest_cpg.gates.notation import percentage
from pytest_cpg.render.axis import Axis

Place: TypeAlias = Literal["lead", "why", "half"]
# Width and height of the area between the axes: beside the headline, beside the cause, in a column.
_AREAS: Mapping[Place, tuple[int, int]] = {
    "lead": (330, 174),
    "why": (540, 210),
    "half": (400, 266),
}
# Room for numbers on the left, for the title of the upward axis, for what stands below.
LEFT, TOP, _FOOT = 44, 30, 44
# Smaller steps between two labels would let their letters touch, on a telephone as well.
_LABEL_HEIGHT = 20
# Of most letters where a telephone enlarges them.
_LETTER_WIDTH = 9
_LEAST_RIGHT = 24

# How a series of this name looks in every figure; the others take what is left.
_LINES = {"learned": "learned", "oracle": "oracle", "chance": "chance", "limit": "limit"}
# Series that have no name at their end.
_UNNAMED = ("limit", "band")
_FREE_LINES = ("learned", "oracle", "other", "chance")
# Kinds whose series end where their names can stand.
_NAMED_AT_THE_END = ("curves", "steps")

_Points: TypeAlias = Sequence[tuple[float, float]]


class Label(NamedTuple):
    """Words in a plot: where, what, which way they run, and how they look."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    style: str = ""


class Plot(NamedTuple):
    """A picture of two axes; the area between them begins at (`LEFT`, `TOP`).

    ``title``, ``reading`` and ``finding`` are as in `Figure`; ``said`` is for who does not see it.
    The lower axis lies at ``foot`` and ends at ``right``; ``grid`` is the path of the lines across,
    and ``marks`` are styles and paths.
    """

    title: str
    reading: str
    finding: str
    said: str
    width: int
    height: int
    foot: int
    right: int
    grid: str
    labels: tuple[Label, ...]
    marks: tuple[tuple[str, str], ...]


class _Area(NamedTuple):
    """The two scales of a plot."""

    across: Axis
    up: Axis

    def x(self, value: float) -> float:
        return round(LEFT + self.across.at(value), 1)

    def y(self, value: float) -> float:
        return round(TOP + self.up.height(value), 1)

    @property
    def foot(self) -> int:
        return TOP + self.up.length

    @property
    def right(self) -> int:
        return LEFT + self.across.length


def draw(figure: Figure, place: Place) -> Plot:
    """Return a figure of two axes as a page shows it."""
    width, height = _AREAS[place]
    points = list(chain.from_iterable(figure.series.values()))
    values, heights = [x for x, _ in points], [y for _, y in points]
    if figure.scale is None:
        up = Axis.upward(heights, length=height)
    else:
        up = Axis.between(*figure.scale, length=height)
    if figure.kind == "scatter":
        across = Axis.upward(values, length=width)
    else:
        ends = min(values, default=0.0), max(values, default=1.0)
        across = Axis.across(*ends, length=width)
    area = _Area(across, up)
    ticks = [
        # Every other one has no room on a telephone.
        Label(area.x(tick), area.foot + 18, _written(tick), "middle", "odd" * (at % 2))
        for at, tick in enumerate(across.ticks)
    ]
    return _plot(
        area,
        titles=(figure.title, figure.reading, figure.finding, _said(figure)),
        axes=figure.axes,
        ticks=ticks,
        names=_names(figure, area),
        marks=_marks(figure, area),
    )


def _plot(
    area: _Area,
    *,
    titles: tuple[str, str, str, str],
    axes: tuple[str, str],
    ticks: Sequence[Label],
    names: Sequence[Label],
    marks: Sequence[tuple[str, str]],
    form: str = "{:.3g}",
) -> Plot:
    foot, right = area.foot, area.right
    room = max([_LEAST_RIGHT, *(12 + _LETTER_WIDTH * len(label.text) for label in names)])
    upward = [(area.y(tick), form.format(tick) if tick else "0") for tick in area.up.ticks]
    numbers = [Label(LEFT - 8, y + 4, text, "end") for y, text in upward]
    axis_titles = (
        Label(0, 16, axes[1], "start", "axis-title"),
        Label(right, foot + _FOOT - 4, axes[0], "end", "axis-title"),
    )
    grid = "".join(f"M{LEFT} {y:g}H{right}" for y, _ in upward if y != foot)
    labels = (*(label for label in axis_titles if label.text), *numbers, *ticks, *names)
    size = right + room, foot + _FOOT
    return Plot(*titles, *size, foot, right, grid, labels, tuple(marks))


def _marks(figure: Figure, area: _Area) -> list[tuple[str, str]]:
    """Return a style and a path for every series that has points."""
    free = [style for style in _FREE_LINES if style not in map(_LINES.get, figure.series)]
    left = cycle(free or _FREE_LINES)
    limit = max((x for x, _ in figure.series.get("limit", ())), default=float("inf"))
    marks: list[tuple[str, str]] = []
    for at, (name, points) in enumerate(figure.series.items()):
        if not points:
            continue
        if name == "band":
            marks.insert(0, ("band", f"{_line(points, area)}z"))
        elif name == "limit" or figure.kind == "curves":
            marks.append((_LINES.get(name) or next(left), _line(points, area)))
        elif figure.kind == "scatter":
            marks.append(("dots", _stops((area.x(x), area.y(y)) for x, y in points)))
        elif figure.kind == "steps":
            marks.append((_LINES.get(name) or next(left), _stairs(points, area)))
        elif at:
            # Behind the bars.
            marks.insert(0, ("behind", f"{_stairs(points, area)}V{area.foot}z"))
        else:
            marks += _bars(points, limit, area)
    return marks


def _line(points: _Points, area: _Area) -> str:
    return "M" + "L".join(f"{area.x(x):g} {area.y(y):g}" for x, y in points)


def _stairs(points: _Points, area: _Area) -> str:
    """Return a staircase that turns upward at each point, one stair at most for each pixel."""
    pixels = [(round(area.x(x)), round(area.y(y))) for x, y in points]
    x, y = pixels[0]
    path = [f"M{x} {y}"]
    for right, height in dict(pixels[1:]).items():
        if height != y:
            path.append(f"h{right - x}v{height - y}")
            x, y = right, height
    return "".join([*path, f"H{pixels[-1][0]}"])


def _bars(points: _Points, limit: float, area: _Area) -> list[tuple[str, str]]:
    """Return the bars of a histogram, of which those beyond a limit are of another colour."""
    sides: dict[str, list[str]] = {"bars": [], "beyond": []}
    # The first point stands where the first bar does.
    for (x, share), (end, _) in pairwise(points[1:]):
        left, top, right = area.x(x) + 1, area.y(share), area.x(end) - 1
        if share:
            path = f"M{left:g} {area.foot}V{top:g}H{right:g}V{area.foot}z"
            sides["beyond" if x >= limit else "bars"].append(path)
    return [(style, "".join(paths)) for style, paths in sides.items() if paths]


def _names(figure: Figure, area: _Area) -> list[Label]:
    """Return the name of each series at its end; none where there is only one."""
    series = {
        name: points for name, points in figure.series.items() if points and name not in _UNNAMED
    }
    if figure.kind not in _NAMED_AT_THE_END or len(series) < 2:
        return []
    heights = _spread([area.y(points[-1][1]) for points in series.values()], area.foot)
    return [
        Label(
            area.right + 8,
            y + 4,
            f"{name} {points[-1][1]:.2f}" if figure.kind == "steps" else name,
            "start",
            f"of-{_LINES.get(name, 'other')}",
        )
        for y, (name, points) in zip(heights, series.items(), strict=True)
    ]


def _spread(heights: Sequence[float], floor: float) -> list[float]:
    """Move labels apart until none touches another, and none leaves the plot at its foot."""
    order = sorted(range(len(heights)), key=lambda place: -heights[place])
    placed = [0.0] * len(heights)
    for place in order:
        placed[place] = round(min(heights[place], floor), 1)
        floor = placed[place] - _LABEL_HEIGHT
    return placed


def _said(figure: Figure) -> str:
    """Return where the series of a figure end, or what it shows."""
    if figure.kind not in _NAMED_AT_THE_END:
        return figure.finding or f"{figure.title}; the report in JSON has its numbers"
    ends = ", ".join(
        f"{name} {points[-1][1]:.2f}"
        for name, points in figure.series.items()
        if points and name != "band"
    )
    return f"{figure.title}: in the end {ends}"


def _written(value: float) -> str:
    return f"{value:g}" if float(value).is_integer() else f"{value:.3g}"


def _stops(points: Iterable[tuple[float, float]]) -> str:
    """Return strokes of no length: a round cap makes a dot of each."""
    return "".join(f"M{x:g} {y:g}h0" for x, y in points)


class Course(NamedTuple):
    """A number over several sessions, oldest first, and what each of them measured.

    ``is_hollow`` says which had another design than the last, and ``accepted`` which was accepted.
    """

    trends: tuple[Trend, ...]
    revisions: tuple[str, ...]
    is_hollow: tuple[bool, ...]
    accepted: int | None = None

    @property
    def said(self) -> str:
        """The numbers, for those who do not see it."""
        name, texts = self.trends[0].name, ", ".join(trend.text for trend in self.trends)
        return f"{name} in {len(self.trends)} sessions: {texts}"


def course_plot(course: Course) -> Plot:
    """Draw a number over several sessions, from left to right."""
    trends, revisions = course.trends, course.revisions
    area = _course_area(trends, *_AREAS["lead"])
    points, bounds = _course_points(course, area), [trend.bound for trend in trends]
    whiskers = "".join(
        f"M{x:g} {area.y(bound.low):g}V{area.y(bound.high):g}"
        for (x, _), bound in zip(points, bounds, strict=True)
    )
    foot, (last, height) = area.foot, points[-1]
    ticks = [
        Label(points[0][0], foot + 18, revisions[0], "start", "odd"),
        Label(area.right, foot + 18, revisions[-1], "end"),
    ]
    marks = [("whiskers", whiskers), *_course_marks(course, points)]
    if course.accepted is not None:
        at, level = points[course.accepted]
        # The ends of a word stay inside.
        middle = min(max(at, LEFT + 24), area.right - 24)
        ticks.append(Label(middle, foot + 33, "accepted", "middle"))
        marks.insert(0, ("limit", f"M{at:g} {level:g}H{area.right}"))
    marks.append(("last", f"M{last:g} {height - 7:g}l7 7-7 7-7-7z"))
    levels = {bound.level for bound in bounds}
    level_text = f"{percentage(levels.pop())} " if len(levels) == 1 else ""
    what = "commits" if any(revisions) else "sessions"
    reading = f"{len(trends)} {what}. Bars are {level_text}intervals."
    return _plot(
        area,
        titles=(trends[0].name, reading, "", course.said),
        axes=("", ""),
        ticks=ticks,
        names=[Label(area.right + 12, height + 4, f"now {trends[-1].text}", style="of-last")],
        marks=marks,
        form="{:.3g}" if trends[0].axis else "{:+.3g}",
    )


SPARK_WIDTH, SPARK_HEIGHT = 104, 36


def spark(course: Course) -> list[tuple[str, str]]:
    """Draw a number over several sessions as small as a word: styles and paths, without axes."""
    area = _course_area(course.trends, SPARK_WIDTH - 14, SPARK_HEIGHT - 10)
    points = [(x - LEFT + 5, y - TOP + 5) for x, y in _course_points(course, area)]
    # A word has no room for a stop at each session.
    drawn = [mark for mark in _course_marks(course, points) if mark[0] not in ("stops", "hollow")]
    return [*drawn, ("last", _stops(points[-1:]))]


def _course_area(trends: Sequence[Trend], width: int, height: int) -> _Area:
    if trends[0].axis is None:
        bounds = [trend.bound for trend in trends]
        ends = chain.from_iterable((bound.low, bound.estimate, bound.high) for bound in bounds)
        up = Axis.around(ends, length=height)
    else:
        up = Axis.between(*trends[0].axis, length=height)
    return _Area(Axis.between(0, max(len(trends) - 1, 1), length=width), up)


def _course_points(course: Course, area: _Area) -> list[tuple[float, float]]:
    return [(area.x(at), area.y(trend.bound.estimate)) for at, trend in enumerate(course.trends)]


def _course_marks(course: Course, points: Sequence[tuple[float, float]]) -> list[tuple[str, str]]:
    rings = points[course.accepted : course.accepted + 1] if course.accepted is not None else []
    marks = {
        "learned": "M" + "L".join(f"{x:g} {y:g}" for x, y in points),
        "stops": _stops(points),
        "hollow": _stops(compress(points, course.is_hollow)),
        "ring": _stops(rings),
        "core": _stops(rings),
    }
    return [(style, path) for style, path in marks.items() if path]

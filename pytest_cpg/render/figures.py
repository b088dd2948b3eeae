"""Figures: results as the coordinates and paths of inline SVG.

Everything is in the units of a figure's own view box, which are pixels at its natural size. Paths
are written by hand, with one path for all marks of a kind: a page of 200 gates must stay small.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress

from pytest_cpg.contracts import BoolArray
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.stats import Interval

FOREST_WIDTH = 250
PLOT_WIDTH, PLOT_HEIGHT = 300, 110
CELL = 12
# A row of the grid fits a narrow telephone; longer gates get wider rows, not higher grids.
_SHORT_ROW, _LONG_ROW, _MOST_IN_SHORT_ROWS = 25, 50, 250
_MOST_TICKS = 5
# Smaller steps between two labels would let their letters touch.
_LABEL_HEIGHT = 12

# How both arms ended from one start, and the mark of each: where in its cell it begins, and its
# strokes. A full square, a cross, a hollow diamond and a dot differ without any colour.
MARKS: Mapping[str, tuple[int, int, str]] = {
    "both": (2, 6, "h8"),
    "oracle-only": (2, 2, "l8 8m0-8l-8 8"),
    "learned-only": (1, 6, "l5-5 5 5-5 5z"),
    "neither": (5, 6, "h2"),
}
PAIR_KINDS = tuple(MARKS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A scale that has zero on it.

    Attributes
    ----------
    low, high : float
        Its ends, in the units of what is drawn.
    length : int
        From end to end, in pixels.
    ticks : tuple of float
        Where it is labelled; both ends are.
    """

    low: float
    high: float
    length: int
    ticks: tuple[float, ...]

    @classmethod
    def around(cls, values: Iterable[float], *, length: int) -> Axis:
        """Return a scale with round ends on both sides of zero, and all values between them."""
        spread = (0.0, *values)
        least, most = min(spread), max(spread)
        # Divided one by one, as the difference of two large numbers may be infinite.
        rough = most / (_MOST_TICKS - 1) - least / (_MOST_TICKS - 1)
        if rough < sys.float_info.min:  # nothing to see, and no decade below it
            rough = 1.0
        decade = 10.0 ** math.floor(math.log10(rough))
        step = next(decade * nice for nice in (1, 2, 5, 10) if decade * nice >= rough)
        below, above = max(1, math.ceil(-least / step)), max(1, math.ceil(most / step))
        ticks = tuple(number * step for number in range(-below, above + 1))
        return cls(low=ticks[0], high=ticks[-1], length=length, ticks=ticks)

    @classmethod
    def of_rates(cls, *, length: int) -> Axis:
        """Return the scale of success rates."""
        return cls(low=0.0, high=1.0, length=length, ticks=(0.0, 0.5, 1.0))

    def at(self, value: float) -> float:
        """Return the pixel of a value, to a tenth."""
        # Halved, which loses no digit, as the length of a long scale may be infinite.
        low, high = self.low / 2, self.high / 2
        return round((value / 2 - low) / (high - low) * self.length, 1)

    def factor(self, interval: Interval, margin: float) -> float:
        """Return by what to multiply an interval of other units so that it fits this scale."""
        most = max(interval.high, interval.estimate, margin)
        least = min(interval.low, interval.estimate)
        factors = [self.high / most] if most > 0 else []
        factors += [self.low / least] if least < 0 else []
        return min([*factors, sys.float_info.max])


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Share of an arm's episodes that were solved within so many steps.

    Attributes
    ----------
    path : str
        From (0, `PLOT_HEIGHT`), the origin of the plot.
    label_y : float
        Where its name stands at the right, clear of the other names.
    """

    name: str
    path: str
    label_y: float


def curves(arms: Sequence[Arm], budget: int) -> tuple[Curve, ...]:
    """Return the curve of each arm over the steps from 0 to ``budget``."""
    ends = [(1 - arm.success_rate) * PLOT_HEIGHT for arm in arms]
    placed = dict(zip((arm.name for arm in arms), _spread(ends), strict=True))
    return tuple(
        Curve(name=arm.name, path=_curve_path(arm, budget), label_y=placed[arm.name])
        for arm in arms
    )


def _curve_path(arm: Arm, budget: int) -> str:
    """Return a staircase with at most one stair for each pixel."""
    solved = sorted(int(step) for step in arm.steps[arm.successes])
    stairs = {
        round(min(step, budget) / budget * PLOT_WIDTH): count
        for count, step in enumerate(solved, 1)
    }
    path, x, y = [f"M0 {PLOT_HEIGHT}"], 0, 0
    for across, count in stairs.items():
        height = round(count / arm.episodes * PLOT_HEIGHT)
        if height > y:
            path.append(f"h{across - x}v-{height - y}")
            x, y = across, height
    return "".join([*path, f"H{PLOT_WIDTH}"])


def _spread(heights: Sequence[float]) -> list[float]:
    """Move labels apart until none touches another, and none leaves the plot at its foot."""
    order = sorted(range(len(heights)), key=lambda place: -heights[place])
    floor, placed = float(PLOT_HEIGHT), [0.0] * len(heights)
    for place in order:
        placed[place] = round(min(heights[place], floor), 1)
        floor = placed[place] - _LABEL_HEIGHT
    return placed


@dataclass(frozen=True, slots=True, kw_only=True)
class PairGrid:
    """A cell for every start that both arms began at, in the order of the episodes.

    Attributes
    ----------
    width, height : int
        In pixels.
    columns : int
        Cells in a row.
    paths : mapping
        The marks of each of `PAIR_KINDS`.
    """

    width: int
    height: int
    columns: int
    paths: Mapping[str, str]


def pair_kinds(oracle: BoolArray, learned: BoolArray) -> list[str]:
    """Return which of `PAIR_KINDS` each pair of outcomes [N] is."""
    return [
        PAIR_KINDS[2 * (not with_oracle) + (not with_learned)]
        for with_oracle, with_learned in zip(oracle.tolist(), learned.tolist(), strict=True)
    ]


def pair_grid(kinds: Sequence[str]) -> PairGrid:
    """Return the grid of these pairs."""
    columns = _SHORT_ROW if len(kinds) <= _MOST_IN_SHORT_ROWS else _LONG_ROW
    paths: dict[str, list[str]] = {kind: [] for kind in PAIR_KINDS}
    for place, kind in enumerate(kinds):
        row, column = divmod(place, columns)
        x, y, strokes = MARKS[kind]
        paths[kind].append(f"M{column * CELL + x} {row * CELL + y}{strokes}")
    return PairGrid(
        width=columns * CELL,
        height=math.ceil(len(kinds) / columns) * CELL,
        columns=columns,
        paths={kind: "".join(path) for kind, path in paths.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One quantity over several sessions, with its intervals.

    Attributes
    ----------
    axis : Axis
        Of the quantity, upwards.
    line, whiskers : str
        Paths through the estimates, and along the intervals.
    dots, hollow : str
        Paths that stop at every estimate, and at those that do not quite belong to the others.
    """

    axis: Axis
    line: str
    whiskers: str
    dots: str
    hollow: str

    @classmethod
    def of(cls, intervals: Sequence[Interval], axis: Axis, *, is_hollow: Sequence[bool]) -> Trend:
        """Draw the intervals from left to right."""
        stride = PLOT_WIDTH / len(intervals)
        points, whiskers = [], []
        for place, interval in enumerate(intervals):
            x = round((place + 0.5) * stride, 1)
            low, y, high = (
                round(axis.length - axis.at(value), 1)
                for value in (interval.low, interval.estimate, interval.high)
            )
            points.append(f"{x:g} {y:g}")
            whiskers.append(f"M{x:g} {low:g}V{high:g}")
        return cls(
            axis=axis,
            line="M" + "L".join(points),
            whiskers="".join(whiskers),
            dots=_stops(points),
            hollow=_stops(compress(points, is_hollow)),
        )


def _stops(points: Iterable[str]) -> str:
    """Return strokes of no length: a round cap makes a dot of each."""
    return "".join(f"M{point}h0" for point in points)


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

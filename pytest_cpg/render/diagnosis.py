"""Diagnosis: why a result is as it is, as lines of a terminal and as figures of a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_cpg.gates.card import Cause
from pytest_cpg.gates.diagnosis import Profile
from pytest_cpg.render.figures import PLOT_HEIGHT, PLOT_WIDTH, Axis

_WIDTH = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A figure of two axes.

    Attributes
    ----------
    title : str
    axis : Axis
        Upwards.
    marks : tuple of (str, str)
        Classes and paths, from the upper left corner of the plot.
    ends : tuple of (str, str)
        What stands below its left end and its right one.
    """

    title: str
    axis: Axis
    marks: tuple[tuple[str, str], ...]
    ends: tuple[str, str]


def cause_lines(cause: Cause) -> list[str]:
    """Return at most 12 lines of at most 80 columns, unless two causes, or readings, are named."""
    lines = [f"  {cause.heading} ({cause.source})"]
    for name, numbers, text in cause.measures:
        if name in cause.main:
            told = f"{numbers:22s} {text}" if numbers else text
            lines += _wrapped(told, f"    {name:11s}", " " * 15)
    return [*lines, *_wrapped(cause.text, "    ", "    ")]


def plots(profile: Profile) -> tuple[Plot, ...]:
    """Return the figures that there is something to draw of."""
    return tuple(_plots(profile))


def _plots(profile: Profile) -> Iterator[Plot]:
    steps = ("after 1 step", "{} steps")
    if len(profile.open_loop) > 1:
        yield _line(
            "Error of the score along the oracle's plans, as a multiple of how far plans spread",
            profile.open_loop,
            (steps[0], steps[1].format(len(profile.open_loop))),
        )
    if len(profile.ranking) > 1:
        yield _line(
            "Ranking of plans by the model, Kendall tau (0 is chance)",
            profile.ranking,
            (steps[0], steps[1].format(len(profile.ranking))),
        )
    if profile.bins:
        yield _histogram(profile)
    if profile.predicted:
        yield _scatter(profile)


def _line(title: str, values: Sequence[float], ends: tuple[str, str]) -> Plot:
    axis = _upwards(values)
    stride = PLOT_WIDTH / (len(values) - 1)
    points = (
        f"{round(place * stride, 1):g} {_height(axis, value):g}"
        for place, value in enumerate(values)
    )
    return Plot(title=title, axis=axis, marks=(("learned", "M" + "L".join(points)),), ends=ends)


def _histogram(profile: Profile) -> Plot:
    """Draw shares as stairs, and the threshold as a line."""
    axis = _upwards((*profile.trained, *profile.planned))
    last = profile.bins[-1]
    marks = [("margin", f"M{round(PLOT_WIDTH / last, 1):g} 0V{PLOT_HEIGHT}")]
    for kind, shares in (("oracle", profile.trained), ("learned", profile.planned)):
        path = [f"M0 {PLOT_HEIGHT}"]
        for edge, share in zip(profile.bins[1:], shares, strict=True):
            path.append(f"V{_height(axis, share):g}H{round(edge / last * PLOT_WIDTH, 1):g}")
        marks.append((kind, "".join([*path, f"V{PLOT_HEIGHT}"])))
    return Plot(
        title="Distance to the training data: planned states (thick), training states (thin)",
        axis=axis,
        marks=tuple(marks),
        ends=("0", f"{last:g} thresholds or more"),
    )


def _scatter(profile: Profile) -> Plot:
    """Draw what plans come to over what they promise, on one scale."""
    both = (*profile.predicted, *profile.actual)
    axis = _upwards(both)
    across = Axis(low=axis.low, high=axis.high, length=PLOT_WIDTH, ticks=axis.ticks)
    dots = "".join(
        f"M{across.at(promised):g} {_height(axis, kept):g}h0"
        for promised, kept in zip(profile.predicted, profile.actual, strict=True)
    )
    return Plot(
        title="What chosen plans come to (upwards), over what they promise; kept on the line",
        axis=axis,
        marks=(("rule", f"M0 {PLOT_HEIGHT}L{PLOT_WIDTH} 0"), ("dots", dots)),
        ends=(f"{axis.low:.3g}", f"score {axis.high:.3g}"),
    )


def _upwards(values: Sequence[float]) -> Axis:
    """Return a scale that begins at zero, if nothing lies below."""
    axis = Axis.around(values, length=PLOT_HEIGHT)
    if min(values) < 0:
        return axis
    ticks = tuple(tick for tick in axis.ticks if tick >= 0)
    return Axis(low=0.0, high=axis.high, length=PLOT_HEIGHT, ticks=ticks)


def _height(axis: Axis, value: float) -> float:
    return round(PLOT_HEIGHT - axis.at(value), 1)


def _wrapped(text: str, lead: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=lead, subsequent_indent=indent, break_on_hyphens=False
    )

"""Film strip: where the pictures of a lost episode stand, each at its step on one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pytest_cpg.gates.strip import Reel, Strip
from pytest_cpg.render.axis import Axis

# Of a frame as it is defined once, and drawn in every layout.
FRAME_WIDTH, FRAME_HEIGHT = 112, 84
# Room above the frames of an arm for its name, between two arms, and below them for the axis.
_NAME, _BETWEEN, _AXIS = 22, 14, 40
# Frames stand so far apart at least, in pixels.
_GAP = 4


class Placed(NamedTuple):
    """A frame in a layout: which one of its arm, and its left edge."""

    number: int
    x: float


class Lane(NamedTuple):
    """One arm in a layout: the top of its frames, and the frames that have room."""

    reel: Reel
    number: int
    top: float
    frames: tuple[Placed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A strip as wide as a page, or as a telephone.

    Attributes
    ----------
    scale : float
        Of a frame.
    ticks : tuple of (float, str)
    """

    name: str
    width: int
    height: float
    foot: float
    scale: float
    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FilmStrip:
    """A strip in both layouts, and what is said of it."""

    strip: Strip
    layouts: tuple[Layout, ...]
    axis: str
    said: str


def film_strip(strip: Strip) -> FilmStrip:
    """Return where the pictures of a strip stand."""
    unit = f"step, {strip.period:g} s each" if strip.period else "step"
    return FilmStrip(
        strip=strip,
        layouts=(
            _layout(strip, name="broad", width=1120, scale=1.0),
            _layout(strip, name="narrow", width=358, scale=0.67),
        ),
        axis=unit,
        said="; ".join(f"{one.arm} {one.ending}" for one in strip.reels),
    )


def _layout(strip: Strip, *, name: str, width: int, scale: float) -> Layout:
    wide, high = FRAME_WIDTH * scale, FRAME_HEIGHT * scale
    last = max(reel.frames[-1][0] for reel in strip.reels if reel.frames)
    axis = Axis.across(0, last, length=round(width - wide))
    lanes = tuple(
        Lane(reel, number, _NAME + number * (_NAME + high + _BETWEEN), _placed(reel, axis, wide))
        for number, reel in enumerate(strip.reels)
    )
    foot = lanes[-1].top + high + 8
    return Layout(
        name=name,
        width=width,
        height=foot + _AXIS,
        foot=foot,
        scale=scale,
        lanes=lanes,
        ticks=tuple((axis.at(tick), f"{tick:g}") for tick in axis.ticks),
    )


def _placed(reel: Reel, axis: Axis, wide: float) -> tuple[Placed, ...]:
    """Return the frames that stand clear of each other, the last one in any case."""
    *others, end = (Placed(at, axis.at(step)) for at, (step, _) in enumerate(reel.frames))
    placed: list[Placed] = []
    for one in others:
        is_clear = not placed or one.x - placed[-1].x >= wide + _GAP
        if is_clear and end.x - one.x >= wide + _GAP:
            placed.append(one)
    return (*placed, end)

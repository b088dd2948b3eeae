"""Axis: a scale that a figure is drawn on, and the bars of effects on the one that all share."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_cpg.gates.card import Effect
from pytest_cpg.stats import Interval

_MOST_TICKS = 5
FOREST_WIDTH = 200
# Of an interval beside a row of numbers.
SPAN_WIDTH = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A scale from ``low`` to ``high``, ``length`` pixels long, labelled at its ``ticks``."""

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
        step = _round_step(rough)
        below, above = max(1, math.ceil(-least / step)), max(1, math.ceil(most / step))
        ticks = tuple(number * step for number in range(-below, above + 1))
        return cls(low=ticks[0], high=ticks[-1], length=length, ticks=ticks)

    @classmethod
    def upward(cls, values: Sequence[float], *, length: int) -> Axis:
        """Return `around`, or a scale that begins at zero where nothing lies below."""
        axis = cls.around(values, length=length)
        if min(values, default=0) < 0:
            return axis
        ticks = tuple(tick for tick in axis.ticks if tick >= 0)
        return cls(low=0.0, high=axis.high, length=length, ticks=ticks)

    @classmethod
    def between(cls, low: float, high: float, *, length: int) -> Axis:
        """Return a scale from one number to another, labelled at both and between them."""
        high = high if high > low else low + 1
        return cls(low=low, high=high, length=length, ticks=(low, low / 2 + high / 2, high))

    @classmethod
    def across(cls, low: float, high: float, *, length: int) -> Axis:
        """Return a scale from one number to another, labelled in round steps."""
        # Nearer to each other than that, they have hardly a number between them.
        high = high if high - low > 1e-9 * abs(low) else low + max(1.0, abs(low))
        step = _round_step(high / _MOST_TICKS - low / _MOST_TICKS)
        first, last = math.ceil(low / step), math.floor(high / step)
        ticks = tuple(number * step for number in range(first, last + 1))
        # Between two of the smallest numbers there is none that is round.
        return cls(low=low, high=high, length=length, ticks=ticks or (low, high))

    def at(self, value: float) -> float:
        """Return the pixel of a value, to a tenth."""
        # Halved, which loses no digit, as the length of a long scale may be infinite.
        low, high = self.low / 2, self.high / 2
        return round((value / 2 - low) / (high - low) * self.length, 1)

    def height(self, value: float) -> float:
        """Return how far below the upper end of an upward scale a value is, in pixels."""
        return round(self.length - self.at(value), 1)


def _round_step(rough: float) -> float:
    """Return the next larger number that is 1, 2 or 5 in its decade."""
    if rough < sys.float_info.min:  # nothing to see, and no decade below it
        return 1.0
    decade = 10.0 ** math.floor(math.log10(rough))
    return next(decade * nice for nice in (1, 2, 5, 10) if decade * nice >= rough)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An effect on an axis: the pixel of its estimate, and paths; without a margin that is empty.

    One that is no share is drawn on a scale of its own.
    """

    at: float
    span: str
    margin: str = ""
    is_own: bool = False


def effect_axis(effects: Iterable[Effect]) -> Axis:
    """Return the scale that all effects share which are shares; from 0 on if none can be below."""
    effects = tuple(effects)
    ends = [
        end
        for effect in effects
        if effect.is_share
        for end in (effect.found.low, effect.found.estimate, effect.found.high, effect.margin or 0)
    ]
    is_signed = any(effect.is_difference or effect.found.low < 0 for effect in effects)
    return (Axis.around if is_signed else Axis.upward)(ends, length=FOREST_WIDTH)


def bar(effect: Effect, axis: Axis) -> Bar:
    """Draw an effect; what is no share is stretched until it fits the axis."""
    interval, factor = effect.found, 1.0
    if not effect.is_share:
        most = max(interval.high, interval.estimate, effect.margin or 0.0)
        least = min(interval.low, interval.estimate)
        factors = [axis.high / most] if most > 0 else []
        factors += [axis.low / least] if least < 0 else []
        factor = min([*factors, sys.float_info.max])
    ends = (interval.low, interval.estimate, interval.high)
    low, at, high = (axis.at(factor * end) for end in ends)
    margin = "" if effect.margin is None else f"M{axis.at(factor * effect.margin):g} 4V24"
    return Bar(at=at, span=_span(low, high, 14), margin=margin, is_own=not effect.is_share)


def bound_bar(bound: Interval, scale: tuple[float, float]) -> Bar:
    """Draw an interval on a scale; what lies beyond an end stands there."""
    axis = Axis.between(*scale, length=SPAN_WIDTH)
    ends = (bound.low, bound.estimate, bound.high)
    low, at, high = (min(max(axis.at(end), 0.0), SPAN_WIDTH) for end in ends)
    return Bar(at=at, span=_span(low, high, 8))


def _span(low: float, high: float, y: int) -> str:
    return f"M{low:g} {y}H{high:g}M{low:g} {y - 4}v8M{high:g} {y - 4}v8"

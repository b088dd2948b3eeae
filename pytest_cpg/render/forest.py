"""Forest: the effects of all gates on one axis, and the bar of each."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from pytest_cpg.gates.card import Effect
from pytest_cpg.render.axis import Axis
from pytest_cpg.stats import Interval

FOREST_WIDTH = 200
# Of an interval beside a row of numbers.
SPAN_WIDTH = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An effect on an axis: the pixel of its estimate, and paths; without a margin that is empty.

    Attributes
    ----------
    is_own : bool
        Whether it is no share, and drawn on a scale of its own.
    """

    at: float
    span: str
    margin: str = ""
    is_own: bool = False


def effect_axis(effects: Iterable[Effect]) -> Axis:
    """Return the scale that all effects share which are shares."""
    ends = (
        (effect.found.low, effect.found.estimate, effect.found.high, effect.margin or 0.0)
        for effect in effects
        if effect.is_share
    )
    return Axis.around(chain.from_iterable(ends), length=FOREST_WIDTH)


def bar(effect: Effect, axis: Axis) -> Bar:
    """Draw an effect; what is no share is stretched until it fits the axis."""
    factor, found = 1.0 if effect.is_share else _factor(effect, axis), effect.found
    low, at, high = (axis.at(factor * end) for end in (found.low, found.estimate, found.high))
    margin = ""
    if effect.margin is not None:
        margin = f"M{axis.at(factor * effect.margin):g} 4V24"
    return Bar(at=at, span=_span(low, high, 14), margin=margin, is_own=not effect.is_share)


def bound_bar(bound: Interval, scale: tuple[float, float]) -> Bar:
    """Draw an interval on a scale; what lies beyond an end stands there."""
    axis = Axis.between(*scale, length=SPAN_WIDTH)
    ends = (bound.low, bound.estimate, bound.high)
    low, at, high = (min(max(axis.at(end), 0.0), SPAN_WIDTH) for end in ends)
    return Bar(at=at, span=_span(low, high, 8))


def _span(low: float, high: float, y: int) -> str:
    return f"M{low:g} {y}H{high:g}M{low:g} {y - 4}v8M{high:g} {y - 4}v8"


def _factor(effect: Effect, axis: Axis) -> float:
    found = effect.found
    most = max(found.high, found.estimate, effect.margin or 0.0)
    least = min(found.low, found.estimate)
    factors = [axis.high / most] if most > 0 else []
    factors += [axis.low / least] if least < 0 else []
    return min([*factors, sys.float_info.max])


def effect_text(effect: Effect) -> str:
    """Return an effect and its interval, a share to two decimals and all else to three digits."""
    sign, digits = "+" * effect.is_difference, ".2f" if effect.is_share else ".3g"
    found, form = effect.found, f"{{:{sign}{digits}}}"
    estimate, low, high = map(form.format, (found.estimate, found.low, found.high))
    return f"{estimate} [{low}, {high}]"

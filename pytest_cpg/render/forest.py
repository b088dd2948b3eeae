"""Forest: the effects of all gates on one axis, and the bar of each."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from pytest_cpg.gates.card import Effect
from pytest_cpg.render.axis import Axis

FOREST_WIDTH = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An effect on an axis.

    Attributes
    ----------
    span, point, margin : str
        Paths; the margin's is empty where there is none.
    """

    at: float
    span: str
    point: str
    margin: str


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
        margin = f"M{axis.at(factor * effect.margin):g} 0V16"
    return Bar(
        at=at,
        span=f"M{low:g} 8H{high:g}M{low:g} 5v6M{high:g} 5v6",
        point=f"M{at:g} 4l4 4-4 4-4-4z",
        margin=margin,
    )


def _factor(effect: Effect, axis: Axis) -> float:
    found = effect.found
    most = max(found.high, found.estimate, effect.margin or 0.0)
    least = min(found.low, found.estimate)
    factors = [axis.high / most] if most > 0 else []
    factors += [axis.low / least] if least < 0 else []
    return min([*factors, sys.float_info.max])


def effect_text(effect: Effect) -> str:
    """Return an effect and its interval, a share to two decimals and all else to three digits."""
    form, found = "{:+.2f}" if effect.is_share else "{:+.3g}", effect.found
    estimate, low, high = map(form.format, (found.estimate, found.low, found.high))
    return f"{estimate} [{low},{high}]"

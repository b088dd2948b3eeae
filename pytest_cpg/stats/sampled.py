"""Sampled quantities: an estimate with its uncertainty, read as an interval or as a p-value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pytest_cpg.stats.intervals import (
    FloatArray,
    Interval,
    check_fraction,
    critical_value,
    student_critical_value,
    upper_tail,
)

FEWEST_RESAMPLES = 100
"""Percentiles of fewer say too little of an interval's ends."""


class Sampled(Protocol):
    """A quantity that was estimated from a sample."""

    @property
    def estimate(self) -> float:
        """The value in the sample."""

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval at a level in (0, 1)."""

    def p_above(self, bound: float) -> float:
        """Return the one-sided p-value against the claim that the quantity is at most ``bound``.

        It is below ``(1 - level) / 2`` where the interval of that level lies above the bound.
        """

    def p_below(self, bound: float) -> float:
        """Return the one-sided p-value against the claim that the quantity is at least it."""


class _Tested:
    """Both one-sided p-values by one rule."""

    __slots__ = ()

    def p_above(self, bound: float) -> float:
        """Return the p-value against ``bound`` or less; see `Sampled`."""
        return self._p(bound, above=True)

    def p_below(self, bound: float) -> float:
        """Return the p-value against ``bound`` or more; see `Sampled`."""
        return self._p(bound, above=False)

    def _p(self, bound: float, *, above: bool) -> float:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(_Tested):
    """A share by Wilson's score interval (JASA 22:209-212, 1927), or by Jeffreys'.

    As many independent answers as its effective ``size``, above 0, would vary as much; where that
    is itself estimated, with ``freedom``, Student's t takes the place of z. One that ``is_rare``
    has Jeffreys' bounds: each by itself is nearer to its nominal error where a share is near 0,
    which Wilson's upper ends are too far above (Cai, J. Stat. Plan. Inference 131:63-88, 2005).
    """

    estimate: float
    size: float
    freedom: int | None = None
    is_rare: bool = False

    def interval(self, level: float = 0.95) -> Interval:
        """Return Wilson's interval, or Jeffreys'."""
        z, p = _quantile(level, self.freedom), self.estimate
        low, high = self._jeffreys(z) if self.is_rare else self._wilson(z)
        return Interval(
            estimate=p,
            # As in `wilson_interval`, which rounds the edges no better.
            low=0.0 if p == 0 else max(0.0, low),
            high=1.0 if p == 1 else min(1.0, high),
            level=float(level),
            method=f"{'Jeffreys' if self.is_rare else 'Wilson 1927'}, effective size",
        )

    def _wilson(self, z: float) -> tuple[float, float]:
        p, n = self.estimate, self.size
        centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z * math.sqrt(p * (1 - p) / n + (z / (2 * n)) ** 2) / (1 + z**2 / n)
        return centre - half, centre + half

    def _jeffreys(self, z: float) -> tuple[float, float]:
        from scipy.special import betaincinv

        tail = upper_tail(z)
        low, high = (float(betaincinv(*self._posterior, chance)) for chance in (tail, 1 - tail))
        return low, high

    @property
    def _posterior(self) -> tuple[float, float]:
        """The parameters of the beta distribution that Jeffreys' prior becomes."""
        return self.estimate * self.size + 0.5, (1 - self.estimate) * self.size + 0.5

    def _p(self, bound: float, *, above: bool) -> float:
        if self.is_rare:
            from scipy.special import betainc, ndtri

            a, b = self._posterior
            tail = betainc(a, b, bound) if above else betainc(b, a, 1 - bound)
            return _tail(-float(ndtri(tail)), self.freedom)
        lead = self.estimate - bound if above else bound - self.estimate
        spread = math.sqrt(max(0.0, bound * (1 - bound)) / self.size)
        return _tail(_ratio(lead, spread), self.freedom)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(_Tested):
    """A quantity in [low, high] that is about Student's on some scale, by its standard error.

    The scale is ``"plain"``; ``"log"``, of quantities above 0; or ``"logit"``, of those in (0, 1).
    """

    estimate: float
    error: float
    freedom: int
    scale: str
    low: float = -math.inf
    high: float = math.inf

    def interval(self, level: float = 0.95) -> Interval:
        """Return Student's interval on the scale, taken back."""
        half = student_critical_value(level, freedom=self.freedom) * self._scaled_error
        centre = self._to(self.estimate)
        return Interval(
            estimate=self.estimate,
            low=max(self.low, self._back(centre - half)),
            high=min(self.high, self._back(centre + half)),
            level=float(level),
            method=f"bootstrap error, Student's t on the {self.scale} scale",
        )

    def _p(self, bound: float, *, above: bool) -> float:
        lead = self._to(self.estimate) - self._to(bound)
        return _tail(_ratio(lead if above else -lead, self._scaled_error), self.freedom)

    @property
    def _scaled_error(self) -> float:
        x = self.estimate
        slope = {"plain": 1.0, "log": x, "logit": x * (1 - x)}[self.scale]
        return self.error / slope

    def _to(self, x: float) -> float:
        if self.scale == "plain":
            return x
        odds = x if self.scale == "log" else x / (1 - x) if x < 1 else math.inf
        return math.log(odds) if odds > 0 else -math.inf

    def _back(self, y: float) -> float:
        if self.scale == "plain":
            return y
        if self.scale == "log":
            return math.exp(min(y, 700.0))
        return 1 / (1 + math.exp(min(-y, 700.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjusted(_Tested):
    """A change of a share by an adjusted Wald interval about a centre nearer to 0, in [-1, 1]."""

    estimate: float
    centre: float
    error: float
    freedom: int | None = None
    method: str = "Bonett-Price 2012, effective size"

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval about the centre."""
        half = _quantile(level, self.freedom) * self.error
        return Interval(
            estimate=self.estimate,
            low=max(-1.0, self.centre - half),
            high=min(1.0, self.centre + half),
            level=float(level),
            method=self.method,
        )

    def _p(self, bound: float, *, above: bool) -> float:
        lead = self.centre - bound if above else bound - self.centre
        return _tail(lead / self.error, self.freedom)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Percentile(_Tested):
    """A quantity by the percentiles of its resamples (Efron and Tibshirani 1993, chapter 13).

    Attributes
    ----------
    resamples : array [R]
        Its value in each, of 100 or more.
    """

    estimate: float
    resamples: FloatArray

    def __post_init__(self) -> None:
        shape = np.shape(self.resamples)
        if len(shape) != 1 or shape[0] < FEWEST_RESAMPLES:
            raise ValueError(
                f"need an array of at least {FEWEST_RESAMPLES} resamples, got the shape {shape}"
            )

    def interval(self, level: float = 0.95) -> Interval:
        """Return the percentile interval."""
        tail = (1 - check_fraction("a level", level, such_as=0.95)) / 2
        low, high = np.quantile(self.resamples, [tail, 1 - tail])
        return Interval(
            estimate=self.estimate,
            # A statistic that is at its largest in the sample is smaller in most resamples.
            low=min(float(low), self.estimate),
            high=max(float(high), self.estimate),
            level=float(level),
            method="percentile bootstrap",
        )

    def _p(self, bound: float, *, above: bool) -> float:
        """Return the share of resamples, the sample among them, that are not beyond."""
        contrary = self.resamples <= bound if above else self.resamples >= bound
        return (1 + int(contrary.sum())) / (1 + len(contrary))


def _quantile(level: float, freedom: int | None) -> float:
    return (
        critical_value(level) if freedom is None else student_critical_value(level, freedom=freedom)
    )


def _tail(ratio: float, freedom: int | None) -> float:
    if freedom is None:
        return upper_tail(ratio)
    from scipy.special import stdtr

    return float(stdtr(freedom, -ratio))


def _ratio(lead: float, error: float) -> float:
    if error > 0:
        return lead / error
    return math.copysign(math.inf, lead) if lead else 0.0

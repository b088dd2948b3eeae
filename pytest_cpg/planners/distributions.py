"""Distributions over plans: what is drawn, refitted, and handed on to the next plan."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from pytest_cpg.contracts import ActionSpace, BoxActions, FiniteActions, FloatArray, IntArray
from pytest_cpg.planners.search import Rngs

# Of the uniform distribution, in a warm start over a finite set: as a box's deviation begins anew,
# half of the draws do.
_FRESH = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How a distribution over plans begins and what its fits keep; see `CEM` and `draw_noise`.

    Deviations are of a box only, in halves of its width: at first, and below which none falls.
    Where there is a least one, `weigh` moves them too, between the two.
    """

    horizon: int
    smoothing: float = 0.0
    initial_deviation: float = 1.0
    minimum_deviation: float | None = None
    correlation: float = 0.0
    colour: float = 0.0

    @classmethod
    def of(cls, planner: Any, **settings: float) -> Spread:
        """Return what a planner's fields say, and settings that it has under other names."""
        names = (field.name for field in fields(cls))
        own = {name: getattr(planner, name) for name in names if hasattr(planner, name)}
        return cls(**own | settings)

    @property
    def is_white(self) -> bool:
        """Whether the steps of a plan are drawn independently."""
        return not self.correlation and not self.colour


def plan_distribution(
    actions: ActionSpace, spread: Spread, episodes: int, memory: FloatArray | None = None
) -> _Categorical | _Gaussian:
    """Return the distribution that suits the action space, from memory [N, H, ...] if there is."""
    if isinstance(actions, FiniteActions):
        return _Categorical(actions, spread, episodes, memory)
    return _Gaussian(actions, spread, episodes, memory)


def shift(plans: FloatArray, lengths: IntArray, fill: FloatArray) -> FloatArray:
    """Return plans [N, H, ...] without their first ``lengths`` [N] steps, and ``fill`` behind."""
    steps = np.arange(plans.shape[1]) + lengths[:, None]
    is_left = (steps < plans.shape[1]).reshape(*steps.shape, *[1] * (plans.ndim - 2))
    rows = np.arange(len(plans))[:, None]
    left = plans[rows, np.minimum(steps, plans.shape[1] - 1)]
    return np.asarray(np.where(is_left, left, fill))


class _Categorical:
    """Independent categorical distributions over a finite action set, [N, H, M]: one an episode."""

    def __init__(
        self, actions: FiniteActions, spread: Spread, episodes: int, memory: FloatArray | None
    ) -> None:
        count = len(actions.values)
        self._values = actions.values
        self._spread = spread
        self._probabilities = np.full((episodes, spread.horizon, count), 1 / count)
        if memory is not None:
            self._probabilities = (1 - _FRESH) * memory + _FRESH / count

    @property
    def mode(self) -> FloatArray:
        """The most likely actions, [N, H, A]."""
        return np.asarray(self._values[self._probabilities.argmax(axis=-1)])

    def draw(self, rngs: Rngs, count: int) -> FloatArray:
        spread = self._spread
        if spread.is_white:
            unit = np.stack([rng.random((count, spread.horizon)) for rng in rngs])
        else:
            # Loaded where it is needed: most planners draw white noise.
            from scipy.special import ndtr

            noise = draw_noise(
                rngs,
                (count, spread.horizon, 1),
                correlation=spread.correlation,
                colour=spread.colour,
            )
            unit = ndtr(noise[..., 0])
        # Inverse distribution function; its last value is 1 and would only add rounding.
        upper = np.cumsum(self._probabilities, axis=-1)[:, None, :, :-1]
        return np.asarray(self._values[(unit[..., None] >= upper).sum(axis=-1)])

    def fit(self, elites: FloatArray) -> None:
        """Refit to these plans [N, E, H, A]."""
        self._become(self._known(elites).mean(axis=1))

    def weigh(self, plans: FloatArray, weights: FloatArray) -> None:
        """Move to the mean of plans [N, K, H, A] by weights [N, K] of sum 1."""
        self._become((weights[..., None, None] * self._known(plans)).sum(axis=1))

    def shifted(self, lengths: IntArray) -> FloatArray:
        """Return what the next plan begins from, once ``lengths`` [N] are executed: [N, H, ...]."""
        count = self._probabilities.shape[-1]
        return shift(self._probabilities, lengths, np.full(count, 1 / count))

    def _known(self, plans: FloatArray) -> FloatArray:
        """Say which action of the set each step takes [..., H, M]."""
        return np.asarray((plans[..., None, :] == self._values).all(axis=-1))

    def _become(self, frequency: FloatArray) -> None:
        smoothing = self._spread.smoothing
        count = self._probabilities.shape[-1]
        self._probabilities = (1 - smoothing) * frequency + smoothing / count


class _Gaussian:
    """Gaussians clipped to a box, means and deviations [N, H, A]; methods as of `_Categorical`."""

    def __init__(
        self, actions: BoxActions, spread: Spread, episodes: int, memory: FloatArray | None
    ) -> None:
        shape = (episodes, spread.horizon, actions.size)
        self._actions = actions
        self._spread = spread
        self._middle = (actions.low + actions.high) / 2
        # One deviation of 1 reaches both bounds.
        half = (actions.high - actions.low) / 2
        self._least = (spread.minimum_deviation or 0.0) * half
        self._most = spread.initial_deviation * half
        self._means = np.broadcast_to(self._middle, shape).copy() if memory is None else memory
        self._deviations = np.broadcast_to(self._most, shape).copy()

    @property
    def mode(self) -> FloatArray:
        return self._clipped(self._means)

    def draw(self, rngs: Rngs, count: int) -> FloatArray:
        spread = self._spread
        shape = (count, spread.horizon, self._actions.size)
        noise = draw_noise(rngs, shape, correlation=spread.correlation, colour=spread.colour)
        return self._clipped(self._means[:, None] + self._deviations[:, None] * noise)

    def fit(self, elites: FloatArray) -> None:
        smoothing = self._spread.smoothing
        self._means = (1 - smoothing) * elites.mean(axis=1) + smoothing * self._means
        deviations = (1 - smoothing) * elites.std(axis=1) + smoothing * self._deviations
        self._deviations = np.maximum(deviations, self._least)

    def weigh(self, plans: FloatArray, weights: FloatArray) -> None:
        smoothing = self._spread.smoothing
        shares = weights[..., None, None]
        mean = (shares * plans).sum(axis=1)
        self._means = (1 - smoothing) * mean + smoothing * self._means
        if self._spread.minimum_deviation is not None:
            variances = (shares * (plans - mean[:, None]) ** 2).sum(axis=1)
            deviations = (1 - smoothing) * np.sqrt(variances) + smoothing * self._deviations
            self._deviations = np.clip(deviations, self._least, self._most)

    def shifted(self, lengths: IntArray) -> FloatArray:
        return shift(self._means, lengths, self._middle)

    def _clipped(self, plans: FloatArray) -> FloatArray:
        return np.clip(plans, self._actions.low, self._actions.high)


def draw_noise(
    rngs: Rngs, shape: tuple[int, int, int], *, correlation: float = 0.0, colour: float = 0.0
) -> FloatArray:
    """Draw standard normal numbers [N, K, H, A] for plans of ``shape`` (K, H, A).

    Each is of variance 1. Neighbouring steps have a correlation in (-1, 1): an autoregressive
    process of order 1. Or their power spectrum is ``1 / f**colour``: 0 is white, 1 pink, 2 red
    noise.
    """
    if colour:
        return np.stack([_coloured(rng, shape, colour) for rng in rngs])
    noise = np.stack([rng.standard_normal(shape) for rng in rngs])
    if correlation:
        fresh = np.sqrt(1 - correlation**2)
        for step in range(1, shape[1]):
            noise[:, :, step] = correlation * noise[:, :, step - 1] + fresh * noise[:, :, step]
    return noise


def _coloured(rng: np.random.Generator, shape: tuple[int, int, int], colour: float) -> FloatArray:
    """Draw noise [K, H, A] by its spectrum (Timmer and Koenig, A&A 300:707, 1995)."""
    plans, horizon, size = shape
    if horizon == 1:
        return rng.standard_normal(shape)
    frequencies = np.fft.rfftfreq(horizon)
    # No plan is long enough for its mean to have a frequency: it gets that of the slowest wave.
    frequencies[0] = frequencies[1]
    amplitudes = frequencies ** (-colour / 2)
    real, imaginary = rng.standard_normal((2, plans, size, len(frequencies)))
    waves = amplitudes * (real + 1j * imaginary)
    # Mean and, of an even number of steps, fastest wave are real. They enter a step once, the
    # others twice, and their two parts share one variance.
    powers = 4 * amplitudes**2
    powers[0] /= 2
    waves[..., 0] = np.sqrt(2) * waves[..., 0].real
    if horizon % 2 == 0:
        powers[-1] /= 2
        waves[..., -1] = np.sqrt(2) * waves[..., -1].real
    deviation = np.sqrt(powers.sum()) / horizon
    return np.ascontiguousarray(np.swapaxes(np.fft.irfft(waves, n=horizon) / deviation, 1, 2))

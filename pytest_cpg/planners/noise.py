"""Noise: normal numbers along a plan, white, correlated from step to step, or coloured."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_cpg.contracts import FloatArray


def draw_noise(
    rngs: Sequence[np.random.Generator],
    shape: tuple[int, int, int],
    *,
    correlation: float = 0.0,
    colour: float = 0.0,
) -> FloatArray:
    """Draw standard normal numbers [N, K, H, A] for plans of ``shape`` (K, H, A).

    Each is of variance 1, whatever their correlation along the plan.

    Parameters
    ----------
    rngs : N generators
        Each episode's own.
    correlation : float
        Of neighbouring steps, in (-1, 1): an autoregressive process of order 1.
    colour : float
        Exponent of the power spectrum ``1 / f**colour``: 0 is white, 1 pink, 2 red noise.
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

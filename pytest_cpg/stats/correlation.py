"""Rank correlation of an offline metric with planning success, over models."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_cpg.stats.intervals import Interval, critical_value

# Kendall's variance divides by n - 4.
FEWEST_MODELS_TO_CORRELATE = 5


def spearman_interval(metric: ArrayLike, success: ArrayLike, *, level: float = 0.95) -> Interval:
    """Bound Spearman's rank correlation of a metric [M] with the success rate [M] of models.

    Fisher's interval with the variance ``(1 + r**2 / 2) / (n - 3)`` of Bonett and Wright
    (Psychometrika 65:23-28, 2000). At level 0.95 it held the true correlation in 93 to 99 % of the
    simulated runs of 5 to 20 models, where bootstraps over the models fell to 64 % at five.
    """
    from scipy.stats import spearmanr

    x, y = _check_models(metric, success)
    n = len(x)
    estimate = float(spearmanr(x, y).statistic)
    return _fisher_interval(
        estimate,
        variance=(1 + estimate**2 / 2) / (n - 3),
        # One swap of neighbours takes the rank correlation from 1 to 1 - 12 / (n**3 - n).
        largest=1 - 6 / (n**3 - n),
        level=level,
        method="Bonett-Wright 2000",
    )


def kendall_interval(metric: ArrayLike, success: ArrayLike, *, level: float = 0.95) -> Interval:
    """Bound Kendall's tau-b of a metric [M] with the success rate [M] of models.

    Fisher's interval with the variance ``0.437 / (n - 4)`` of Fieller, Hartley and Pearson
    (Biometrika 44:470-481, 1957). At level 0.95 it held the true correlation in 90 to 100 % of the
    simulated runs of 5 to 20 models, least often where it was 0.8.
    """
    from scipy.stats import kendalltau

    x, y = _check_models(metric, success)
    n = len(x)
    return _fisher_interval(
        float(kendalltau(x, y).statistic),
        variance=0.437 / (n - 4),
        # One swap of neighbours takes tau from 1 to 1 - 4 / (n**2 - n).
        largest=1 - 2 / (n**2 - n),
        level=level,
        method="Fieller-Hartley-Pearson 1957",
    )


def _check_models(
    metric: ArrayLike, success: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    columns = []
    for name, values in (("metric", metric), ("success", success)):
        column = np.asarray(values)
        if column.ndim != 1 or column.dtype.kind not in "iuf" or not np.isfinite(column).all():
            raise ValueError(f"need one finite {name} for each model, got {values!r}")
        columns.append(column.astype(float))
    x, y = columns
    if len(x) != len(y):
        raise ValueError(f"need metric and success of the same models, got {len(x)} and {len(y)}")
    if len(x) < FEWEST_MODELS_TO_CORRELATE:
        raise ValueError(f"need at least {FEWEST_MODELS_TO_CORRELATE} models, got {len(x)}")
    for name, column in (("metric", x), ("success", y)):
        if (column == column[0]).all():
            raise ValueError(
                f"need a {name} that differs between models, got {column[0]:g} for all {len(x)}"
            )
    return x, y


def _fisher_interval(
    estimate: float, *, variance: float, largest: float, level: float, method: str
) -> Interval:
    # At perfect order Fisher's transform is infinite, and the interval would be one point however
    # few the models. Half a step below it is the usual continuity correction.
    centre = math.atanh(max(-largest, min(estimate, largest)))
    half = critical_value(level) * math.sqrt(variance)
    if abs(estimate) > 1 - 1e-12:  # scipy's perfect order misses 1 by a rounding error
        estimate = math.copysign(1.0, estimate)
    return Interval(
        estimate=estimate,
        low=min(estimate, math.tanh(centre - half)),
        high=max(estimate, math.tanh(centre + half)),
        level=float(level),
        method=method,
    )

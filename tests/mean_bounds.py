"""Student's interval and Gaffke's of many samples at once.

Each maps samples [G, N] and the score of a harmless episode to bounds [G].
"""

import numpy as np
from scipy import stats

from pytest_cpg.stats.returns import share_below

TAIL = 0.025


def student(samples, tail=TAIL):
    n, means = samples.shape[1], samples.mean(axis=1)
    deviations = np.where(np.ptp(samples, axis=1) == 0, 0.0, samples.std(axis=1, ddof=1))
    half = stats.t.ppf(1 - tail, n - 1) * deviations / np.sqrt(n)
    return means - half, means + half


def gaffke(samples, unseen):
    """Bisect the share of weighted means, in all samples at once."""
    return _gaffke(samples, unseen), -_gaffke(-samples, -unseen)


def _knots(samples, unseen):
    rising = np.sort(samples, axis=1)
    return np.concatenate([np.minimum(rising[:, :1], unseen), rising], axis=1)


def _gaffke(samples, unseen):
    knots = _knots(samples, unseen)
    low, high = knots[:, :1], knots[:, -1:]
    for _ in range(30):
        middle = (low + high) / 2
        is_below = share_below(knots, middle)[:, None] < TAIL
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return ((low + high) / 2)[:, 0]


def wider(samples, unseen):
    (low, high), (lowest, highest) = student(samples), gaffke(samples, unseen)
    return np.minimum(low, lowest), np.maximum(high, highest)


def lies_above(samples, limit, unseen):
    """Say where the wider of both lies above a limit [G], without a bisection."""
    low, _ = student(samples)
    return (low > limit) & (share_below(_knots(samples, unseen), limit) < TAIL)

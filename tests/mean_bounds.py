"""Intervals of the mean of few scores, for many samples at once: what could bound a plan's score.

Each maps samples [G, N] and the score of a harmless episode to bounds [G], at a level of 0.95.
"""

import numpy as np
from scipy import stats

from pytest_cpg.stats.unseen import share_below

TAIL, RESAMPLES = 0.025, 999


def moments(samples):
    """Return size, means, errors of the means and skewness."""
    n = samples.shape[1]
    apart = samples - samples.mean(axis=1, keepdims=True)
    deviations = np.where(np.ptp(samples, axis=1) == 0, 0.0, samples.std(axis=1, ddof=1))
    with np.errstate(all="ignore"):
        skewness = (apart**3).mean(axis=1) / (apart**2).mean(axis=1) ** 1.5
    skewness = np.where(deviations > 0, skewness, 0.0)
    return n, samples.mean(axis=1), deviations / np.sqrt(n), skewness


def student(samples, unseen=0.0):
    n, means, errors, _ = moments(samples)
    half = stats.t.ppf(1 - TAIL, n - 1) * errors
    return means - half, means + half


def johnson(samples, unseen):
    n, _, errors, skewness = moments(samples)
    low, high = student(samples)
    shift = errors * skewness / (6 * np.sqrt(n))
    return low + shift, high + shift


def hall(samples, unseen):
    """Invert the monotone cubic that removes the skewness of Student's t."""
    n, means, errors, skewness = moments(samples)
    ends = []
    for t in stats.t.ppf([1 - TAIL, TAIL], n - 1):
        with np.errstate(all="ignore"):
            root = np.cbrt(1 + skewness * (t / np.sqrt(n) - skewness / (6 * n)))
            scaled = np.sqrt(n) * 3 / skewness * (root - 1)
        ends.append(means - errors * np.where(np.abs(skewness) < 1e-8, t, scaled))
    return ends


def bootstrap_t(samples, unseen):
    n, means, errors, _ = moments(samples)
    places = np.random.default_rng(0).integers(n, size=(RESAMPLES, n))
    low, high = np.empty_like(means), np.empty_like(means)
    for row, sample in enumerate(samples):
        _, centres, spreads, _ = moments(sample[places])
        with np.errstate(all="ignore"):
            t = np.sort(np.nan_to_num((centres - means[row]) / spreads, nan=0.0, posinf=1e9))
        last, first = t[round(1000 * (1 - TAIL)) - 1], t[round(1000 * TAIL) - 1]
        low[row], high[row] = means[row] - last * errors[row], means[row] - first * errors[row]
    return low, high


def bca(samples, unseen):
    found = stats.bootstrap(
        (samples,),
        np.mean,
        axis=1,
        n_resamples=RESAMPLES,
        batch=100,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return np.nan_to_num(found.low, nan=-1.0), np.nan_to_num(found.high, nan=1.0)


def maurer_pontil(samples, unseen):
    n, means, errors, _ = moments(samples)
    logarithm = np.log(2 / TAIL)
    half = np.sqrt(2 * logarithm) * errors + 7 * 2 * logarithm / (3 * (n - 1))
    return means - half, means + half


def betting(samples, unseen):
    """Bet the predictable plug-in against each mean of a grid."""
    return -_bet(-samples), _bet(samples)


def _bet(samples):
    """Return the least mean that betting on lower ones has refuted."""
    scores, n = (samples + 1) / 2, samples.shape[1]
    counts = np.arange(2, n + 2)
    means = (0.5 + scores.cumsum(axis=1)) / counts
    spreads = (0.25 + ((scores - means) ** 2).cumsum(axis=1)) / counts
    spreads = np.insert(spreads[:, :-1], 0, 0.25, axis=1)
    bets = np.sqrt(2 * np.log(1 / TAIL) / (n * spreads))
    high = np.ones(len(samples))
    for mean in np.linspace(0.9975, 0.0025, 400):
        stake = np.minimum(bets, 0.75 / (1 - mean))
        is_refuted = np.log1p(-stake * (scores - mean)).sum(axis=1) >= np.log(1 / TAIL)
        high = np.where(is_refuted, np.minimum(high, mean), high)
    return 2 * high - 1


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


METHODS = {
    "Student": student,
    "Johnson": johnson,
    "Hall": hall,
    "bootstrap-t": bootstrap_t,
    "BCa": bca,
    "betting": betting,
    "Maurer-Pontil": maurer_pontil,
    "Gaffke, -1 unseen": lambda samples, unseen: (
        _gaffke(samples, -1.0),
        -_gaffke(-samples, -1.0),
    ),
    "Gaffke, 0 unseen": gaffke,
    "Student or Gaffke": wider,
}

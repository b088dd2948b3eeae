"""Exact operating characteristics: every outcome is enumerated, nothing is simulated."""

import numpy as np
import pytest

from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.power import episodes_to_settle

pytestmark = pytest.mark.slow

RATES = np.linspace(0, 1, 101)
INNER = slice(5, -5)  # rates from 0.05 to 0.95


def outcomes(n, rates):
    """Return the binomial probabilities [rate, successes]."""
    binom = pytest.importorskip("scipy.stats").binom
    return binom.pmf(np.arange(n + 1), n, np.asarray(rates)[:, None])


def agresti_caffo_table(n, level=0.95):
    """Return the bounds [oracle successes, learned successes] as two arrays."""
    table = [
        [agresti_caffo_interval(s, n, t, n, level=level) for t in range(n + 1)]
        for s in range(n + 1)
    ]
    low = np.array([[ci.low for ci in row] for row in table])
    high = np.array([[ci.high for ci in row] for row in table])
    return low, high


@pytest.mark.parametrize("n", [10, 20, 50])
def test_agresti_caffo_covers_the_gap_of_independent_arms(n):
    low, high = agresti_caffo_table(n)
    chances = outcomes(n, RATES)
    coverage = np.empty((len(RATES), len(RATES)))
    for i, oracle in enumerate(RATES):
        for j, learned in enumerate(RATES):
            gap = oracle - learned
            coverage[i, j] = chances[i] @ ((low <= gap) & (gap <= high)) @ chances[j]
    assert coverage.min() > 0.90
    assert coverage[INNER, INNER].min() > 0.925
    assert 0.95 < coverage[1:-1, 1:-1].mean() < 0.96


@pytest.mark.parametrize("n", [10, 20, 50])
def test_agresti_caffo_false_alarms_stay_near_the_nominal_share(n):
    low, _ = agresti_caffo_table(n)
    chances = outcomes(n, RATES)
    alarms = chances @ (low > 0) @ chances.T
    equal = np.diag(alarms)
    assert equal.max() < 0.03
    # Among oracles that are no better than the model, equal rates raise the most alarms.
    assert (np.triu(alarms) <= equal[:, None] + 1e-12).all()


@pytest.mark.parametrize(
    "counts", [(3, 10, 0, 10), (47, 50, 43, 50), (9, 10, 7, 10), (10, 10, 8, 10), (2, 20, 0, 20)]
)
def test_about_half_of_the_runs_of_the_promised_size_are_resolved(counts):
    s, n, t, m = counts
    size = episodes_to_settle(*counts)
    low, _ = agresti_caffo_table(size)
    oracle, learned = outcomes(size, [s / n, t / m])
    assert 0.4 < oracle @ (low > 0) @ learned < 0.65

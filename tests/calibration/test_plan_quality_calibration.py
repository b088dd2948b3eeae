"""How often the interval of a plan's score in a stochastic environment holds it: 10 s."""

import numpy as np
import pytest

from pytest_cpg.gates.plan_quality.agents import _interval

pytestmark = pytest.mark.slow
RUNS, NEIGHBOURS = 1000, 24


def coverage(draw, rollouts, seed=0):
    """Return how often the interval of rollouts [R, 1 + K] holds the score of their true means."""
    rng, held = np.random.default_rng(seed), 0
    for _ in range(RUNS):
        means, table = draw(rng, rollouts)
        found = _interval(table, 0.95)
        span = np.ptp(means[1:])
        score = (means[0] - means[1:].min()) / span
        held += found is None or found.low <= score <= found.high
    return held / RUNS


def normal(rng, rollouts):
    means = rng.standard_normal(1 + NEIGHBOURS)
    return means, means + rng.standard_normal((rollouts, 1 + NEIGHBOURS))


def tied(rng, rollouts):
    """Plans that succeed with one of three chances, most of them with the best one."""
    means = rng.choice([0.2, 0.5, 0.8, 0.8, 0.8], 1 + NEIGHBOURS)
    means[1:3] = 0.2, 0.8
    return means, (rng.random((rollouts, 1 + NEIGHBOURS)) < means).astype(float)


@pytest.mark.parametrize("rollouts", [16, 64, 256])
def test_intervals_of_scores_hold_them(rollouts):
    assert coverage(normal, rollouts) == pytest.approx(0.96, abs=0.025)


@pytest.mark.parametrize("rollouts", [64, 256])
def test_neighbours_that_tie_for_the_best_shorten_the_interval(rollouts):
    """As the documentation says: whoever is best by chance is taken for better than it is."""
    assert coverage(tied, rollouts) == pytest.approx(0.85, abs=0.04)

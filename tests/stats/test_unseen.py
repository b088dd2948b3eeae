"""Means of scores with Gaffke's bound beside Student's interval, against exact arithmetic."""

from fractions import Fraction
from math import nan, prod

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_cpg.stats.returns import mean_interval, mean_p_value, paired_mean_interval, share_below

SCORES = st.lists(st.floats(-1, 1, allow_subnormal=False).map(lambda x: round(x, 6)), min_size=2)
LEVELS = st.floats(0.5, 0.999)


def exactly_below(scores, mean):
    """Return the share by the formula of divided differences, in fractions; no two are equal."""
    known, mean = [Fraction(one) for one in scores], Fraction(mean)
    return sum(
        (mean - one) ** (len(known) - 1) / prod(other - one for other in known if other != one)
        for one in known
        if one < mean
    )


@pytest.mark.parametrize("n", [2, 3, 8, 40])
def test_the_share_of_weighted_means_is_that_of_exact_arithmetic(n):
    rng = np.random.default_rng(n)
    for _ in range(5):
        knots = np.sort(rng.uniform(-1, 1, n))
        mean = rng.uniform(*np.quantile(knots, [0.2, 0.8]))
        assert share_below(knots, mean) == pytest.approx(
            float(exactly_below(knots, mean)), rel=1e-12
        )


def test_the_share_of_weighted_means_is_that_of_drawn_weights():
    stats = pytest.importorskip("scipy.stats")
    knots = np.sort(np.append(np.random.default_rng(0).random(9), [0.25, 0.25]))
    weights = stats.dirichlet(np.ones(len(knots))).rvs(40_000, random_state=1)
    assert share_below(knots, 0.4) == pytest.approx((weights @ knots <= 0.4).mean(), abs=0.01)


@pytest.mark.parametrize(("solved", "n"), [(0, 5), (3, 10), (10, 10), (37, 60)])
def test_of_zeros_and_ones_the_bounds_are_at_least_those_of_clopper_and_pearson(solved, n):
    stats = pytest.importorskip("scipy.stats")
    scores = np.arange(n) < solved
    exact = stats.binomtest(solved, n).proportion_ci(method="exact")
    student = paired_mean_interval(scores.astype(float), np.zeros(n))
    low, high = (mean_interval(scores.astype(float), unseen=end) for end in (0, 1))
    assert low.low == pytest.approx(min(exact.low, student.low), abs=1e-9)
    assert high.high == pytest.approx(max(exact.high, student.high), abs=1e-9)


@given(SCORES, st.sampled_from([0.0, 1.0]), LEVELS)
def test_it_is_mirrored_with_its_scores(scores, unseen, level):
    found = mean_interval(scores, unseen=unseen, level=level)
    mirrored = mean_interval(np.negative(scores), unseen=-unseen, level=level)
    assert (-mirrored.high, -mirrored.low) == (found.low, found.high)


@given(SCORES, st.sampled_from([0.0, 1.0]), LEVELS, st.floats(-1, 1))
@example([0.0] * 15 + [0.99999, -1.0], 0.0, 0.5, 0.8845188284518829)
def test_the_p_value_is_below_alpha_where_the_interval_lies_above_the_limit(
    scores, unseen, level, limit
):
    found = mean_interval(scores, unseen=unseen, level=level)
    p, alpha = mean_p_value(scores, limit=limit, unseen=unseen), (1 - level) / 2
    assert 0 < p <= 1
    if abs(found.low - limit) > 1e-9:
        assert (p < alpha) == (found.low > limit)


def test_equal_scores_leave_open_what_was_not_seen_and_nothing_else():
    found = mean_interval([0.5, 0.5, 0.5], unseen=0)
    # The chance that three more weigh so little.
    assert (found.low, found.high) == (pytest.approx(0.5 * 0.025 ** (1 / 3)), 0.5)
    found = mean_interval([0, 0, 0], unseen=0)
    assert (found.low, found.high) == (0, 0)


@pytest.mark.parametrize("scores", [[], [0.5], [0.5, nan], [[0.5, 0.5]], ["0.5", "0.5"]])
def test_scores_that_have_no_interval_are_refused(scores):
    with pytest.raises(ValueError, match=r"^need "):
        mean_interval(scores, unseen=0)


def test_a_rare_harmless_episode_is_not_forgotten_where_none_was_seen():
    """Nominal 2.5 %: seven of eight episodes are alike, and every third gate sees no other."""
    rng, n, gates = np.random.default_rng(0), 8, 500
    scores = np.where(rng.random((gates, n)) < 1 / 8, 0.0, rng.uniform(0.4, 0.5, (gates, n)))
    limit = 0.45 * 7 / 8
    student = sum(paired_mean_interval(row, np.full(n, limit)).low > 0 for row in scores)
    ours = sum(mean_p_value(row, limit=limit, unseen=0) < 0.025 for row in scores)
    assert student > 0.1 * gates
    assert ours <= 0.025 * gates

import math
from itertools import combinations, permutations
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats.rankings import kendall_interval, spearman_interval

METHODS = [spearman_interval, kendall_interval]

two_hundred = settings(max_examples=200)
levels = st.floats(0.5, 0.999)
every_method = pytest.mark.parametrize("method", METHODS)


@st.composite
def models(draw, most=15):
    """Draw a metric and a success rate, with ties, of models that differ in both."""
    n = draw(st.integers(5, most))
    columns = []
    for steps in (50, 10):
        column = draw(st.lists(st.integers(0, steps), min_size=n, max_size=n))
        if len(set(column)) == 1:
            column[0] = (column[0] + 1) % (steps + 1)
        columns.append([value / steps for value in column])
    return columns


def midranks(values):
    return np.array([sum(v < own for v in values) + sum(v == own for v in values) / 2
                     for own in values])  # fmt: skip


def spearman_of_ranks(x, y):
    return np.corrcoef(midranks(x), midranks(y))[0, 1]


def tau_b_of_pairs(x, y):
    pairs = list(combinations(range(len(x)), 2))
    dx = np.array([np.sign(x[i] - x[j]) for i, j in pairs])
    dy = np.array([np.sign(y[i] - y[j]) for i, j in pairs])
    return (dx @ dy) / math.sqrt((dx @ dx) * (dy @ dy))


def fisher(estimate, deviation, level):
    half = NormalDist().inv_cdf((1 + level) / 2) * deviation
    # The transform and its inverse, written out.
    odds = (1 + estimate) / (1 - estimate)
    low, high = odds * math.exp(-2 * half), odds * math.exp(2 * half)
    return (low - 1) / (low + 1), (high - 1) / (high + 1)


@two_hundred
@given(sample=models(), level=levels)
def test_both_agree_with_ranks_and_pairs_counted_out_on_fishers_scale(sample, level):
    n = len(sample[0])
    rho, tau = spearman_of_ranks(*sample), tau_b_of_pairs(*sample)
    for method, estimate, variance, largest in (
        (spearman_interval, rho, (1 + rho**2 / 2) / (n - 3), 1 - 6 / (n**3 - n)),
        (kendall_interval, tau, 0.437 / (n - 4), 1 - 2 / (n**2 - n)),
    ):
        ci = method(*sample, level=level)
        assert ci.estimate == pytest.approx(estimate, abs=1e-10, rel=0)
        if abs(estimate) < largest:
            reference = fisher(estimate, math.sqrt(variance), level)
            assert (ci.low, ci.high) == pytest.approx(reference, abs=1e-10, rel=0)


def test_spearman_agrees_with_the_example_of_the_r_package_statpsych():
    # The manual of D. G. Bonett's package: ci.spear(.05, y, x).
    y = [21, 4, 9, 12, 35, 18, 10, 22, 24, 1, 6, 8, 13, 16, 19]
    x = [67, 28, 30, 28, 52, 40, 25, 37, 44, 10, 14, 20, 28, 40, 51]
    ci = spearman_interval(x, y)
    published = (0.8699639, 0.5840951, 0.9638297)
    assert (ci.estimate, ci.low, ci.high) == pytest.approx(published, abs=5e-8)


@every_method
def test_no_order_but_the_perfect_one_reaches_its_continuity_correction(method):
    # One swap of neighbours lies twice as far from 1 as the point that stands for perfect order.
    perfect = method(range(5), range(5))
    for order in permutations(range(5)):
        ci = method(range(5), order)
        if order != (0, 1, 2, 3, 4):
            assert ci.low < perfect.low
            assert ci.high < perfect.high


@pytest.mark.parametrize("n", [5, 6, 20])
def test_perfect_order_leaves_the_room_that_the_number_of_models_asks_for(n):
    half_a_step = {spearman_interval: 6 / (n**3 - n), kendall_interval: 2 / (n**2 - n)}
    deviation = {
        spearman_interval: math.sqrt(1.5 / (n - 3)),
        kendall_interval: (0.437 / (n - 4)) ** 0.5,
    }
    for method in METHODS:
        ci, reverse = method(range(n), range(n)), method(range(n), range(n, 0, -1))
        low, _ = fisher(1 - half_a_step[method], deviation[method], 0.95)
        assert (ci.estimate, ci.high) == (1, 1)
        assert ci.low == pytest.approx(low, abs=1e-10)
        assert (reverse.estimate, reverse.low, reverse.high) == (-1, -1, -ci.low)


@every_method
def test_results_are_plain_floats_named_by_method(method):
    ci = method(np.arange(6, dtype=np.int32), np.array([1, 3, 2, 5, 4, 6], dtype=np.float32))
    assert {type(value) for value in (ci.estimate, ci.low, ci.high, ci.level)} == {float}
    assert ci.method in {"Bonett-Wright 2000", "Fieller-Hartley-Pearson 1957"}


@every_method
def test_fewer_than_five_models_are_refused(method):
    with pytest.raises(ValueError, match="need at least 5 models, got 4"):
        method(range(4), range(4))


@every_method
def test_metric_and_success_are_of_the_same_models(method):
    with pytest.raises(ValueError, match="need metric and success of the same models, got 6 and 5"):
        method(range(6), range(5))


@every_method
def test_a_constant_column_is_refused_with_its_value(method):
    message = "need a metric that differs between models, got 0.5 for all 6"
    with pytest.raises(ValueError, match=message):
        method([0.5] * 6, range(6))
    with pytest.raises(ValueError, match="need a success that differs between models, got 0 for"):
        method(range(6), [0] * 6)


@every_method
@pytest.mark.parametrize("value", [math.nan, math.inf, "1", None])
def test_a_number_that_is_not_finite_is_refused(method, value):
    with pytest.raises(ValueError, match="need one finite metric for each model, got"):
        method([1, 2, 3, 4, 5, value], range(6))
    with pytest.raises(ValueError, match="need one finite success for each model, got"):
        method(range(6), [1, 2, 3, 4, 5, value])
    with pytest.raises(ValueError, match="need one finite metric for each model, got"):
        method([range(6)], range(6))


@every_method
@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan, "0.95", True])
def test_an_impossible_level_is_refused_with_its_value(method, level):
    with pytest.raises(ValueError, match=rf"need a level between 0 and 1.*, got {level!r}$"):
        method(range(6), range(6), level=level)

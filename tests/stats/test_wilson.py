import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats.intervals import (
    highest_rate,
    student_critical_value,
    wilson_episodes_above,
    wilson_interval,
)

levels = st.floats(0.5, 0.999)


@st.composite
def arms(draw, most=400):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


@given(arm=arms(), level=levels)
def test_wilson_agrees_with_scipy(arm, level):
    stats = pytest.importorskip("scipy.stats")
    reference = stats.binomtest(*arm).proportion_ci(level, method="wilson")
    ci = wilson_interval(*arm, level=level)
    assert (ci.low, ci.high) == pytest.approx((reference.low, reference.high), abs=1e-12, rel=0)
    assert ci.estimate == arm[0] / arm[1]


@given(arm=arms(), level=levels)
def test_the_highest_rate_is_the_upper_end_of_scipys_exact_interval(arm, level):
    stats = pytest.importorskip("scipy.stats")
    reference = stats.binomtest(*arm).proportion_ci(level, method="exact")
    assert highest_rate(*arm, level=level) == pytest.approx(reference.high, abs=1e-9)


def test_wilson_ends_exactly_at_zero_and_one():
    for episodes in range(1, 60):
        assert wilson_interval(0, episodes).low == 0
        assert wilson_interval(episodes, episodes).high == 1


def test_numpy_integers_are_counts():
    assert wilson_interval(np.uint8(200), np.uint8(201)) == wilson_interval(200, 201)


@given(st.integers(1, 20), st.integers(0, 19), st.floats(0.02, 0.98), levels)
def test_episodes_above_a_bound_are_the_fewest_whose_wilson_interval_is(base, solved, bound, level):
    rate = Fraction(min(solved, base), base)
    found = wilson_episodes_above(bound, rate=float(rate), level=level)
    if float(rate) <= bound:
        assert found is None
        return

    def low(episodes):
        # At sizes where the rate is no count, too: Wilson's bounds are the roots of a quadratic.
        z, p = NormalDist().inv_cdf((1 + level) / 2), float(rate)
        a, b, c = 1 + z**2 / episodes, -(2 * p + z**2 / episodes), p**2
        return (-b - (b * b - 4 * a * c) ** 0.5) / (2 * a)

    assert low(found) > bound - 1e-9
    assert found == 1 or low(found - 1) <= bound + 1e-9
    if found % base == 0:
        assert wilson_interval(int(rate * found), found, level=level).low > bound - 1e-9


def test_the_critical_value_is_the_quantile_of_scipy():
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for level, freedom in zip(
        rng.uniform(0.01, 0.9999, 500), rng.integers(1, 300, 500), strict=True
    ):
        reference = stats.t.ppf((1 + level) / 2, freedom)
        found = student_critical_value(level, freedom=freedom)
        assert found == pytest.approx(reference, abs=1e-10, rel=1e-10)


def test_one_and_two_degrees_of_freedom_have_their_closed_forms():
    for level in (0.1, 0.5, 0.9, 0.95, 0.999):
        cauchy = math.tan(math.pi * level / 2)
        assert student_critical_value(level, freedom=1) == pytest.approx(cauchy, rel=1e-10)
        two = level * math.sqrt(2 / (1 - level**2))
        assert student_critical_value(level, freedom=2) == pytest.approx(two, rel=1e-10)


def test_levels_at_the_ends_of_the_floats_give_finite_values():
    assert student_critical_value(5e-324, freedom=4) == 0
    assert 1e15 < student_critical_value(1 - 2**-53, freedom=1) < 1e17

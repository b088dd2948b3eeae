import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.suites import Stratum, suite_gap


@st.composite
def tasks(draw, most=6):
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=most))
    arms = [[draw(st.integers(0, n)) for _ in range(2)] for n in sizes]
    return arms, sizes


def strata_of(arms, sizes):
    total = sum(sizes)
    return [Stratum(s / n, t / n, n, n / total) for (s, t), n in zip(arms, sizes, strict=True)]


@given(successes=st.tuples(st.integers(0, 30), st.integers(0, 30)), level=st.floats(0.5, 0.999))
def test_of_one_task_it_is_the_interval_of_its_gate(successes, level):
    s, t = successes
    found = suite_gap([Stratum(s / 30, t / 30, 30, 1.0)]).interval(level)
    usual = agresti_caffo_interval(s, 30, t, 30, level=level)
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (usual.estimate, usual.low, usual.high)
    )
    assert found.method == "Agresti-Caffo 2000"


@given(suite=tasks())
def test_the_estimate_and_the_centre_are_those_of_all_episodes_together(suite):
    arms, sizes = suite
    found = suite_gap(strata_of(arms, sizes))
    s, t, n = (sum(values) for values in (*zip(*arms, strict=True), sizes))
    assert found.estimate == pytest.approx((s - t) / n)
    assert found.centre == pytest.approx((s + 1) / (n + 2) - (t + 1) / (n + 2))


@given(suite=tasks(), level=st.floats(0.5, 0.999))
def test_the_variance_is_that_of_a_weighted_sum_of_posterior_draws(suite, level):
    """By scipy: each rate as the mean of a beta posterior from a uniform prior."""
    stats = pytest.importorskip("scipy.stats")
    arms, sizes = suite
    variance = 0.0
    for (s, t), n in zip(arms, sizes, strict=True):
        w = n / sum(sizes)
        for successes in (s, t):
            # Of Beta(s + 1, n - s + 1) the variance is p(1 - p) / (n + 3).
            variance += (
                w**2 * stats.beta(successes + 1, n - successes + 1).var() * (n + 3) / (n + 2 * w)
            )
    found = suite_gap(strata_of(arms, sizes))
    assert found.error == pytest.approx(variance**0.5)
    half = stats.norm.ppf((1 + level) / 2) * variance**0.5
    ends = np.clip([found.centre - half, found.centre + half], -1, 1)
    assert (found.interval(level).low, found.interval(level).high) == pytest.approx((*ends,))


@given(suite=tasks())
def test_it_is_antisymmetric_in_the_arms(suite):
    arms, sizes = suite
    found = suite_gap(strata_of(arms, sizes))
    mirrored = suite_gap(strata_of([(t, s) for s, t in arms], sizes))
    assert found.interval().low == pytest.approx(-mirrored.interval().high)
    assert found.p_above(0.1) == pytest.approx(mirrored.p_below(-0.1))


@pytest.mark.parametrize(
    ("stratum", "said"),
    [
        (Stratum(1.0, 0.5, 10, 0.5), r"weights that sum to 1, got 0\.5"),
        (Stratum(1.2, 0.5, 10, 1.0), r"success rate from 0 to 1, got 1\.2"),
        (Stratum(1.0, 0.5, 0, 1.0), "starts"),
    ],
)
def test_what_is_no_suite_is_refused(stratum, said):
    with pytest.raises(ValueError, match=said):
        suite_gap([stratum])

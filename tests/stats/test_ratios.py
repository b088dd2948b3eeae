import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from pytest_cpg.stats.intervals import student_critical_value
from pytest_cpg.stats.returns import fieller_interval

PAIRS = st.lists(st.tuples(st.floats(-5, 5), st.floats(0.5, 5)), min_size=3, max_size=12)


def student(values, level):
    """Return Student's interval on a mean."""
    t = student_critical_value(level, freedom=len(values) - 1)
    half = t * values.std(ddof=1) / np.sqrt(len(values))
    return values.mean() - half, values.mean() + half


@given(PAIRS, st.sampled_from([0.8, 0.95]))
@example([(0.0, 1.0), (0.0, 1.0), (1e-189, 2.0)], 0.8)
def test_each_bound_is_a_ratio_at_which_students_interval_touches_zero(pairs, level):
    above, below = np.array(pairs).T
    assume(student(below, level)[0] > 0.05)
    found = fieller_interval(above, below, level=level)
    assert found.low <= found.estimate <= found.high
    for bound, end in ((found.low, 0), (found.high, 1)):
        assert student(above - bound * below, level)[end] == pytest.approx(0, abs=1e-5)


def test_a_ratio_that_is_the_same_in_every_pair_is_certain():
    below = np.array([0.2, 0.9, 0.5, 0.4])
    found = fieller_interval(0.75 * below, below)
    assert (found.low, found.estimate, found.high) == pytest.approx([0.75] * 3, abs=1e-6)


def test_denominators_that_may_be_zero_are_refused():
    with pytest.raises(ValueError, match="need denominators whose mean is shown to be above 0"):
        fieller_interval(np.ones(3), np.array([-1.0, 1.0, 0.5]))
    with pytest.raises(ValueError, match="need pairs, at least two, got 1 and 1"):
        fieller_interval(np.ones(1), np.ones(1))


@pytest.mark.slow
def test_the_interval_holds_the_ratio_as_often_as_it_says():
    rng = np.random.default_rng(0)
    trials, held = 4000, 0
    for _ in range(trials):
        below = rng.normal(1.0, 0.2, 6)
        found = fieller_interval(0.6 * below + rng.normal(0, 0.2, 6), below)
        held += found.low <= 0.6 <= found.high
    assert held / trials == pytest.approx(0.95, abs=0.012)

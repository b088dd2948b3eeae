import math

import numpy as np
import pytest

from pytest_cpg.stats.intervals import student_critical_value


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


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan, "0.95", True])
def test_an_impossible_level_is_refused_with_its_value(level):
    with pytest.raises(ValueError, match=rf"need a level between 0 and 1.*, got {level!r}$"):
        student_critical_value(level, freedom=3)


@pytest.mark.parametrize("freedom", [0, -1, 2.5, None])
def test_impossible_degrees_of_freedom_are_refused_with_their_value(freedom):
    with pytest.raises(ValueError, match=rf"need freedom to be .* at least 1, got {freedom!r}$"):
        student_critical_value(0.95, freedom=freedom)

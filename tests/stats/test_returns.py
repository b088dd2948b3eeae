import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import Interval
from pytest_cpg.stats.returns import (
    fieller_return_interval,
    paired_mean_interval,
    paired_mean_p_value,
)

REPOSITORY = Path(__file__).parents[2]
METHODS = [paired_mean_interval, fieller_return_interval]

two_hundred = settings(max_examples=200)
levels = st.floats(0.01, 0.9999)
every_method = pytest.mark.parametrize("method", METHODS)


@st.composite
def arms(draw, count=2, least=2, most=40):
    """Return that many arms of normal returns, which share the luck of their starts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(least, most))
    scale, shared = draw(st.sampled_from([1e-3, 1.0, 500.0])), rng.normal(size=n)
    return [scale * (shared + rng.normal(rng.normal(), 1, size=n)) for _ in range(count)]


@st.composite
def normalised_arms(draw, least, most=40):
    """Return an oracle that clearly beats chance, a learned arm and chance."""
    oracle, learned, chance = draw(arms(count=3, least=least, most=most))
    headroom = 10 * max(np.ptp(oracle), np.ptp(chance))
    return oracle + chance.mean() - oracle.mean() + headroom, learned, chance


def bounds(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def called(method, oracle, learned, level=0.95):
    """Call with a chance arm of as many zeros where the method takes one."""
    if method is paired_mean_interval:
        return method(oracle, learned, level=level)
    return method(oracle, learned, [0.0] * len(oracle), level=level)


@two_hundred
@given(pair=arms(), level=levels)
def test_the_paired_interval_and_p_value_are_those_of_scipy(pair, level):
    stats = pytest.importorskip("scipy.stats")
    test = stats.ttest_rel(*pair, alternative="two-sided")
    reference = test.confidence_interval(level)
    ci = paired_mean_interval(*pair, level=level)
    scale = abs(ci.estimate) + ci.high - ci.low
    assert bounds(ci) == pytest.approx((reference.low, reference.high), abs=1e-10 * scale)
    p = paired_mean_p_value(*pair)
    one_sided = stats.ttest_rel(*pair, alternative="greater").pvalue
    assert p == pytest.approx(one_sided, abs=1e-10, rel=1e-8)


@given(pair=arms(), level=levels)
def test_p_is_below_alpha_exactly_where_the_paired_interval_lies_above_zero(pair, level):
    p = paired_mean_p_value(*pair)
    assert 0 < p <= 1
    if p != pytest.approx((1 - level) / 2, rel=1e-9):
        assert (paired_mean_interval(*pair, level=level).low > 0) == (p < (1 - level) / 2)


def test_equal_differences_give_an_interval_of_no_width():
    ci = paired_mean_interval([0.1, 0.2, 0.7], [0.1, 0.2, 0.7])
    assert (ci.estimate, *bounds(ci)) == (0, 0, 0)
    ci = paired_mean_interval([3, 4, 5], [1, 2, 3])
    assert (ci.estimate, *bounds(ci)) == (2, 2, 2)


def test_equal_differences_have_the_p_value_of_their_sign():
    assert paired_mean_p_value([3, 4], [3, 4]) == 0.5
    assert paired_mean_p_value([1, 2], [3, 4]) == 1
    assert 0 < paired_mean_p_value([3, 4], [1, 2]) < 1e-300


def test_a_single_start_cannot_be_bounded():
    with pytest.raises(ValueError, match="need at least two starts to bound a mean return, got 1"):
        paired_mean_interval([3.0], [1.0])
    with pytest.raises(ValueError, match="need at least two starts to bound a mean return, got 1"):
        paired_mean_p_value([3.0], [1.0])


def test_huge_returns_neither_overflow_nor_give_nan():
    ci = paired_mean_interval([1e100, -1e100, 3], [-1e100, 1e100, 5], level=1 - 2**-53)
    assert all(math.isfinite(value) for value in (ci.estimate, ci.low, ci.high))
    ci = fieller_return_interval([1e100, 9e99, 8e99], [5e99, 6e99, 3e99], [1e98, 0, 2e98])
    assert 0 < ci.low < ci.high < 1


@given(three=normalised_arms(least=2), level=levels)
def test_student_rejects_no_ratio_inside_fieller_and_every_one_outside(three, level):
    stats = pytest.importorskip("scipy.stats")
    oracle, learned, chance = three
    ci = fieller_return_interval(*three, level=level)
    if ci is None:
        return
    assert ci.low <= ci.estimate <= ci.high
    for bound, outwards in ((ci.low, -1), (ci.high, 1)):
        for step in (-1e-4, 1e-4):
            ratio = bound + outwards * step * (ci.high - ci.low)
            p = stats.ttest_1samp(oracle - learned - ratio * (oracle - chance), 0).pvalue
            assert (p < 1 - level) == (step > 0)


@two_hundred
@given(three=normalised_arms(least=3), level=st.floats(0.5, 0.999))
def test_fieller_ends_where_student_finds_a_difference_of_exactly_zero(three, level):
    oracle, learned, chance = three
    ci = fieller_return_interval(*three, level=level)
    if ci is None:
        return
    scale = np.ptp(oracle) + abs((oracle - chance).mean())
    for bound, end in ((ci.low, "low"), (ci.high, "high")):
        rest = paired_mean_interval(oracle - learned, bound * (oracle - chance), level=level)
        assert getattr(rest, end) == pytest.approx(0, abs=1e-10 * scale)


@given(three=arms(count=3, least=2, most=10), level=levels)
def test_fieller_has_an_end_exactly_where_the_oracle_is_shown_to_beat_chance(three, level):
    oracle, _, chance = three
    headroom = paired_mean_interval(oracle, chance, level=level)
    if abs(headroom.low) > 1e-9 * (headroom.high - headroom.low):
        assert (fieller_return_interval(*three, level=level) is None) == (headroom.low < 0)


def test_a_ratio_to_an_oracle_that_adds_nothing_to_chance_has_no_interval():
    returns = np.arange(20.0)
    assert fieller_return_interval(returns, returns - 1, returns) is None
    assert fieller_return_interval(returns, returns - 1, returns + 1) is None
    # Here it adds something on average, but not for certain.
    assert fieller_return_interval(returns, returns - 1, returns[::-1] - 0.5) is None
    # Here it adds only what rounding may have added.
    assert fieller_return_interval([1.0, 2.0], [0.0, 1.0], [1 - 2**-53, 2.0]) is None
    assert fieller_return_interval([1e-320, 1e-320], [1e100, 3.0], [0.0, 0.0]) is None
    assert fieller_return_interval([3.0], [1.0], [0.0]) is None


def test_arms_that_always_end_alike_have_a_ratio_of_exactly_zero():
    returns = np.arange(20.0) + 5
    ci = fieller_return_interval(returns, returns, np.zeros(20))
    assert (ci.estimate, *bounds(ci)) == (0, 0, 0)


def test_arguments_are_left_as_they_are():
    oracle, learned, chance = np.arange(12) + 20.0, np.arange(12) + 9.0, np.arange(12) % 3.0
    before = [arm.copy() for arm in (oracle, learned, chance)]
    for arm in (oracle, learned, chance):
        arm.flags.writeable = False
    fieller_return_interval(oracle, learned, chance)
    paired_mean_interval(oracle, learned)
    assert all((a == b).all() for a, b in zip(before, (oracle, learned, chance), strict=True))


@every_method
def test_results_are_plain_floats_whatever_the_arrays_are(method):
    draw = np.random.default_rng(3)
    oracle = draw.normal(90, 5, size=15).astype(np.float32)
    learned = draw.integers(20, 60, size=15).astype(np.int16)
    ci = called(method, oracle, learned, level=np.float32(0.5))
    assert {type(value) for value in (ci.estimate, ci.low, ci.high, ci.level)} == {float}


@every_method
@pytest.mark.parametrize(
    ("oracle", "learned", "message"),
    [
        ([], [], "need one oracle return for each start"),
        ([[1.0, 2.0]], [1.0, 2.0], "need one oracle return for each start"),
        ([1.0, 2.0], ["a", "b"], "need one learned return for each start"),
        ([1.0, 2.0], [True, False], "need one learned return for each start"),
        ([1.0, 2.0], [1.0, math.nan], "need finite learned returns .*, got nan at 1"),
        ([-math.inf, 2.0], [1.0, 0.0], "need finite oracle returns .*, got -inf at 0"),
        ([1e101, 2.0], [1.0, 0.0], r"need finite oracle returns .* 1e\+100 .*, got 1e\+101 at 0"),
        ([1.0, 2.0, 3.0], [1.0, 2.0], "need returns from the same starts, got 3 oracle, 2 learned"),
    ],
)
def test_impossible_returns_are_refused_with_their_value(method, oracle, learned, message):
    with pytest.raises(ValueError, match=message):
        called(method, oracle, learned)


@every_method
@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan, "0.95", True])
def test_an_impossible_level_is_refused_with_its_value(method, level):
    with pytest.raises(ValueError, match=rf"need a level between 0 and 1.*, got {level!r}$"):
        called(method, [3.0, 4.0], [1.0, 3.0], level=level)


def test_bounding_a_mean_does_not_import_all_of_scipy():
    program = (
        "import sys; from pytest_cpg.stats.returns import *; "
        "before = {'scipy'} & set(sys.modules); "
        "paired_mean_interval([1, 2], [3, 5]); paired_mean_p_value([1, 2], [3, 5]); "
        "fieller_return_interval([1, 2], [3, 5], [0, 0]); "
        "print(before, 'scipy.stats' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set() False"

import math
import subprocess
import sys
from fractions import Fraction
from math import nan, prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import Interval
from pytest_cpg.stats.intervals import student_critical_value
from pytest_cpg.stats.returns import (
    fieller_interval,
    fieller_return_interval,
    mean_interval,
    mean_p_value,
    paired_mean_interval,
    paired_mean_p_value,
    share_below,
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


@pytest.mark.slow
def test_the_interval_holds_the_ratio_as_often_as_it_says():
    rng = np.random.default_rng(0)
    trials, held = 4000, 0
    for _ in range(trials):
        below = rng.normal(1.0, 0.2, 6)
        found = fieller_interval(0.6 * below + rng.normal(0, 0.2, 6), below)
        held += found.low <= 0.6 <= found.high
    assert held / trials == pytest.approx(0.95, abs=0.012)


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

import json
import subprocess
import sys
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import Interval, Verdict, judge_gap
from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.power import (
    agresti_caffo_above,
    agresti_caffo_interval,
    agresti_caffo_p_value,
    episodes_to_settle,
    smallest_decisive_episodes,
)

REPOSITORY = Path(__file__).parents[2]
REFERENCE = REPOSITORY.parent / "shared" / "reference" / "cpg_published.json"
PUBLISHED = json.loads(REFERENCE.read_text())["fixed_start"] if REFERENCE.exists() else []

two_hundred = settings(max_examples=200)
levels = st.floats(0.5, 0.999)
margins = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.5])
gaps = st.one_of(st.just(0.0), st.floats(-0.99, 0.99))


@st.composite
def arms(draw, most=400):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


@st.composite
def sub_suites(draw):
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))
    return [(draw(st.integers(0, n)), draw(st.integers(0, n)), n) for n in sizes]


def bounds(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def flagged(oracle, learned, n, level):
    return judge_gap(oracle, n, learned, n, level=level) is Verdict.MODEL_BOTTLENECK


def is_tie(p, level):
    """Whether rounding decides which of p and alpha is the smaller one."""
    return p == pytest.approx((1 - level) / 2, rel=1e-9)


@given(oracle=arms(), learned=arms(), level=levels)
def test_agresti_caffo_agrees_with_statsmodels(oracle, learned, level):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    reference = proportion.confint_proportions_2indep(
        *oracle, *learned, method="agresti-caffo", alpha=1 - level
    )
    ci = agresti_caffo_interval(*oracle, *learned, level=level)
    assert bounds(ci) == pytest.approx(np.clip(reference, -1, 1), abs=1e-12, rel=0)


@pytest.mark.parametrize(
    ("counts", "gap", "low", "high", "verdict"),
    [
        ((3, 10, 0, 10), 0.300, -0.059, 0.559, "INCONCLUSIVE"),
        ((40, 150, 0, 150), 0.267, 0.191, 0.335, "MODEL BOTTLENECK"),
    ],
)
def test_the_published_points_are_reproduced(counts, gap, low, high, verdict):
    ci = agresti_caffo_interval(*counts)
    assert (round(ci.estimate, 3), round(ci.low, 3), round(ci.high, 3)) == (gap, low, high)
    assert judge_gap(*counts) == verdict


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: f"{row['oracle']}-{row['learned']}")
def test_every_published_row_is_reproduced(row):
    counts = row["oracle"], row["n"], row["learned"], row["n"]
    # The perturbation rows are printed with two decimals, all others with three.
    rounding = 0.005 if "perturbation" in row else 0.0005
    assert bounds(agresti_caffo_interval(*counts)) == pytest.approx(row["ci"], abs=rounding * 1.001)
    assert judge_gap(*counts) == row["verdict"]


def test_bounds_are_cut_where_the_formula_leaves_the_range_of_a_difference():
    assert agresti_caffo_interval(1, 1, 0, 1).high == 1
    assert agresti_caffo_interval(0, 1, 1, 1).low == -1


@given(suites=sub_suites())
def test_the_gap_of_a_union_is_the_episode_weighted_mean_of_its_sub_suites(suites):
    oracle, learned, episodes = (sum(column) for column in zip(*suites, strict=True))
    union = agresti_caffo_interval(oracle, episodes, learned, episodes)
    weighted = sum(n * agresti_caffo_interval(s, n, t, n).estimate for s, t, n in suites)
    assert union.estimate == pytest.approx(weighted / episodes, abs=1e-12)
    assert union.estimate == float(sum(Fraction(s - t, episodes) for s, t, _ in suites))


@pytest.mark.parametrize("n", [5, 10])
def test_exact_coverage_of_agresti_caffo_at_small_n(n):
    rates = [k / 10 for k in range(1, 10)]
    intervals = {
        (s, t): agresti_caffo_interval(s, n, t, n) for s in range(n + 1) for t in range(n + 1)
    }
    for oracle in rates:
        for learned in rates:
            covered = sum(
                comb(n, s) * oracle**s * (1 - oracle) ** (n - s)
                * comb(n, t) * learned**t * (1 - learned) ** (n - t)
                for (s, t), ci in intervals.items()
                if ci.low <= oracle - learned <= ci.high
            )  # fmt: skip
            assert covered > 0.92, (oracle, learned)


def test_numpy_integers_are_counts():
    oracle, learned = np.int64(40), np.uint8(0)
    ci = agresti_caffo_interval(oracle, np.int32(150), learned, np.int64(150))
    assert ci == agresti_caffo_interval(40, 150, 0, 150)
    assert type(ci.estimate) is float


def test_results_are_plain_floats_whatever_the_level_is():
    ci = agresti_caffo_interval(3, 10, 0, 10, level=np.float32(0.5))
    assert {type(value) for value in (ci.estimate, ci.low, ci.high, ci.level)} == {float}


def test_levels_at_the_ends_of_the_floats_give_bounds():
    extreme = agresti_caffo_interval(30, 50, 20, 50, level=1 - 2**-53)
    assert -1 < extreme.low < extreme.high < 1
    degenerate = agresti_caffo_interval(30, 50, 20, 50, level=5e-324)
    assert degenerate.low == degenerate.high == pytest.approx(10 / 52)


@two_hundred
@given(oracle=arms(), learned=arms(), gap=gaps, level=levels)
def test_agresti_caffo_is_above_and_below_where_the_interval_is(oracle, learned, gap, level):
    ci, z = agresti_caffo_interval(*oracle, *learned, level=level), critical_value(level)
    is_above = bool(agresti_caffo_above(*oracle, *learned, gap=gap, z=z))
    is_below = bool(agresti_caffo_above(*learned, *oracle, gap=-gap, z=z))
    # At the gap itself rounding decides.
    if min(abs(ci.low - gap), abs(ci.high - gap)) > 1e-12:
        assert (is_above, is_below) == (ci.low > gap, ci.high < gap)


def test_counts_need_not_be_whole():
    assert bool(agresti_caffo_above(9.5, 10.5, 2.25, 10.5, z=critical_value(0.95)))


@two_hundred
@given(oracle=arms(), learned=arms(), level=levels)
def test_p_is_below_alpha_exactly_where_agresti_caffo_lies_above_zero(oracle, learned, level):
    p = agresti_caffo_p_value(*oracle, *learned)
    if not is_tie(p, level):
        interval = agresti_caffo_interval(*oracle, *learned, level=level)
        assert (interval.low > 0) == (p < (1 - level) / 2)


def test_agresti_caffo_is_the_wald_test_of_scipy_with_a_success_and_a_failure_added():
    stats = pytest.importorskip("scipy.stats")
    for s, failed, t, lost in np.random.default_rng(0).integers(0, 200, (500, 4)).tolist():
        n, m = s + failed + 1, t + lost + 1
        rates = np.array([(s + 1) / (n + 2), (t + 1) / (m + 2)])
        scale = np.sqrt((rates * (1 - rates) / [n + 2, m + 2]).sum())
        reference = stats.norm.sf(rates[0] - rates[1], scale=scale)
        assert agresti_caffo_p_value(s, n, t, m) == pytest.approx(reference, abs=1e-10, rel=1e-10)


def test_p_is_one_half_for_equal_arms_and_never_zero():
    assert agresti_caffo_p_value(7, 10, 7, 10) == 0.5
    assert 0 < agresti_caffo_p_value(10**6, 10**6, 0, 10**6) < 1e-15


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1 - 1e-9])
def test_no_outcome_of_fewer_than_the_decisive_episodes_is_flagged(level):
    decisive = smallest_decisive_episodes(level=level)
    for n in range(1, decisive):
        assert not any(flagged(s, t, n, level) for s in range(n + 1) for t in range(n + 1))
    assert all(flagged(n, 0, n, level) for n in range(decisive, 100))


def test_three_episodes_can_fail_a_gate_at_the_default_level():
    assert smallest_decisive_episodes(level=0.95) == 3


@given(oracle=arms(), learned=arms(), level=levels)
def test_multiples_of_the_counts_resolve_exactly_from_the_promised_size_on(oracle, learned, level):
    (s, n), (t, m) = oracle, learned
    promised = episodes_to_settle(s, n, t, m, level=level, limit=8 * n * m)
    # The smallest sizes at which both rates are whole counts.
    for factor in range(1, 9):
        size = factor * n * m
        ci = agresti_caffo_interval(factor * s * m, size, factor * t * n, size, level=level)
        assert (ci.low > 0 or ci.high < 0) == (promised is not None and size >= promised)


def test_an_inconclusive_gate_needs_more_than_it_has():
    assert judge_gap(47, 50, 43, 50) is Verdict.INCONCLUSIVE
    assert episodes_to_settle(47, 50, 43, 50) == 115
    assert episodes_to_settle(3, 10, 0, 10) == 14


def test_equal_rates_are_never_resolved():
    assert episodes_to_settle(3, 10, 3, 10) is None
    assert episodes_to_settle(3, 10, 15, 50) is None
    assert episodes_to_settle(3, 10, 15, 50, limit=10**12) is None


def test_the_limit_is_inclusive():
    assert episodes_to_settle(47, 50, 43, 50, limit=115) == 115
    assert episodes_to_settle(47, 50, 43, 50, limit=114) is None


def test_rates_too_near_for_the_default_limit_are_not_resolved():
    assert episodes_to_settle(5000, 10_000, 4999, 10_000) is None


@given(oracle=arms(most=40), learned=arms(most=40), level=levels, margin=margins)
def test_multiples_of_the_counts_prove_a_margin_exactly_from_the_promised_size_on(
    oracle, learned, level, margin
):
    (s, n), (t, m) = oracle, learned
    promised = episodes_to_settle(s, n, t, m, margin=margin, level=level)
    for factor in range(1, 9):
        size = factor * n * m
        high = agresti_caffo_interval(factor * s * m, size, factor * t * n, size, level=level).high
        # A single episode per arm may prove what no larger size does: both rates count as a half.
        if size > 10:
            assert (high < margin) == (promised is not None and size >= promised)


def test_a_perfect_pair_proves_a_margin_of_a_tenth_with_26_episodes():
    assert episodes_to_settle(1, 1, 1, 1, margin=0.1) == 26
    assert agresti_caffo_interval(26, 26, 26, 26).high < 0.1
    assert agresti_caffo_interval(25, 25, 25, 25).high > 0.1


def test_a_gap_as_large_as_the_margin_is_never_proven_to_be_below_it():
    assert episodes_to_settle(47, 50, 42, 50, margin=0.1, limit=10**9) is None


def test_importing_the_statistics_loads_nothing_slow():
    heavy = {"scipy", "torch", "pytest"}
    program = f"import sys, pytest_cpg.stats; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"

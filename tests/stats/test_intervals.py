import json
import subprocess
import sys
from fractions import Fraction
from math import comb
from pathlib import Path
from statistics import NormalDist, fmean, pvariance

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import (
    Interval,
    agresti_caffo_interval,
    bonett_price_interval,
    judge_gap,
    wilson_episodes_above,
    wilson_interval,
)

REPOSITORY = Path(__file__).parents[2]
REFERENCE = REPOSITORY.parent / "shared" / "reference" / "cpg_published.json"
PUBLISHED = json.loads(REFERENCE.read_text())["fixed_start"] if REFERENCE.exists() else []

# A busy machine is no failure.
unhurried = settings(deadline=None)
levels = st.floats(0.5, 0.999)


@st.composite
def arms(draw, most=400):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


@st.composite
def sub_suites(draw):
    sizes = draw(st.lists(st.integers(1, 60), min_size=1, max_size=5))
    return [(draw(st.integers(0, n)), draw(st.integers(0, n)), n) for n in sizes]


@st.composite
def paired_tables(draw):
    names = ("both", "oracle_only", "learned_only", "neither")
    table = {name: draw(st.integers(0, 80)) for name in names}
    return table if any(table.values()) else table | {"both": 1}


def bounds(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


@unhurried
@given(oracle=arms(), learned=arms(), level=levels)
def test_agresti_caffo_agrees_with_statsmodels(oracle, learned, level):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    reference = proportion.confint_proportions_2indep(
        *oracle, *learned, method="agresti-caffo", alpha=1 - level
    )
    ci = agresti_caffo_interval(*oracle, *learned, level=level)
    assert bounds(ci) == pytest.approx(np.clip(reference, -1, 1), abs=1e-12, rel=0)


@unhurried
@given(arm=arms(), level=levels)
def test_wilson_agrees_with_scipy(arm, level):
    stats = pytest.importorskip("scipy.stats")
    reference = stats.binomtest(*arm).proportion_ci(level, method="wilson")
    ci = wilson_interval(*arm, level=level)
    assert bounds(ci) == pytest.approx((reference.low, reference.high), abs=1e-12, rel=0)


@unhurried
@given(table=paired_tables(), level=levels)
def test_bonett_price_is_the_wald_interval_of_scores_with_one_win_and_one_loss_added(table, level):
    scores = (
        [1] * (table["oracle_only"] + 1)
        + [-1] * (table["learned_only"] + 1)
        + [0] * (table["both"] + table["neither"])
    )
    half = NormalDist().inv_cdf((1 + level) / 2) * (pvariance(scores) / len(scores)) ** 0.5
    reference = np.clip((fmean(scores) - half, fmean(scores) + half), -1, 1)
    ci = bonett_price_interval(**table, level=level)
    assert bounds(ci) == pytest.approx(reference, abs=1e-12, rel=0)


def test_bonett_price_agrees_with_the_example_of_the_r_package_statpsych():
    # The manual of D. G. Bonett's package: ci.prop.ps(.05, 12, 4, 26, 6).
    ci = bonett_price_interval(both=6, oracle_only=26, learned_only=4, neither=12)
    assert bounds(ci) == pytest.approx((0.2548067, 0.6251933), abs=5e-8)
    assert ci.estimate == 22 / 48


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


@unhurried
@given(oracle=arms(), learned=arms(), level=levels)
def test_swapping_the_arms_mirrors_the_gap(oracle, learned, level):
    ci = agresti_caffo_interval(*oracle, *learned, level=level)
    swapped = agresti_caffo_interval(*learned, *oracle, level=level)
    assert (swapped.estimate, swapped.low, swapped.high) == (-ci.estimate, -ci.high, -ci.low)


@unhurried
@given(table=paired_tables(), level=levels)
def test_swapping_the_paired_arms_mirrors_the_gap(table, level):
    ci = bonett_price_interval(**table, level=level)
    table["oracle_only"], table["learned_only"] = table["learned_only"], table["oracle_only"]
    swapped = bonett_price_interval(**table, level=level)
    assert (swapped.estimate, swapped.low, swapped.high) == (-ci.estimate, -ci.high, -ci.low)


@unhurried
@given(oracle=arms(most=12), learned=arms(most=12), level=levels)
def test_gap_and_bounds_stay_within_minus_one_and_one(oracle, learned, level):
    ci = agresti_caffo_interval(*oracle, *learned, level=level)
    assert -1 <= ci.estimate <= 1
    assert -1 <= ci.low < ci.high <= 1


@unhurried
@given(table=paired_tables(), level=levels)
def test_paired_gap_and_bounds_stay_within_minus_one_and_one(table, level):
    ci = bonett_price_interval(**table, level=level)
    assert -1 <= ci.estimate <= 1
    assert -1 <= ci.low < ci.high <= 1


@unhurried
@given(arm=arms(), level=levels)
def test_wilson_holds_its_rate_and_mirrors_failures(arm, level):
    successes, episodes = arm
    ci = wilson_interval(successes, episodes, level=level)
    assert 0 <= ci.low <= ci.estimate <= ci.high <= 1
    mirrored = wilson_interval(episodes - successes, episodes, level=level)
    assert bounds(mirrored) == pytest.approx((1 - ci.high, 1 - ci.low), abs=1e-12)


def test_bounds_are_cut_where_the_formula_leaves_the_range_of_a_difference():
    assert agresti_caffo_interval(1, 1, 0, 1).high == 1
    assert agresti_caffo_interval(0, 1, 1, 1).low == -1
    assert bonett_price_interval(both=0, oracle_only=1, learned_only=0, neither=0).high == 1


def test_wilson_ends_exactly_at_zero_and_one():
    for episodes in range(1, 60):
        assert wilson_interval(0, episodes).low == 0
        assert wilson_interval(episodes, episodes).high == 1


@unhurried
@given(oracle=arms(most=60), learned=arms(most=60))
def test_an_oracle_success_more_raises_both_bounds_and_a_learned_one_lowers_them(oracle, learned):
    successes, episodes = oracle
    ci = agresti_caffo_interval(*oracle, *learned)
    if successes < episodes:
        more = agresti_caffo_interval(successes + 1, episodes, *learned)
        assert more.low >= ci.low
        assert more.high >= ci.high
        assert more.low + more.high > ci.low + ci.high
        mirrored = agresti_caffo_interval(*learned, successes, episodes)
        less = agresti_caffo_interval(*learned, successes + 1, episodes)
        assert less.low <= mirrored.low
        assert less.high <= mirrored.high


@unhurried
@given(arm=arms(most=60))
def test_a_success_more_raises_both_wilson_bounds(arm):
    successes, episodes = arm
    if successes < episodes:
        ci, more = wilson_interval(*arm), wilson_interval(successes + 1, episodes)
        assert more.low > ci.low
        assert more.high > ci.high


@unhurried
@given(oracle=arms(), learned=arms(), level=st.floats(0.5, 0.95))
def test_a_higher_level_never_narrows_an_interval(oracle, learned, level):
    ci = agresti_caffo_interval(*oracle, *learned, level=level)
    wider = agresti_caffo_interval(*oracle, *learned, level=level + 0.04)
    assert wider.low <= ci.low
    assert wider.high >= ci.high


@unhurried
@given(suites=sub_suites())
def test_the_gap_of_a_union_is_the_episode_weighted_mean_of_its_sub_suites(suites):
    oracle, learned, episodes = (sum(column) for column in zip(*suites, strict=True))
    union = agresti_caffo_interval(oracle, episodes, learned, episodes)
    weighted = sum(n * agresti_caffo_interval(s, n, t, n).estimate for s, t, n in suites)
    assert union.estimate == pytest.approx(weighted / episodes, abs=1e-12)
    assert union.estimate == float(sum(Fraction(s - t, episodes) for s, t, _ in suites))


@unhurried
@given(table=paired_tables())
def test_the_paired_and_the_independent_interval_share_their_estimate(table):
    n = sum(table.values())
    oracle, learned = table["both"] + table["oracle_only"], table["both"] + table["learned_only"]
    paired = bonett_price_interval(**table)
    assert paired.estimate == agresti_caffo_interval(oracle, n, learned, n).estimate


def test_equal_arms_have_no_gap_and_bounds_of_one_size():
    ci = agresti_caffo_interval(7, 50, 7, 50)
    assert ci.estimate == 0
    assert ci.low == -ci.high


def test_the_gap_is_rounded_once():
    assert agresti_caffo_interval(47, 50, 37, 50).estimate == 0.2


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
    assert wilson_interval(np.uint8(200), np.uint8(201)) == wilson_interval(200, 201)


def test_results_are_plain_floats_whatever_the_level_is():
    ci = agresti_caffo_interval(3, 10, 0, 10, level=np.float32(0.5))
    assert {type(value) for value in (ci.estimate, ci.low, ci.high, ci.level)} == {float}


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((True, 5, 0, 5), "need oracle_successes to be a whole number of at least 0, got True"),
        ((np.True_, 5, 0, 5), "need oracle_successes to be a whole number .*, got np.True_"),
        ((3.0, 5, 0, 5), "need oracle_successes to be a whole number of at least 0, got 3.0"),
        ((1, 5, -1, 5), "need learned_successes to be a whole number of at least 0, got -1"),
        ((1, 5, "0", 5), "need learned_successes to be a whole number .*, got '0'"),
        ((0, 0, 0, 5), "need oracle_episodes to be a whole number of at least 1, got 0"),
        ((1, 5, None, 5), "need learned_successes to be a whole number .*, got None"),
        ((1, 5, 6, 5), "need learned_successes <= learned_episodes, got 6 of 5"),
    ],
)
def test_impossible_counts_name_the_argument_and_the_value(counts, message):
    with pytest.raises(ValueError, match=message):
        agresti_caffo_interval(*counts)


def test_impossible_counts_of_one_arm_are_named_without_an_arm():
    with pytest.raises(ValueError, match="need successes <= episodes, got 3 of 2"):
        wilson_interval(3, 2)
    with pytest.raises(ValueError, match="need episodes to be a whole number of at least 1, got 0"):
        wilson_interval(0, 0)


def test_an_empty_or_negative_paired_table_is_refused():
    with pytest.raises(ValueError, match="need at least one episode"):
        bonett_price_interval(both=0, oracle_only=0, learned_only=0, neither=0)
    with pytest.raises(ValueError, match=r"need neither to be a whole number .*, got -1"):
        bonett_price_interval(both=3, oracle_only=0, learned_only=0, neither=-1)


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, 95, float("nan"), True, "0.95", None])
def test_an_impossible_level_is_refused_with_its_value(level):
    with pytest.raises(ValueError, match=f"need a level between 0 and 1.*got {level!r}"):
        agresti_caffo_interval(3, 10, 0, 10, level=level)


def test_levels_at_the_ends_of_the_floats_give_bounds():
    extreme = agresti_caffo_interval(30, 50, 20, 50, level=1 - 2**-53)
    assert -1 < extreme.low < extreme.high < 1
    degenerate = agresti_caffo_interval(30, 50, 20, 50, level=5e-324)
    assert degenerate.low == degenerate.high == pytest.approx(10 / 52)


def test_importing_the_statistics_loads_no_numerical_package():
    heavy = {"numpy", "scipy", "torch", "pytest", "statistics"}
    program = f"import sys, pytest_cpg.stats; print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@unhurried
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

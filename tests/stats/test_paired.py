import math
from fractions import Fraction
from statistics import NormalDist, fmean, pvariance

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.paired import (
    BONETT_PRICE,
    PAIRED_METHODS,
    exact_mcnemar_p_value,
    fewest_significant_losses,
)
from pytest_cpg.stats.pairing import Pairs
from pytest_cpg.stats.power import episodes_to_settle

NAMES = ("both", "oracle_only", "learned_only", "neither")

two_hundred = settings(max_examples=200)
levels = st.floats(0.5, 0.999)
gaps = st.one_of(st.just(0.0), st.floats(-0.99, 0.99))
margins = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.5])
every_method = pytest.mark.parametrize("method", PAIRED_METHODS.values(), ids=PAIRED_METHODS)


@st.composite
def paired_tables(draw, most=80):
    table = {name: draw(st.integers(0, most)) for name in NAMES}
    return table if any(table.values()) else table | {draw(st.sampled_from(NAMES)): 1}


def swapped(table):
    return table | {"oracle_only": table["learned_only"], "learned_only": table["oracle_only"]}


def is_tie(p, level):
    """Whether rounding decides which of p and alpha is the smaller one."""
    return p == pytest.approx((1 - level) / 2, rel=1e-9)


def multiples(table):
    """Yield the numbers of starts and the tables at which all shares are whole counts."""
    total = sum(table.values())
    for factor in (1, 2, 3, 5, 8, 13, 21, 34, 55):
        yield factor * total, {name: factor * count for name, count in table.items()}


def counts_of(n):
    """Return every number of wins and losses among ``n`` starts, as two arrays."""
    wins, losses = np.indices((n + 1, n + 1)).reshape(2, -1)
    return wins[wins + losses <= n], losses[wins + losses <= n]


@every_method
@given(table=paired_tables(), level=levels)
def test_swapping_the_arms_mirrors_the_gap(method, table, level):
    ci = method.interval(Pairs(**table), level=level)
    mirrored = method.interval(Pairs(**swapped(table)), level=level)
    assert (mirrored.estimate, mirrored.low, mirrored.high) == (-ci.estimate, -ci.high, -ci.low)


@every_method
@given(table=paired_tables(), level=levels)
def test_it_does_not_matter_how_agreement_divides_into_both_and_neither(method, table, level):
    moved = table | {"both": table["both"] + table["neither"], "neither": 0}
    assert method.interval(Pairs(**moved), level=level) == method.interval(
        Pairs(**table), level=level
    )
    assert method.p_value(Pairs(**moved)) == method.p_value(Pairs(**table))


@every_method
@given(table=paired_tables())
def test_the_estimate_is_that_of_the_independent_interval(method, table):
    n = sum(table.values())
    oracle, learned = table["both"] + table["oracle_only"], table["both"] + table["learned_only"]
    assert (
        method.interval(Pairs(**table)).estimate
        == agresti_caffo_interval(oracle, n, learned, n).estimate
    )


@every_method
def test_a_single_start_never_decides(method):
    for name in NAMES:
        ci = method.interval(Pairs(**dict.fromkeys(NAMES, 0) | {name: 1}))
        assert ci.low < 0 < ci.high


@every_method
def test_huge_counts_keep_their_digits(method):
    # The normal limit: half a width is z sqrt(variance / n), here for a gap of 0.
    n = 4 * 10**12
    ci = method.interval(Pairs(**dict.fromkeys(NAMES, n // 4)))
    half = NormalDist().inv_cdf(0.975) * math.sqrt(0.5 / n)
    assert (ci.low, ci.high) == pytest.approx((-half, half), rel=1e-6)


@every_method
def test_numpy_integers_are_counts(method):
    counts = {"both": np.uint8(200), "oracle_only": np.int64(40), "learned_only": np.int32(9)}
    ci = method.interval(Pairs(**counts, neither=np.uint8(100)))
    assert ci == method.interval(Pairs(both=200, oracle_only=40, learned_only=9, neither=100))
    assert {type(value) for value in (ci.estimate, ci.low, ci.high, ci.level)} == {float}


@every_method
@two_hundred
@given(table=paired_tables(), gap=gaps, level=levels)
def test_the_region_is_above_and_below_where_the_interval_is(method, table, gap, level):
    ci, z, n = (
        method.interval(Pairs(**table), level=level),
        critical_value(level),
        sum(table.values()),
    )
    wins, losses = table["oracle_only"], table["learned_only"]
    is_above = bool(method.above(wins, losses, n, gap=gap, z=z))
    is_below = bool(method.above(losses, wins, n, gap=-gap, z=z))
    # At the gap itself rounding decides.
    if min(abs(ci.low - gap), abs(ci.high - gap)) > 1e-12:
        assert (is_above, is_below) == (ci.low > gap, ci.high < gap)


@every_method
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_the_region_decides_as_the_interval_for_all_counts_of_few_starts(method, n):
    wins, losses = counts_of(n)
    above = method.above(wins, losses, n, z=critical_value(0.95))
    for won, lost, is_above in zip(wins.tolist(), losses.tolist(), above, strict=True):
        table = {"both": n - won - lost, "oracle_only": won, "learned_only": lost, "neither": 0}
        assert is_above == (method.interval(Pairs(**table)).low > 0)


@every_method
@pytest.mark.parametrize("n", [5, 12, 20])
def test_one_win_more_among_the_same_disagreements_never_leaves_a_region(method, n):
    wins, losses = counts_of(n)
    wins, losses, z = wins[losses > 0], losses[losses > 0], critical_value(0.95)
    now, after = (method.above(wins + i, losses - i, n, z=z) for i in (0, 1))
    assert (now <= after).all()


@every_method
def test_counts_of_a_region_need_not_be_whole(method):
    assert bool(method.above(8.5, 0.5, 12.0, z=critical_value(0.95)))


@every_method
@two_hundred
@given(table=paired_tables(), level=levels)
def test_p_is_below_alpha_exactly_where_the_paired_interval_lies_above_zero(method, table, level):
    p = method.p_value(Pairs(**table))
    if not is_tie(p, level):
        assert (method.interval(Pairs(**table), level=level).low > 0) == (p < (1 - level) / 2)


@every_method
def test_arms_that_always_agree_have_p_one_half(method):
    assert method.p_value(Pairs(both=7, oracle_only=0, learned_only=0, neither=3)) == 0.5
    assert method.p_value(Pairs(both=7, oracle_only=4, learned_only=4, neither=3)) == 0.5


@every_method
def test_p_is_never_zero_however_clear_the_gap(method):
    table = {"both": 0, "oracle_only": 10**6, "learned_only": 0, "neither": 0}
    assert 0 < method.p_value(Pairs(**table)) < 1e-15
    assert method.p_value(Pairs(**swapped(table))) == 1


@every_method
@given(table=paired_tables(), level=levels)
def test_multiples_of_a_table_resolve_exactly_from_the_promised_size_on(method, table, level):
    promised = method.episodes_to_settle(Pairs(**table), level=level)
    for size, counts in multiples(table):
        ci = method.interval(Pairs(**counts), level=level)
        assert (ci.low > 0 or ci.high < 0) == (promised is not None and size >= promised)


@every_method
@given(table=paired_tables(), level=levels, margin=margins)
def test_multiples_of_a_table_prove_a_margin_exactly_from_the_promised_size_on(
    method, table, level, margin
):
    promised = method.episodes_to_settle(Pairs(**table), margin=margin, level=level)
    for size, counts in multiples(table):
        ci = method.interval(Pairs(**counts), level=level)
        assert (ci.high < margin) == (promised is not None and size >= promised)


def test_arms_that_agree_more_take_fewer_starts():
    alike = {"both": 42, "oracle_only": 5, "learned_only": 1, "neither": 2}
    apart = {"both": 40, "oracle_only": 7, "learned_only": 3, "neither": 0}
    sizes = [BONETT_PRICE.episodes_to_settle(Pairs(**table)) for table in (alike, apart)]
    # Both tables have 47 and 43 successes of 50.
    assert sizes == [83, 126]
    assert episodes_to_settle(47, 50, 43, 50) == 115


@every_method
def test_arms_that_each_won_as_many_starts_are_never_resolved(method):
    table = {"both": 3, "oracle_only": 4, "learned_only": 4, "neither": 3}
    assert method.episodes_to_settle(Pairs(**table)) is None
    assert method.episodes_to_settle(Pairs(**table), limit=10**9) is None


def test_the_fewest_starts_may_be_more_or_less_than_were_run():
    table = {"both": 0, "oracle_only": 150, "learned_only": 0, "neither": 0}
    assert BONETT_PRICE.episodes_to_settle(Pairs(**table)) == 4
    assert BONETT_PRICE.episodes_to_settle(Pairs(**table), limit=3) is None


def test_a_gap_as_large_as_the_margin_is_never_proven_to_be_below_it():
    table = {"both": 42, "oracle_only": 5, "learned_only": 0, "neither": 3}
    assert BONETT_PRICE.episodes_to_settle(Pairs(**table), margin=0.1, limit=10**9) is None
    assert BONETT_PRICE.episodes_to_settle(Pairs(**table), margin=0.11) == 3436


counts = st.integers(0, 80)


@given(st.tuples(counts, counts, counts).filter(any), st.floats(0.5, 0.999))
def test_it_is_the_wald_interval_of_scores_with_one_win_and_one_loss_added(table, level):
    agreed, wins, losses = table
    scores = [1] * (wins + 1) + [-1] * (losses + 1) + [0] * agreed
    half = NormalDist().inv_cdf((1 + level) / 2) * (pvariance(scores) / len(scores)) ** 0.5
    reference = np.clip((fmean(scores) - half, fmean(scores) + half), -1, 1)
    ci = BONETT_PRICE.interval(
        Pairs(both=agreed, oracle_only=wins, learned_only=losses, neither=0), level=level
    )
    assert (ci.low, ci.high) == pytest.approx(reference, abs=1e-12, rel=0)


def test_it_agrees_with_the_example_of_the_r_package_statpsych():
    # The manual of D. G. Bonett's package: ci.prop.ps(.05, 12, 4, 26, 6).
    ci = BONETT_PRICE.interval(Pairs(both=6, oracle_only=26, learned_only=4, neither=12))
    assert (ci.low, ci.high) == pytest.approx((0.2548067, 0.6251933), abs=5e-8)
    assert (ci.estimate, ci.method) == (22 / 48, "Bonett-Price 2012")


def test_bounds_are_cut_where_the_formula_leaves_the_range_of_a_difference():
    assert BONETT_PRICE.interval(Pairs(both=0, oracle_only=1, learned_only=0, neither=0)).high == 1


def test_its_p_value_is_the_z_test_of_statsmodels_with_a_win_and_a_loss_added():
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    for agreed, wins, losses in np.random.default_rng(0).integers(0, 41, (500, 3)).tolist():
        scores = np.repeat([1, -1, 0], [wins + 1, losses + 1, agreed + 1])
        _, reference = weightstats.ztest(scores, alternative="larger", ddof=0)
        p = BONETT_PRICE.p_value(
            Pairs(both=agreed, oracle_only=wins, learned_only=losses, neither=1)
        )
        assert p == pytest.approx(reference, abs=1e-10, rel=1e-10)


def test_four_starts_that_the_oracle_alone_solved_have_an_interval_above_zero():
    # Of equal models 6.25 % have: such a gate must not be judged by it.
    assert BONETT_PRICE.interval(Pairs(both=0, oracle_only=4, learned_only=0, neither=0)).low > 0
    assert BONETT_PRICE.smallest_decisive_pairs(level=0.95) == 6


def test_exact_mcnemar_agrees_with_scipy_and_statsmodels():
    stats = pytest.importorskip("scipy.stats")
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    for lost, gained in np.random.default_rng(0).integers(0, 151, (500, 2)).tolist():
        p = exact_mcnemar_p_value(lost=lost, gained=gained)
        if lost + gained:
            binomial = stats.binomtest(lost, lost + gained).pvalue
            assert p == pytest.approx(binomial, abs=1e-10, rel=1e-9)
        reference = contingency.mcnemar([[5, lost], [gained, 5]], exact=True).pvalue
        assert p == pytest.approx(reference, abs=1e-10, rel=1e-9)


def test_exact_mcnemar_is_the_share_of_sign_patterns_that_are_as_lopsided():
    for changed in range(1, 13):
        patterns = [bin(pattern).count("1") for pattern in range(2**changed)]
        for lost in range(changed + 1):
            lopsided = sum(abs(2 * k - changed) >= abs(2 * lost - changed) for k in patterns)
            p = exact_mcnemar_p_value(lost=lost, gained=changed - lost)
            assert p == float(Fraction(lopsided, 2**changed))


@given(lost=st.integers(0, 300), gained=st.integers(0, 300))
def test_exact_mcnemar_is_symmetric_and_falls_as_the_changes_part(lost, gained):
    p = exact_mcnemar_p_value(lost=lost, gained=gained)
    assert 0 < p <= 1
    assert p == exact_mcnemar_p_value(lost=gained, gained=lost)
    if lost >= gained > 0:
        assert exact_mcnemar_p_value(lost=lost + 1, gained=gained - 1) < p


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95, 0.99, 0.9999])
def test_the_fewest_significant_losses_are_those_of_scipy(level):
    binomtest = pytest.importorskip("scipy.stats").binomtest
    least = fewest_significant_losses(level=level)
    assert binomtest(least, least).pvalue <= 1 - level < binomtest(least - 1, least - 1).pvalue


def test_exact_mcnemar_reproduces_the_example_of_the_failure_message():
    assert exact_mcnemar_p_value(lost=8, gained=1) == 20 / 512


def test_nothing_lost_and_nothing_gained_is_no_evidence():
    assert exact_mcnemar_p_value(lost=0, gained=0) == 1
    assert exact_mcnemar_p_value(lost=5, gained=5) == 1


def test_huge_counts_overflow_nothing_and_never_give_zero():
    assert exact_mcnemar_p_value(lost=5000, gained=0) > 0
    deviation = NormalDist().cdf(-(200 - 1) / math.sqrt(20_000))
    p = exact_mcnemar_p_value(lost=10_100, gained=9_900)
    assert p == pytest.approx(2 * deviation, rel=1e-3)

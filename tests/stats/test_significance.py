import math
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import (
    Interval,
    agresti_caffo_interval,
    bonett_price_interval,
    newcombe_paired_interval,
    tango_interval,
)
from pytest_cpg.stats.significance import (
    PAIRED_P_VALUES,
    agresti_caffo_p_value,
    exact_mcnemar_p_value,
    fewest_significant_losses,
    inverted_p_value,
)

NAMES = ("both", "oracle_only", "learned_only", "neither")
PAIRED = {
    "bonett-price": bonett_price_interval,
    "newcombe-paired": newcombe_paired_interval,
    "tango": tango_interval,
}

# A busy machine is no failure.
unhurried = settings(deadline=None)
five_hundred = settings(deadline=None, max_examples=500)
levels = st.floats(0.01, 0.9999)
every_paired = pytest.mark.parametrize("name", PAIRED)


@st.composite
def arms(draw, most=400):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


@st.composite
def paired_tables(draw, most=80):
    table = {name: draw(st.integers(0, most)) for name in NAMES}
    return table if any(table.values()) else table | {draw(st.sampled_from(NAMES)): 1}


def random_tables(count, most):
    rng = np.random.default_rng(0)
    counts = rng.integers(0, most, size=(count, 4), endpoint=True)
    counts[:, 3] += counts.sum(axis=1) == 0
    return [dict(zip(NAMES, map(int, row), strict=True)) for row in counts]


def swapped(table):
    return table | {"oracle_only": table["learned_only"], "learned_only": table["oracle_only"]}


def is_tie(p, level):
    """Whether rounding decides which of p and alpha is the smaller one."""
    return p == pytest.approx((1 - level) / 2, rel=1e-9)


def test_every_paired_interval_has_its_p_value():
    assert PAIRED_P_VALUES.keys() == PAIRED.keys()


@five_hundred
@given(oracle=arms(), learned=arms(), level=levels)
def test_p_is_below_alpha_exactly_where_agresti_caffo_lies_above_zero(oracle, learned, level):
    p = agresti_caffo_p_value(*oracle, *learned)
    if not is_tie(p, level):
        interval = agresti_caffo_interval(*oracle, *learned, level=level)
        assert (interval.low > 0) == (p < (1 - level) / 2)


@every_paired
@five_hundred
@given(table=paired_tables(), level=levels)
def test_p_is_below_alpha_exactly_where_the_paired_interval_lies_above_zero(name, table, level):
    p = PAIRED_P_VALUES[name](**table)
    if not is_tie(p, level):
        assert (PAIRED[name](**table, level=level).low > 0) == (p < (1 - level) / 2)


@every_paired
@unhurried
@given(table=paired_tables(most=20))
def test_the_interval_at_the_level_of_p_starts_at_zero(name, table):
    p = PAIRED_P_VALUES[name](**table)
    if 1e-6 < p < 0.499:
        assert PAIRED[name](**table, level=1 - 2 * p).low == pytest.approx(0, abs=1e-9)


@every_paired
@unhurried
@given(table=paired_tables())
def test_swapping_the_paired_arms_turns_p_into_its_complement(name, table):
    p = PAIRED_P_VALUES[name](**table)
    assert 0 < p <= 1
    assert PAIRED_P_VALUES[name](**swapped(table)) == pytest.approx(1 - p, abs=1e-12)


@unhurried
@given(oracle=arms(), learned=arms())
def test_swapping_the_arms_turns_p_into_its_complement(oracle, learned):
    p = agresti_caffo_p_value(*oracle, *learned)
    assert 0 < p <= 1
    assert agresti_caffo_p_value(*learned, *oracle) == pytest.approx(1 - p, abs=1e-12)


def test_agresti_caffo_is_the_wald_test_of_scipy_with_a_success_and_a_failure_added():
    stats = pytest.importorskip("scipy.stats")
    for table in random_tables(500, most=200):
        s, n = table["both"], table["both"] + table["oracle_only"] + 1
        t, m = table["learned_only"], table["learned_only"] + table["neither"] + 1
        rates = np.array([(s + 1) / (n + 2), (t + 1) / (m + 2)])
        scale = np.sqrt((rates * (1 - rates) / [n + 2, m + 2]).sum())
        reference = stats.norm.sf(rates[0] - rates[1], scale=scale)
        assert agresti_caffo_p_value(s, n, t, m) == pytest.approx(reference, abs=1e-10, rel=1e-10)


def test_bonett_price_is_the_z_test_of_statsmodels_with_a_win_and_a_loss_added():
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    for table in random_tables(500, most=40):
        scores = np.repeat([1, -1, 0], [table["oracle_only"] + 1, table["learned_only"] + 1, 0])
        scores = np.concatenate([scores, np.zeros(table["both"] + table["neither"])])
        _, reference = weightstats.ztest(scores, alternative="larger", ddof=0)
        p = PAIRED_P_VALUES["bonett-price"](**table)
        assert p == pytest.approx(reference, abs=1e-10, rel=1e-10)


def test_twice_tango_is_the_mcnemar_test_of_statsmodels_without_correction():
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    for table in random_tables(500, most=80):
        a, b, c, d = table.values()
        if b + c:
            reference = contingency.mcnemar([[a, b], [c, d]], exact=False, correction=False).pvalue
            p = PAIRED_P_VALUES["tango"](**table)
            assert 2 * min(p, 1 - p) == pytest.approx(reference, abs=1e-10, rel=1e-8)


def test_newcombe_agrees_with_a_root_found_by_scipy():
    optimize = pytest.importorskip("scipy.optimize")
    for table in random_tables(500, most=30):
        p = PAIRED_P_VALUES["newcombe-paired"](**table)
        if 1e-9 < p < 0.499:
            root = optimize.brentq(
                lambda alpha, table=table: (
                    newcombe_paired_interval(**table, level=1 - 2 * alpha).low
                ),
                1e-10,
                0.4999,
                xtol=1e-15,
            )
            assert p == pytest.approx(root, abs=1e-10)


# Newcombe's also depends on how agreement divides, and may rise where the last failure in common
# goes.
@pytest.mark.parametrize("name", ["bonett-price", "tango"])
@unhurried
@given(table=paired_tables(most=30))
def test_a_start_lost_in_place_of_an_agreement_lowers_p(name, table):
    if table["neither"]:
        lost = table | {
            "oracle_only": table["oracle_only"] + 1,
            "neither": table["neither"] - 1,
        }
        assert PAIRED_P_VALUES[name](**lost) < PAIRED_P_VALUES[name](**table)


@every_paired
def test_arms_that_always_agree_have_p_one_half(name):
    assert PAIRED_P_VALUES[name](both=7, oracle_only=0, learned_only=0, neither=3) == 0.5
    assert PAIRED_P_VALUES[name](both=7, oracle_only=4, learned_only=4, neither=3) == 0.5
    assert agresti_caffo_p_value(7, 10, 7, 10) == 0.5


@every_paired
def test_p_is_never_zero_however_clear_the_gap(name):
    table = {"both": 0, "oracle_only": 10**6, "learned_only": 0, "neither": 0}
    assert 0 < PAIRED_P_VALUES[name](**table) < 1e-15
    assert PAIRED_P_VALUES[name](**swapped(table)) == 1
    assert 0 < agresti_caffo_p_value(10**6, 10**6, 0, 10**6) < 1e-15


def shifted(shift):
    def at(level):
        half = -NormalDist().inv_cdf((1 - level) / 2)
        return Interval(
            estimate=shift, low=shift - half, high=shift + half, level=level, method="normal"
        )

    return at


@pytest.mark.parametrize("z", [0.3, 1.0, 1.96, 3.0, 5.0])
def test_an_inverted_normal_interval_gives_the_normal_p_value(z):
    assert inverted_p_value(shifted(z)) == pytest.approx(NormalDist().cdf(-z), abs=1e-15)


def test_an_inverted_p_value_stays_within_what_a_level_can_say():
    assert inverted_p_value(shifted(-1.0)) == 0.5
    assert inverted_p_value(shifted(40.0)) == 2**-54


@every_paired
def test_inverting_an_interval_gives_the_p_value_of_its_closed_form(name):
    for table in random_tables(60, most=30):
        p = PAIRED_P_VALUES[name](**table)
        inverted = inverted_p_value(lambda level, table=table: PAIRED[name](**table, level=level))
        assert inverted == pytest.approx(min(p, 0.5), abs=1e-12)


def test_exact_mcnemar_agrees_with_scipy_and_statsmodels():
    stats = pytest.importorskip("scipy.stats")
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    for table in random_tables(500, most=150):
        lost, gained = table["oracle_only"], table["learned_only"]
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


@unhurried
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


@pytest.mark.parametrize("value", [-1, 1.0, True, None, "3"])
def test_an_impossible_count_is_named_with_its_value(value):
    with pytest.raises(ValueError, match=rf"need lost to be a whole number .*, got {value!r}$"):
        exact_mcnemar_p_value(lost=value, gained=2)
    with pytest.raises(ValueError, match=rf"need oracle_successes to .*, got {value!r}$"):
        agresti_caffo_p_value(value, 5, 0, 5)
    for p_value in PAIRED_P_VALUES.values():
        with pytest.raises(ValueError, match=rf"need both to be a whole number .*, got {value!r}$"):
            p_value(both=value, oracle_only=1, learned_only=1, neither=1)


@every_paired
def test_no_episode_is_refused(name):
    with pytest.raises(ValueError, match="need at least one episode, got four counts of 0"):
        PAIRED_P_VALUES[name](**dict.fromkeys(NAMES, 0))

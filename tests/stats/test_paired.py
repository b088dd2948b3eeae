import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import Interval, agresti_caffo_interval
from pytest_cpg.stats.paired import newcombe_paired_interval, tango_interval

NAMES = ("both", "oracle_only", "learned_only", "neither")
METHODS = [tango_interval, newcombe_paired_interval]

# A busy machine is no failure.
unhurried = settings(deadline=None)
five_hundred = settings(deadline=None, max_examples=500)
levels = st.floats(0.5, 0.999)
every_method = pytest.mark.parametrize("method", METHODS)


@st.composite
def paired_tables(draw, most=80):
    table = {name: draw(st.integers(0, most)) for name in NAMES}
    return table if any(table.values()) else table | {draw(st.sampled_from(NAMES)): 1}


def bounds(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def published(method, counts, level=0.95):
    return bounds(method(**dict(zip(NAMES, counts, strict=True)), level=level))


def halved(negative, positive, sign):
    """Return where ``sign`` passes from negative to positive, without a look at either end."""
    for _ in range(80):
        middle = (negative + positive) / 2
        if sign(middle) < 0:
            negative = middle
        else:
            positive = middle
    return (negative + positive) / 2


def score_statistic(gap, wins, losses, agreed):
    """Return Rao's score statistic of a gap as Pearson's chi-square at the likeliest chances.

    The likeliest chance of a loss is searched for on the slope of the log likelihood.
    """

    def pull(count, chance):
        # A chance of an outcome that was seen may round to 0, where it would be least likely.
        return 0.0 if count == 0 else count / chance if chance > 0 else math.inf

    def slope(loss):
        return pull(wins, loss + gap) + pull(losses, loss) - 2 * pull(agreed, 1 - gap - 2 * loss)

    n = wins + losses + agreed
    loss = halved(max(0.0, -gap), (1 - gap) / 2, lambda chance: -slope(chance))
    expected = (n * (loss + gap), n * loss, n * (1 - gap - 2 * loss))
    observed = (wins, losses, agreed)
    return sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True) if o or e > 1e-12)


def inverted_score_test(both, oracle_only, learned_only, neither, level):
    counts = oracle_only, learned_only, both + neither
    chi_square = NormalDist().inv_cdf((1 + level) / 2) ** 2
    gap = (oracle_only - learned_only) / sum(counts)
    low = halved(gap, -1.0, lambda value: score_statistic(value, *counts) - chi_square)
    high = halved(gap, 1.0, lambda value: score_statistic(value, *counts) - chi_square)
    return low, high


def method_ten(both, oracle_only, learned_only, neither, level):
    """Return Newcombe's bounds from a matrix of counts and Wilson's bounds as scipy has them."""
    stats = pytest.importorskip("scipy.stats")
    counts = np.array([[both, oracle_only], [learned_only, neither]], dtype=float)
    n = counts.sum()
    successes = np.array([counts[0].sum(), counts[:, 0].sum()])
    wilson = [
        stats.binomtest(int(s), int(n)).proportion_ci(level, method="wilson") for s in successes
    ]
    lower, upper = np.array([(ci.low, ci.high) for ci in wilson]).T
    rates = successes / n
    deviations = math.sqrt(n**2 * np.prod(rates * (1 - rates)))
    covariance = counts[0, 0] - successes.prod() / n
    if covariance > 0:
        covariance = max(covariance - 0.5, 0)
    phi = 0 if deviations == 0 else covariance / deviations
    down, up = rates - lower, upper - rates
    gap = rates[0] - rates[1]
    return (
        gap - math.sqrt(down[0] ** 2 + up[1] ** 2 - 2 * phi * down[0] * up[1]),
        gap + math.sqrt(up[0] ** 2 + down[1] ** 2 - 2 * phi * up[0] * down[1]),
    )


@given(table=paired_tables(), level=levels)
@settings(deadline=None, max_examples=150)
def test_tango_inverts_the_score_test(table, level):
    ci = tango_interval(**table, level=level)
    reference = inverted_score_test(**table, level=level)
    assert bounds(ci) == pytest.approx(reference, abs=1e-10, rel=0)


def test_tango_inverts_the_score_test_in_every_table_of_few_starts():
    for n in (1, 2, 3, 7):
        for wins in range(n + 1):
            for losses in range(n + 1 - wins):
                table = dict(zip(NAMES, (n - wins - losses, wins, losses, 0), strict=True))
                reference = inverted_score_test(**table, level=0.95)
                assert bounds(tango_interval(**table)) == pytest.approx(reference, abs=1e-10, rel=0)


@given(table=paired_tables(most=20))
@settings(deadline=None, max_examples=50)
def test_the_score_test_keeps_exactly_the_gaps_inside_tango(table):
    ci = tango_interval(**table)
    agreed = table["both"] + table["neither"]
    chi_square = NormalDist().inv_cdf(0.975) ** 2
    for gap in np.linspace(-0.99, 0.99, 67):
        if min(abs(gap - ci.low), abs(gap - ci.high)) > 1e-9:
            score = score_statistic(gap, table["oracle_only"], table["learned_only"], agreed)
            assert (score <= chi_square) == (ci.low < gap < ci.high)


@five_hundred
@given(table=paired_tables(), level=levels)
def test_newcombe_agrees_with_method_ten_built_on_scipy(table, level):
    ci = newcombe_paired_interval(**table, level=level)
    assert bounds(ci) == pytest.approx(method_ten(**table, level=level), abs=1e-10, rel=0)


@pytest.mark.parametrize(
    ("counts", "level", "low", "high", "digits"),
    [
        # Fagerland, Lydersen and Laake (Stat. Med. 33:2850-2875, 2014), table V.
        ((1, 1, 7, 12), 0.95, -0.517, -0.026, 3),
        # Tango (Stat. Med. 17:891-908, 1998), the crossover trial and the contact lenses.
        ((4, 9, 3, 16), 0.95, -0.027, 0.390, 3),
        ((43, 0, 1, 0), 0.90, -0.096, 0.037, 3),
        # Agresti and Min (Stat. Med. 24:729-740, 2005).
        ((53, 16, 8, 9), 0.95, -0.020, 0.207, 3),
        # Tang, Ling, Ling and Tian (Stat. Med. 29:46-62, 2010).
        ((8, 3, 1, 2), 0.95, -0.1670, 0.4327, 4),
    ],
)
def test_tango_reproduces_published_examples(counts, level, low, high, digits):
    rounding = 0.5001 * 10**-digits
    assert published(tango_interval, counts, level) == pytest.approx((low, high), abs=rounding)


@pytest.mark.parametrize(
    ("counts", "low", "high", "digits"),
    [
        # Newcombe (Stat. Med. 17:2635-2650, 1998), method 10; method 8 has 0.0618 and 0.3242.
        ((20, 12, 2, 16), 0.0562, 0.3292, 4),
        # Fagerland, Lydersen and Laake (Stat. Med. 33:2850-2875, 2014), table V.
        ((1, 1, 7, 12), -0.507, -0.026, 3),
        # Cavo et al. 2012 in the R package contingencytables of Fagerland, Lydersen and Laake.
        ((59, 6, 16, 80), -0.1186, -0.0046, 4),
        # Tang, Ling, Ling and Tian (Stat. Med. 29:46-62, 2010).
        ((8, 3, 1, 2), -0.1574, 0.4136, 4),
    ],
)
def test_newcombe_reproduces_published_examples(counts, low, high, digits):
    rounding = 0.5001 * 10**-digits
    assert published(newcombe_paired_interval, counts) == pytest.approx((low, high), abs=rounding)


@every_method
@unhurried
@given(table=paired_tables(), level=levels)
def test_swapping_the_arms_mirrors_the_gap(method, table, level):
    ci = method(**table, level=level)
    table["oracle_only"], table["learned_only"] = table["learned_only"], table["oracle_only"]
    swapped = method(**table, level=level)
    assert (swapped.estimate, swapped.low, swapped.high) == (-ci.estimate, -ci.high, -ci.low)


@every_method
@unhurried
@given(table=paired_tables(), level=levels)
def test_counting_failures_instead_of_successes_mirrors_the_gap(method, table, level):
    ci = method(**table, level=level)
    failures = dict(zip(NAMES, reversed([table[name] for name in NAMES]), strict=True))
    mirrored = method(**failures, level=level)
    assert bounds(mirrored) == pytest.approx((-ci.high, -ci.low), abs=1e-12)


@every_method
@unhurried
@given(table=paired_tables(most=6), level=st.floats(1e-4, 1 - 1e-12))
def test_the_gap_lies_between_its_bounds_and_both_between_minus_one_and_one(method, table, level):
    ci = method(**table, level=level)
    assert -1 <= ci.low <= ci.estimate <= ci.high <= 1
    assert ci.low < ci.high


@every_method
@unhurried
@given(table=paired_tables(), level=st.floats(0.5, 0.95))
def test_a_higher_level_never_narrows_an_interval(method, table, level):
    ci, wider = method(**table, level=level), method(**table, level=level + 0.04)
    assert wider.low <= ci.low
    assert wider.high >= ci.high


@every_method
@unhurried
@given(table=paired_tables(most=40), level=levels)
def test_the_same_shares_of_more_starts_narrow_an_interval(method, table, level):
    ci = method(**table, level=level)
    doubled = method(**{name: 2 * count for name, count in table.items()}, level=level)
    assert doubled.estimate == ci.estimate
    assert doubled.high - doubled.low < ci.high - ci.low


@every_method
@unhurried
@given(table=paired_tables())
def test_the_estimate_is_that_of_the_independent_interval(method, table):
    n = sum(table.values())
    oracle, learned = table["both"] + table["oracle_only"], table["both"] + table["learned_only"]
    assert method(**table).estimate == agresti_caffo_interval(oracle, n, learned, n).estimate


@unhurried
@given(table=paired_tables())
def test_tango_does_not_care_how_agreement_divides_into_both_and_neither(table):
    agreed = table["both"] + table["neither"]
    moved = tango_interval(**table | {"both": agreed, "neither": 0})
    assert moved == tango_interval(**table)


@unhurried
@given(table=paired_tables(), level=levels)
def test_tango_excludes_no_gap_exactly_where_mcnemar_rejects_it(table, level):
    wins, losses = table["oracle_only"], table["learned_only"]
    z = NormalDist().inv_cdf((1 + level) / 2)
    mcnemar = (wins - losses) / math.sqrt(wins + losses) if wins + losses else 0.0
    ci = tango_interval(**table, level=level)
    if abs(abs(mcnemar) - z) > 1e-9:
        assert (ci.low > 0, ci.high < 0) == (mcnemar > z, mcnemar < -z)


@every_method
@pytest.mark.parametrize("n", [1, 2, 50])
def test_an_arm_that_alone_solves_every_start_ends_exactly_at_one(method, n):
    table = dict.fromkeys(NAMES, 0)
    oracle = method(**table | {"oracle_only": n})
    learned = method(**table | {"learned_only": n})
    assert (oracle.estimate, oracle.high) == (1, 1)
    assert (learned.estimate, learned.low) == (-1, -1)


@every_method
@pytest.mark.parametrize("name", ["both", "neither"])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_arms_that_always_agree_have_no_gap_and_wilson_bounds(method, name, n):
    z = NormalDist().inv_cdf(0.975)
    ci = method(**dict.fromkeys(NAMES, 0) | {name: n})
    assert ci.estimate == 0
    assert bounds(ci) == pytest.approx((-(z**2) / (n + z**2), z**2 / (n + z**2)), abs=1e-15)


@every_method
def test_a_single_start_never_decides(method):
    for name in NAMES:
        ci = method(**dict.fromkeys(NAMES, 0) | {name: 1})
        assert ci.low < 0 < ci.high


@every_method
def test_huge_counts_keep_their_digits(method):
    # The normal limit: half a width is z sqrt(variance / n), here for a gap of 0.
    n = 4 * 10**12
    ci = method(**dict.fromkeys(NAMES, n // 4))
    half = NormalDist().inv_cdf(0.975) * math.sqrt(0.5 / n)
    assert bounds(ci) == pytest.approx((-half, half), rel=1e-6)


@every_method
def test_numpy_integers_are_counts(method):
    counts = {"both": np.uint8(200), "oracle_only": np.int64(40), "learned_only": np.int32(9)}
    ci = method(**counts, neither=np.uint8(100))
    assert ci == method(both=200, oracle_only=40, learned_only=9, neither=100)
    assert {type(value) for value in (ci.estimate, ci.low, ci.high, ci.level)} == {float}


@every_method
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [-1, 1.0, True, None, "3"])
def test_an_impossible_count_is_named_with_its_value(method, name, value):
    counts = dict.fromkeys(NAMES, 5) | {name: value}
    with pytest.raises(ValueError, match=rf"{name} to be a whole number .*, got {value!r}$"):
        method(**counts)


@every_method
def test_no_episode_is_refused(method):
    with pytest.raises(ValueError, match="need at least one episode, got four counts of 0"):
        method(**dict.fromkeys(NAMES, 0))


@every_method
@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan, "0.95", True])
def test_an_impossible_level_is_refused_with_its_value(method, level):
    with pytest.raises(ValueError, match=rf"need a level between 0 and 1.*, got {level!r}$"):
        method(**dict.fromkeys(NAMES, 5), level=level)


def test_each_method_is_named():
    counts = dict.fromkeys(NAMES, 5)
    assert [method(**counts).method for method in METHODS] == ["Tango 1998", "Newcombe 1998"]

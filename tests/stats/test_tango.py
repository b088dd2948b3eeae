import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import Interval
from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.paired import (
    TANGO,
    exact_tango_p_value,
    fewest_wins,
    margin_interval,
    margin_level,
)
from pytest_cpg.stats.pairing import Pairs

NAMES = ("both", "oracle_only", "learned_only", "neither")

levels = st.floats(0.5, 0.999)


@st.composite
def paired_tables(draw, most=80):
    table = {name: draw(st.integers(0, most)) for name in NAMES}
    return table if any(table.values()) else table | {draw(st.sampled_from(NAMES)): 1}


def bounds(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


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


@given(table=paired_tables(), level=levels)
@settings(max_examples=75)
def test_tango_inverts_the_score_test(table, level):
    ci = TANGO.interval(Pairs(**table), level=level)
    reference = inverted_score_test(**table, level=level)
    assert bounds(ci) == pytest.approx(reference, abs=1e-10, rel=0)


def test_tango_inverts_the_score_test_in_every_table_of_few_starts():
    for n in (1, 2, 3, 7):
        for wins in range(n + 1):
            for losses in range(n + 1 - wins):
                table = dict(zip(NAMES, (n - wins - losses, wins, losses, 0), strict=True))
                reference = inverted_score_test(**table, level=0.95)
                assert bounds(TANGO.interval(Pairs(**table))) == pytest.approx(
                    reference, abs=1e-10, rel=0
                )


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
    ci = TANGO.interval(Pairs(**dict(zip(NAMES, counts, strict=True))), level=level)
    assert bounds(ci) == pytest.approx((low, high), abs=rounding)


@given(table=paired_tables(most=6), level=st.floats(1e-4, 1 - 1e-12))
def test_the_gap_lies_between_its_bounds(table, level):
    ci = TANGO.interval(Pairs(**table), level=level)
    assert ci.low <= ci.estimate <= ci.high


@pytest.mark.parametrize("n", [1, 2, 50])
def test_an_arm_that_alone_solves_every_start_ends_exactly_at_one(n):
    table = dict.fromkeys(NAMES, 0)
    oracle = TANGO.interval(Pairs(**table | {"oracle_only": n}))
    learned = TANGO.interval(Pairs(**table | {"learned_only": n}))
    assert (oracle.estimate, oracle.high) == (1, 1)
    assert (learned.estimate, learned.low) == (-1, -1)


def test_twice_its_p_value_is_the_mcnemar_test_of_statsmodels_without_correction():
    contingency = pytest.importorskip("statsmodels.stats.contingency_tables")
    for a, b, c, d in np.random.default_rng(0).integers(0, 81, (500, 4)).tolist():
        if b + c:
            reference = contingency.mcnemar([[a, b], [c, d]], exact=False, correction=False).pvalue
            p = TANGO.p_value(Pairs(both=a, oracle_only=b, learned_only=c, neither=d))
            assert 2 * min(p, 1 - p) == pytest.approx(reference, abs=1e-10, rel=1e-8)


scipy_stats = pytest.importorskip("scipy.stats")


def tables(n):
    """Return every [wins, losses] of ``n`` starts as rows."""
    return np.array([(b, c) for b in range(n + 1) for c in range(n + 1 - b)])


def chance_of(rows, n, win, loss):
    """Return the multinomial chance of some [wins, losses] for a share of wins and losses."""
    counts = np.column_stack([rows, n - rows.sum(axis=1)])
    return scipy_stats.multinomial.pmf(counts, n, [win, loss, max(0.0, 1 - win - loss)]).sum()


def worst_errors(n, margin, interval):
    """Return the largest chances to prove a margin that is the gap, and to lie above no gap."""
    rows = tables(n)
    bounds = [
        interval(Pairs(both=n - b - c, oracle_only=b, learned_only=c, neither=0))
        for b, c in rows.tolist()
    ]
    proven = rows[[ci.high < margin for ci in bounds]]
    above = rows[[ci.low > 0 for ci in bounds]]
    shares = np.linspace(0, 1, 97)
    return (
        max(
            chance_of(proven, n, (d + margin) / 2, max(d - margin, 0) / 2)
            for d in margin + (1 - margin) * shares
        ),
        max(chance_of(above, n, d / 2, d / 2) for d in shares),
    )


@pytest.mark.parametrize(("n", "margin"), [(10, 0.3), (15, 0.1), (15, 0.3), (22, 0.15), (25, 0.25)])
def test_a_margin_is_held_where_the_score_test_alone_proves_too_much(n, margin):
    plain, _ = worst_errors(n, margin, TANGO.interval)
    held, above = worst_errors(n, margin, lambda pairs: margin_interval(pairs, margin=margin))
    assert plain > 0.026
    assert max(held, above) <= 0.025


@settings(max_examples=15)
@given(st.integers(1, 16), st.floats(0.01, 0.9), st.sampled_from([0.8, 0.95, 0.99]))
@example(n=16, margin=0.5, level=0.8)
def test_both_errors_stay_below_half_of_what_the_level_leaves(n, margin, level):
    errors = worst_errors(
        n, margin, lambda pairs: margin_interval(pairs, margin=margin, level=level)
    )
    assert max(errors) <= (1 - level) / 2 * (1 + 1e-9)


def test_the_interval_is_no_narrower_than_tango_and_keeps_what_it_says_of_itself():
    pairs = Pairs(both=30, oracle_only=5, learned_only=1, neither=14)
    plain, held = TANGO.interval(pairs), margin_interval(pairs, margin=0.2)
    assert held.low < plain.low < plain.estimate == held.estimate < plain.high < held.high
    assert (held.level, held.method) == (0.95, "Tango, exact")
    assert margin_level(16, margin=0.2) == pytest.approx(
        2 * scipy_stats.norm.cdf(critical_value(margin_level(16, margin=0.2))) - 1
    )


def test_where_the_score_test_holds_its_level_nothing_is_widened():
    pairs = Pairs(both=2, oracle_only=0, learned_only=0, neither=0)
    assert margin_level(2, margin=0.2) == 0.95
    plain, held = TANGO.interval(pairs), margin_interval(pairs, margin=0.2)
    assert (held.low, held.high) == (plain.low, plain.high)


@pytest.mark.parametrize("gap", [0.0, -0.05, -0.1, -0.3, -0.9])
def test_a_region_holds_all_numbers_of_wins_from_one_on(gap):
    n = 30
    for disagreed in range(n + 1):
        wins = np.arange(disagreed + 1)
        above = TANGO.above(wins, disagreed - wins, n, gap=gap, z=1.96)
        assert (above[1:] >= above[:-1]).all()
        least = fewest_wins(TANGO.above, disagreed, n, gap=gap, z=1.96)
        assert least == disagreed + 1 - above.sum()


def test_an_exact_p_value_is_the_chance_of_what_was_found_or_more():
    n, wins, losses = 12, 6, 1
    found = (wins - losses) / (wins + losses) ** 0.5
    rows = tables(n)
    more = rows[(rows[:, 0] - rows[:, 1]) / np.maximum(rows.sum(axis=1), 1) ** 0.5 >= found - 1e-12]
    expected = max(chance_of(more, n, d / 2, d / 2) for d in np.linspace(0, 1, 401))
    p = exact_tango_p_value(Pairs(both=3, oracle_only=wins, learned_only=losses, neither=2))
    assert p == pytest.approx(expected, rel=1e-3)
    assert exact_tango_p_value(Pairs(both=3, oracle_only=2, learned_only=2, neither=0)) == 1

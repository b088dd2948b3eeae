import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import Interval
from pytest_cpg.stats.pairing import Pairs
from pytest_cpg.stats.tango import TANGO

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

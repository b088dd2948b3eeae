import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import agresti_caffo_interval
from pytest_cpg.stats.critical_regions import (
    PAIRED_REGIONS,
    SEES_ONLY_DISAGREEMENT,
    agresti_caffo_above,
)
from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.paired import PAIRED_INTERVALS

NAMES = ("both", "oracle_only", "learned_only", "neither")

five_hundred = settings(deadline=None, max_examples=500)
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
gaps = st.one_of(st.just(0.0), st.floats(-0.99, 0.99))
every_paired_method = pytest.mark.parametrize("method", PAIRED_REGIONS)


@st.composite
def arms(draw, most=200):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


def tables_of(n):
    """Return every paired table of ``n`` starts [table, outcome]."""
    cuts = np.indices((n + 1, n + 1, n + 1)).reshape(3, -1).T
    cuts = cuts[cuts.sum(axis=1) <= n]
    return np.column_stack([cuts, n - cuts.sum(axis=1)])


def assert_decides_as(interval, is_above, is_below, gap):
    # At the gap itself rounding decides.
    if min(abs(interval.low - gap), abs(interval.high - gap)) > 1e-12:
        assert (bool(is_above), bool(is_below)) == (interval.low > gap, interval.high < gap)


@five_hundred
@given(oracle=arms(), learned=arms(), gap=gaps, level=levels)
def test_agresti_caffo_is_above_and_below_where_the_interval_is(oracle, learned, gap, level):
    z = critical_value(level)
    assert_decides_as(
        agresti_caffo_interval(*oracle, *learned, level=level),
        agresti_caffo_above(*oracle, *learned, gap=gap, z=z),
        agresti_caffo_above(*learned, *oracle, gap=-gap, z=z),
        gap,
    )


@every_paired_method
@five_hundred
@given(counts=st.tuples(*[st.integers(0, 80)] * 4), gap=gaps, level=levels)
def test_paired_regions_are_above_and_below_where_the_interval_is(method, counts, gap, level):
    both, oracle_only, learned_only, neither = counts = counts if any(counts) else (1, 0, 0, 0)
    region, z = PAIRED_REGIONS[method], critical_value(level)
    assert_decides_as(
        PAIRED_INTERVALS[method](**dict(zip(NAMES, counts, strict=True)), level=level),
        region(*counts, gap=gap, z=z),
        region(both, learned_only, oracle_only, neither, gap=-gap, z=z),
        gap,
    )


@every_paired_method
@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_paired_regions_decide_as_the_interval_in_every_table_of_few_starts(method, n):
    tables = tables_of(n)
    is_above = PAIRED_REGIONS[method](*tables.T, z=critical_value(0.95))
    for counts, above in zip(tables.tolist(), is_above, strict=True):
        interval = PAIRED_INTERVALS[method](**dict(zip(NAMES, counts, strict=True)))
        assert above == (interval.low > 0)


@every_paired_method
@pytest.mark.parametrize("n", [5, 12, 20])
def test_one_win_more_among_the_same_disagreements_never_leaves_a_region(method, n):
    tables = tables_of(n)
    region, z = PAIRED_REGIONS[method], critical_value(0.95)
    both, wins, losses, neither = tables[tables[:, 2] > 0].T
    now, after = (region(both, wins + i, losses - i, neither, z=z) for i in (0, 1))
    assert (now <= after).all()


@pytest.mark.parametrize("method", SEES_ONLY_DISAGREEMENT)
def test_some_regions_do_not_ask_how_agreement_divides(method):
    tables = tables_of(12)
    both, wins, losses, neither = tables.T
    region, z = PAIRED_REGIONS[method], critical_value(0.95)
    merged = region(0 * both, wins, losses, both + neither, z=z)
    assert (region(*tables.T, z=z) == merged).all()


def test_counts_need_not_be_whole():
    z = critical_value(0.95)
    assert bool(agresti_caffo_above(9.5, 10.5, 2.25, 10.5, z=z))
    assert all(bool(region(1.5, 8.5, 0.5, 1.5, z=z)) for region in PAIRED_REGIONS.values())

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_cpg.stats.intervals import critical_value
from pytest_cpg.stats.paired import fewest_wins
from pytest_cpg.stats.pairing import Pairs
from pytest_cpg.stats.tango import TANGO, exact_tango_p_value, margin_interval, margin_level

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


@pytest.mark.parametrize("margin", [0, 1, -0.1, float("nan"), "0.1", None])
def test_impossible_margins_are_refused(margin):
    with pytest.raises(ValueError, match="need a margin between 0 and 1"):
        margin_level(20, margin=margin)


def test_impossible_sizes_and_levels_are_refused():
    with pytest.raises(ValueError, match="episodes"):
        margin_level(0, margin=0.1)
    with pytest.raises(ValueError, match="need a level between 0 and 1"):
        margin_level(20, margin=0.1, level=1)

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from pytest_cpg.stats.betting import (
    _log_wealth,
    anytime_interval,
    anytime_look_sizes,
    betting_characteristics,
    betting_wealth,
)
from pytest_cpg.stats.pairing import Pairs

counts = st.integers(0, 60)


def table(wins, losses, ties):
    both = ties // 2
    return Pairs(both=both, oracle_only=wins, learned_only=losses, neither=ties - both)


@settings(max_examples=200)
@given(counts, counts)
def test_wealth_is_the_integral_that_defines_it(wins, losses):
    integral, _ = quad(
        lambda bet: (1 + bet) ** wins * (1 - bet) ** losses, 0, 1, epsabs=0, epsrel=1e-12, limit=200
    )
    assert betting_wealth(wins=wins, losses=losses) == pytest.approx(integral, rel=1e-10)


@given(counts, counts, counts, st.floats(-0.9, 0.9))
def test_wealth_against_another_gap_is_the_integral_that_defines_it(wins, losses, ties, gap):
    most = 1 / (1 + gap)

    def bet_on(bet):
        won = (1 + bet * (1 - gap)) ** wins * (1 - bet * gap) ** ties
        return won * max(0.0, 1 - bet * (1 + gap)) ** losses / most

    integral, _ = quad(bet_on, 0, most, epsabs=0, epsrel=1e-12, limit=400)
    assert _log_wealth(gap, wins, losses, ties) == pytest.approx(math.log(integral), abs=1e-9)


def test_wealth_is_exact_where_floats_would_overflow():
    assert betting_wealth(wins=5000, losses=0) == math.inf
    assert betting_wealth(wins=2500, losses=2500) == pytest.approx(
        math.sqrt(math.pi / 4 / 2500), rel=1e-3
    )


def test_bounds_of_500_tables_are_where_the_integral_of_the_bets_reaches_the_stake():
    rng = np.random.default_rng(0)
    totals = rng.integers(1, 61, size=500)
    tables = np.array([rng.multinomial(n, rng.dirichlet([1, 1, 1])) for n in totals])
    bounds = [anytime_interval(table(*row)) for row in tables.tolist()]
    wins, losses, ties = tables.T[:, :, None]
    # Clenshaw and Curtis's rule with 65 nodes is exact for polynomials of degree 64.
    angles = np.pi * np.arange(65) / 64
    even = np.arange(0, 65, 2)
    parts = np.where((even == 0) | (even == 64), 1, 2) / (1 - even**2)
    rule = np.cos(angles[:, None] * even) @ parts / 64 * np.where(np.arange(65) % 64, 1, 0.5)
    for won, lost, found in (
        (wins, losses, [interval.low for interval in bounds]),
        (losses, wins, [-interval.high for interval in bounds]),
    ):
        refuted, kept = np.full((500, 1), 1e-11 - 1), np.ones((500, 1))
        for _ in range(60):
            gap = (refuted + kept) / 2
            bet = (1 - np.cos(angles)) / 2 / (1 + gap)
            wealth = (1 + bet * (1 - gap)) ** won * (1 - bet * gap) ** ties
            wealth *= np.maximum(1 - bet * (1 + gap), 0) ** lost
            low = (wealth @ rule)[:, None] >= 40
            refuted, kept = np.where(low, gap, refuted), np.where(low, kept, gap)
        assert np.array(found) == pytest.approx(kept[:, 0], abs=1e-10, rel=0)


@given(counts, counts, counts, st.sampled_from([0.8, 0.95, 0.995]))
def test_the_interval_excludes_zero_exactly_where_a_bet_is_won(wins, losses, ties, level):
    ties += not wins + losses + ties
    interval = anytime_interval(table(wins, losses, ties), level=level)
    stake = 2 / (1 - level)
    assert (interval.low > 0) == (betting_wealth(wins=wins, losses=losses) >= stake)
    assert (interval.high < 0) == (betting_wealth(wins=losses, losses=wins) >= stake)
    assert -1 <= interval.low <= interval.estimate <= interval.high <= 1


def test_looks_begin_where_a_bet_can_be_won_and_end_at_the_maximum():
    assert anytime_look_sizes(150)[0] == 8
    assert betting_wealth(wins=8, losses=0) >= 40 > betting_wealth(wins=7, losses=0)
    assert anytime_look_sizes(8) == (8,)
    assert anytime_look_sizes(150)[-1] == 150
    assert anytime_look_sizes(150, level=0.995)[0] == 12


def test_characteristics_are_those_of_all_tables_of_one_look():
    # At the first look of eight pairs a bet is won by eight wins alone.
    exact = betting_characteristics(8, oracle_only=0.7, learned_only=0.2)
    assert exact == pytest.approx((0.7**8, 0.2**8, 8), rel=1e-12)
    # At nine, one of the first eight may have been a tie; eight to one do not win the bet.
    exact = betting_characteristics(9, oracle_only=0.7, learned_only=0.2)
    above, below = (rate**8 * (1 + 8 * 0.1) for rate in (0.7, 0.2))
    assert exact == pytest.approx((above, below, 9 - 0.7**8 - 0.2**8), rel=1e-12)


@pytest.mark.parametrize("most", [7, 0])
def test_fewer_episodes_than_a_bet_takes_are_refused(most):
    with pytest.raises(ValueError, match="need at least 8 episodes"):
        anytime_look_sizes(most)


def test_an_impossible_level_is_refused():
    with pytest.raises(ValueError, match="need a level between 0 and 1"):
        anytime_interval(table(1, 1, 1), level=1.0)

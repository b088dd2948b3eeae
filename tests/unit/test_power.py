import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import (
    Verdict,
    agresti_caffo_interval,
    episodes_to_resolve,
    judge_gap,
    smallest_decisive_episodes,
    smallest_detectable_gap,
)

# A busy machine is no failure.
unhurried = settings(deadline=None)
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])


@st.composite
def arms(draw, most=40):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


def flagged(oracle, learned, n, level):
    return judge_gap(oracle, n, learned, n, level=level) is Verdict.MODEL_BOTTLENECK


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1 - 1e-9])
def test_no_outcome_of_fewer_than_the_decisive_episodes_is_flagged(level):
    decisive = smallest_decisive_episodes(level=level)
    for n in range(1, decisive):
        assert not any(flagged(s, t, n, level) for s in range(n + 1) for t in range(n + 1))
    assert all(flagged(n, 0, n, level) for n in range(decisive, 100))


def test_three_episodes_can_fail_a_gate_at_the_default_level():
    assert smallest_decisive_episodes(level=0.95) == 3


@unhurried
@given(arm=arms(), level=levels)
def test_the_smallest_detectable_gap_is_what_a_search_over_all_drops_finds(arm, level):
    successes, n = arm
    drops = [
        drop for drop in range(successes + 1) if flagged(successes, successes - drop, n, level)
    ]
    gap = smallest_detectable_gap(successes, n, level=level)
    assert gap == (drops[0] / n if drops else None)
    assert drops == list(range(drops[0], successes + 1)) if drops else True


def test_an_oracle_that_rarely_succeeds_can_flag_no_drop():
    assert smallest_detectable_gap(0, 50, level=0.95) is None
    assert smallest_detectable_gap(3, 10, level=0.95) is None
    assert smallest_detectable_gap(50, 50, level=0.95) == 0.1


@unhurried
@given(arm=arms())
def test_a_higher_level_never_makes_a_smaller_drop_detectable(arm):
    loose = smallest_detectable_gap(*arm, level=0.9)
    strict = smallest_detectable_gap(*arm, level=0.99)
    assert strict is None or loose <= strict


@unhurried
@given(oracle=arms(), learned=arms(), level=levels)
def test_multiples_of_the_counts_resolve_exactly_from_the_promised_size_on(oracle, learned, level):
    (s, n), (t, m) = oracle, learned
    promised = episodes_to_resolve(s, n, t, m, level=level)
    # The smallest sizes at which both rates are whole counts.
    for factor in range(1, 9):
        size = factor * n * m
        ci = agresti_caffo_interval(factor * s * m, size, factor * t * n, size, level=level)
        assert (ci.low > 0 or ci.high < 0) == (promised is not None and size >= promised)


@unhurried
@given(oracle=arms(), learned=arms(), level=levels)
def test_resolving_treats_both_arms_alike(oracle, learned, level):
    forth = episodes_to_resolve(*oracle, *learned, level=level)
    assert forth == episodes_to_resolve(*learned, *oracle, level=level)


def test_an_inconclusive_gate_needs_more_than_it_has():
    assert judge_gap(47, 50, 43, 50) is Verdict.INCONCLUSIVE
    assert episodes_to_resolve(47, 50, 43, 50) == 115
    assert episodes_to_resolve(3, 10, 0, 10) == 14


def test_a_resolved_gate_needs_no_more_than_it_has():
    assert episodes_to_resolve(40, 150, 0, 150) <= 150
    assert episodes_to_resolve(1, 1, 0, 1) == smallest_decisive_episodes(level=0.95)


def test_equal_rates_are_never_resolved():
    assert episodes_to_resolve(3, 10, 3, 10) is None
    assert episodes_to_resolve(3, 10, 15, 50) is None
    assert episodes_to_resolve(3, 10, 15, 50, limit=10**12) is None


def test_the_limit_is_inclusive():
    assert episodes_to_resolve(47, 50, 43, 50, limit=115) == 115
    assert episodes_to_resolve(47, 50, 43, 50, limit=114) is None


def test_rates_too_near_for_the_default_limit_are_not_resolved():
    assert episodes_to_resolve(5000, 10_000, 4999, 10_000) is None


def test_impossible_counts_levels_and_limits_are_refused():
    with pytest.raises(ValueError, match="need oracle_successes <= oracle_episodes, got 6 of 5"):
        smallest_detectable_gap(6, 5, level=0.95)
    with pytest.raises(ValueError, match="need limit to be a whole number of at least 1, got 0"):
        episodes_to_resolve(3, 10, 0, 10, limit=0)
    with pytest.raises(ValueError, match="need a level between 0 and 1"):
        smallest_decisive_episodes(level=1)

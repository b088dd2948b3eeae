import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import Verdict, agresti_caffo_interval, judge_gap
from pytest_cpg.stats.paired import PAIRED_INTERVALS
from pytest_cpg.stats.resolution import (
    episodes_to_prove_margin,
    episodes_to_resolve,
    paired_episodes_to_prove_margin,
    paired_episodes_to_resolve,
    smallest_decisive_episodes,
    smallest_detectable_gap,
)

NAMES = ("both", "oracle_only", "learned_only", "neither")

# A busy machine is no failure.
unhurried = settings(deadline=None)
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
margins = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.5])
every_paired_method = pytest.mark.parametrize("method", PAIRED_INTERVALS)


@st.composite
def arms(draw, most=40):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


@st.composite
def paired_tables(draw, most=30):
    table = {name: draw(st.integers(0, most)) for name in NAMES}
    return table if any(table.values()) else table | {draw(st.sampled_from(NAMES)): 1}


def multiples(table):
    """Yield the numbers of starts and the tables at which all shares are whole counts."""
    total = sum(table.values())
    for factor in (1, 2, 3, 5, 8, 13, 21, 34, 55):
        yield factor * total, {name: factor * count for name, count in table.items()}


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


@unhurried
@given(arm=arms(), learned=st.integers(1, 40), level=levels)
@pytest.mark.parametrize("method", ["agresti-caffo", *PAIRED_INTERVALS])
def test_the_smallest_detectable_gap_of_any_method_is_what_a_search_finds(
    method, arm, learned, level
):
    s, m = arm
    n = min(m, learned)
    gap = smallest_detectable_gap(s, m, level=level, learned_episodes=n, method=method)
    common = s * n // m if method == "agresti-caffo" else round(s * n / m)

    def low(drop):
        t = common - drop
        if method == "agresti-caffo":
            return agresti_caffo_interval(s, m, t, n, level=level).low
        table = {"both": t, "oracle_only": drop, "learned_only": 0, "neither": n - common}
        return PAIRED_INTERVALS[method](**table, level=level).low

    flagged = [drop for drop in range(common + 1) if low(drop) > 0]
    if gap is None:
        assert not flagged
    else:
        rate = s / m if method == "agresti-caffo" else common / n
        assert gap == pytest.approx(rate - (common - flagged[0]) / n, abs=1e-12)


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


@every_paired_method
@unhurried
@given(table=paired_tables(), level=levels)
def test_multiples_of_a_table_resolve_exactly_from_the_promised_size_on(method, table, level):
    promised = paired_episodes_to_resolve(**table, method=method, level=level)
    for size, counts in multiples(table):
        ci = PAIRED_INTERVALS[method](**counts, level=level)
        assert (ci.low > 0 or ci.high < 0) == (promised is not None and size >= promised)


@every_paired_method
@unhurried
@given(table=paired_tables(), level=levels, margin=margins)
def test_multiples_of_a_table_prove_a_margin_exactly_from_the_promised_size_on(
    method, table, level, margin
):
    promised = paired_episodes_to_prove_margin(**table, margin=margin, method=method, level=level)
    for size, counts in multiples(table):
        ci = PAIRED_INTERVALS[method](**counts, level=level)
        assert (ci.high < margin) == (promised is not None and size >= promised)


@unhurried
@given(oracle=arms(), learned=arms(), level=levels, margin=margins)
def test_multiples_of_the_counts_prove_a_margin_exactly_from_the_promised_size_on(
    oracle, learned, level, margin
):
    (s, n), (t, m) = oracle, learned
    promised = episodes_to_prove_margin(s, n, t, m, margin=margin, level=level)
    for factor in range(1, 9):
        size = factor * n * m
        high = agresti_caffo_interval(factor * s * m, size, factor * t * n, size, level=level).high
        # A single episode per arm may prove what no larger size does: both rates count as a half.
        if size > 10:
            assert (high < margin) == (promised is not None and size >= promised)


@every_paired_method
@unhurried
@given(table=paired_tables(), level=levels)
def test_resolving_pairs_treats_both_arms_alike(method, table, level):
    swapped = table | {"oracle_only": table["learned_only"], "learned_only": table["oracle_only"]}
    forth = paired_episodes_to_resolve(**table, method=method, level=level)
    assert forth == paired_episodes_to_resolve(**swapped, method=method, level=level)


def test_arms_that_agree_more_take_fewer_starts():
    alike = {"both": 42, "oracle_only": 5, "learned_only": 1, "neither": 2}
    apart = {"both": 40, "oracle_only": 7, "learned_only": 3, "neither": 0}
    sizes = [paired_episodes_to_resolve(**table) for table in (alike, apart)]
    # Both tables have 47 and 43 successes of 50.
    assert sizes == [83, 126]
    assert episodes_to_resolve(47, 50, 43, 50) == 115


@every_paired_method
def test_arms_that_each_won_as_many_starts_are_never_resolved(method):
    table = {"both": 3, "oracle_only": 4, "learned_only": 4, "neither": 3}
    assert paired_episodes_to_resolve(**table, method=method) is None
    assert paired_episodes_to_resolve(**table, method=method, limit=10**9) is None


def test_the_fewest_starts_may_be_more_or_less_than_were_run():
    table = {"both": 0, "oracle_only": 150, "learned_only": 0, "neither": 0}
    assert paired_episodes_to_resolve(**table) == 4
    assert paired_episodes_to_resolve(**table, limit=3) is None


def test_a_perfect_pair_proves_a_margin_of_a_tenth_with_26_episodes():
    assert episodes_to_prove_margin(1, 1, 1, 1, margin=0.1) == 26
    assert agresti_caffo_interval(26, 26, 26, 26).high < 0.1
    assert agresti_caffo_interval(25, 25, 25, 25).high > 0.1


def test_a_gap_as_large_as_the_margin_is_never_proven_to_be_below_it():
    assert episodes_to_prove_margin(47, 50, 42, 50, margin=0.1, limit=10**9) is None
    table = {"both": 42, "oracle_only": 5, "learned_only": 0, "neither": 3}
    assert paired_episodes_to_prove_margin(**table, margin=0.1, limit=10**9) is None
    assert paired_episodes_to_prove_margin(**table, margin=0.11) == 3436


def test_impossible_counts_levels_and_limits_are_refused():
    with pytest.raises(ValueError, match="need oracle_successes <= oracle_episodes, got 6 of 5"):
        smallest_detectable_gap(6, 5, level=0.95)
    with pytest.raises(ValueError, match="need limit to be a whole number of at least 1, got 0"):
        episodes_to_resolve(3, 10, 0, 10, limit=0)
    with pytest.raises(ValueError, match="need a level between 0 and 1"):
        smallest_decisive_episodes(level=1)


@pytest.mark.parametrize("margin", [0, -0.1, 1, 10, float("nan"), True, "0.1", None])
def test_an_impossible_margin_is_refused_with_its_value(margin):
    message = f"need a margin between 0 and 1, such as 0.1, got {margin!r}"
    with pytest.raises(ValueError, match=message):
        episodes_to_prove_margin(3, 10, 3, 10, margin=margin)
    with pytest.raises(ValueError, match=message):
        paired_episodes_to_prove_margin(**dict.fromkeys(NAMES, 5), margin=margin)


def test_an_interval_that_does_not_pair_is_refused_with_those_that_do():
    message = "need a method among bonett-price, newcombe-paired, tango, got 'agresti-caffo'"
    with pytest.raises(ValueError, match=message):
        paired_episodes_to_resolve(**dict.fromkeys(NAMES, 5), method="agresti-caffo")
    with pytest.raises(ValueError, match=message):
        paired_episodes_to_prove_margin(
            **dict.fromkeys(NAMES, 5), margin=0.1, method="agresti-caffo"
        )

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import Verdict, agresti_caffo_interval, judge_gap
from pytest_cpg.stats.paired import METHODS, PAIRED_METHODS
from pytest_cpg.stats.pairing import Pairs
from pytest_cpg.stats.power import (
    detectable_gap,
    episodes_for_gap,
    gap_half_width,
    gap_power,
    smallest_detectable_gap,
)

few = settings(max_examples=8)
# Of rates nearer to 0 the binomial distribution of scipy overflows.
rates = st.one_of(st.just(0.0), st.floats(1e-6, 1))
every_method = pytest.mark.parametrize("method", METHODS)


@cache
def tables(n):
    """Return every paired table of ``n`` starts [table, outcome]."""
    cuts = np.indices((n + 1, n + 1, n + 1)).reshape(3, -1).T
    cuts = cuts[cuts.sum(axis=1) <= n]
    return np.column_stack([cuts, n - cuts.sum(axis=1)])


@cache
def is_flagged(method, n, extra, level):
    """Return whether the interval lies above 0 [table, successes in extra oracle episodes]."""

    def low(both, oracle_only, learned_only, neither, more):
        if method == "agresti-caffo":
            oracle = both + oracle_only + more, n + extra
            return agresti_caffo_interval(*oracle, both + learned_only, n, level=level).low
        counts = {"both": both, "oracle_only": oracle_only, "learned_only": learned_only}
        return PAIRED_METHODS[method].interval(Pairs(**counts, neither=neither), level=level).low

    counts = tables(n).tolist()
    return np.array([[low(*table, more) > 0 for more in range(extra + 1)] for table in counts])


def enumerated(p, q, n, extra, method, level, share):
    """Return the power as a sum over all tables of starts and all extra oracle episodes."""
    stats = pytest.importorskip("scipy.stats")
    both = share * min(p, q) + (1 - share) * p * q
    chances = np.clip([both, p - both, q - both, 1 - p - q + both], 0, 1)
    by_table = stats.multinomial.pmf(tables(n), n, chances / chances.sum())
    more = stats.binom.pmf(np.arange(extra + 1), extra, p)
    return by_table @ is_flagged(method, n, extra, level) @ more


@settings(max_examples=200)
@given(
    p=rates,
    q=rates,
    share=rates,
    n=st.sampled_from([1, 3, 4, 8]),
    extra=st.sampled_from([0, 1, 5]),
    method=st.sampled_from(METHODS),
    level=st.sampled_from([0.8, 0.95]),
)
def test_power_is_the_sum_over_all_tables(p, q, share, n, extra, method, level):
    arguments = {"method": method, "level": level, "share": share}
    power = gap_power(p, q, episodes=n, oracle_episodes=n + extra, **arguments)
    assert power == pytest.approx(enumerated(p, q, n, extra, **arguments), abs=1e-10)
    assert 0 <= power <= 1


@given(p=rates, q=rates, n=st.integers(1, 60))
def test_arms_that_share_next_to_nothing_have_the_power_of_independent_ones(p, q, n):
    # The first is enumerated from the characteristic function, the other arm by arm.
    arguments = {"episodes": n, "oracle_episodes": 2 * n}
    shared = gap_power(p, q, **arguments, share=1e-12)
    assert shared == pytest.approx(gap_power(p, q, **arguments), abs=1e-9)


@pytest.mark.parametrize(
    ("method", "independent", "half_shared"),
    [
        ("agresti-caffo", 0.6806, 0.7160),
        ("bonett-price", 0.6791, 0.8409),
        ("tango", 0.6835, 0.8601),
    ],
)
def test_pairing_turns_correlation_into_power(method, independent, half_shared):
    powers = [gap_power(0.9, 0.8, episodes=150, method=method, share=share) for share in (0, 0.5)]
    assert powers == pytest.approx([independent, half_shared], abs=5e-5)


def test_a_larger_oracle_arm_adds_power_to_the_interval_that_sees_it():
    sizes = {"episodes": 150, "oracle_episodes": 1500}
    assert gap_power(0.9, 0.8, **sizes) == pytest.approx(0.9025, abs=5e-5)
    paired = gap_power(0.9, 0.8, **sizes, method="tango")
    assert paired == gap_power(0.9, 0.8, episodes=150, method="tango")


def test_an_oracle_that_always_succeeds_beside_a_model_that_never_does_is_always_found():
    assert gap_power(1, 0, episodes=3) == 1
    assert gap_power(1, 0, episodes=2) == 0
    assert gap_power(0, 1, episodes=100) == 0


@every_method
@pytest.mark.parametrize("share", [0, 0.5])
@pytest.mark.parametrize("oracle", [0.3, 0.9, 1])
def test_the_detectable_gap_is_the_first_thousandth_with_the_power(method, share, oracle):
    arguments = {"method": method, "share": share}
    gap = detectable_gap(oracle, 40, **arguments)
    assert gap_power(oracle, oracle - gap, episodes=40, **arguments) >= 0.8
    assert gap_power(oracle, oracle - gap + 0.001, episodes=40, **arguments) < 0.8


def test_more_power_more_confidence_or_fewer_episodes_detect_larger_gaps_only():
    gap = detectable_gap(0.9, 50)
    assert gap < detectable_gap(0.9, 50, power=0.9)
    assert gap < detectable_gap(0.9, 50, level=0.99)
    assert gap < detectable_gap(0.9, 40)
    assert gap > detectable_gap(0.9, 50, oracle_episodes=500)


def test_an_oracle_that_rarely_succeeds_detects_no_gap():
    assert detectable_gap(0, 50) is None
    assert detectable_gap(0.05, 50) is None
    assert detectable_gap(0.33, 18) is None


def test_a_detectable_gap_is_no_larger_than_the_rate_of_the_oracle():
    assert detectable_gap(0.3286, 19) == 0.3286


@every_method
@few
@given(
    p=st.floats(0.6, 1), part=st.floats(0.6, 1), power=st.floats(0.5, 0.95), share=st.floats(0, 1)
)
def test_from_the_episodes_for_a_gap_on_the_power_is_kept(method, p, part, power, share):
    gap = p * part
    arguments = {"method": method, "share": share}
    size = episodes_for_gap(p, gap, power=power, **arguments)
    for n in range(max(1, size - 1), size + 30):
        found = gap_power(p, p - gap, episodes=n, **arguments)
        assert (found >= power) == (n >= size)


def test_power_that_falls_back_below_what_is_wanted_does_not_count():
    powers = {n: gap_power(1, 0.92, episodes=n) for n in range(1, 200)}
    reached = min(n for n, power in powers.items() if power >= 0.65)
    lost = max(n for n, power in powers.items() if power < 0.65)
    assert (reached, lost) == (69, 82)
    assert episodes_for_gap(1, 0.08, power=0.65) == 83


def test_a_stored_oracle_arm_saves_learned_episodes():
    assert episodes_for_gap(0.9, 0.1) == 199
    assert episodes_for_gap(0.9, 0.1, oracle_episodes=1500) == 109
    assert episodes_for_gap(0.9, 0.1, oracle_episodes=50) == 199


def test_a_gap_without_room_or_beyond_the_limit_has_no_episodes():
    assert episodes_for_gap(0.2, 0.3) is None
    assert episodes_for_gap(0.9, 0.1, limit=199) == 199
    assert episodes_for_gap(0.9, 0.1, limit=198) is None
    assert episodes_for_gap(0.5, 0.001) is None


levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99, 0.999])


@st.composite
def arms(draw, most=40):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


def flagged(oracle, learned, n, level):
    return judge_gap(oracle, n, learned, n, level=level) is Verdict.MODEL_BOTTLENECK


@given(arm=arms(), level=levels)
def test_the_smallest_detectable_gap_is_what_a_search_over_all_drops_finds(arm, level):
    successes, n = arm
    drops = [
        drop for drop in range(successes + 1) if flagged(successes, successes - drop, n, level)
    ]
    gap = smallest_detectable_gap(successes, n, level=level)
    assert gap == (drops[0] / n if drops else None)
    assert drops == list(range(drops[0], successes + 1)) if drops else True


@given(arm=arms(), learned=st.integers(1, 40), level=levels)
@pytest.mark.parametrize("method", METHODS)
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
        return PAIRED_METHODS[method].interval(Pairs(**table), level=level).low

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


@given(arm=arms())
def test_a_higher_level_never_makes_a_smaller_drop_detectable(arm):
    loose = smallest_detectable_gap(*arm, level=0.9)
    strict = smallest_detectable_gap(*arm, level=0.99)
    assert strict is None or loose <= strict


@pytest.mark.parametrize("episodes", [1, 10, 84, 150])
@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.5, 0.5), (1.0, 0.2)])
def test_half_a_width_is_that_of_an_interval_at_whole_counts(episodes, rates):
    oracle, learned = (round(rate * episodes) for rate in rates)
    found = agresti_caffo_interval(oracle, episodes, learned, episodes)
    half = gap_half_width(oracle / episodes, learned / episodes, episodes)
    # Neither end is cut.
    if found.low > -1 and found.high < 1:
        assert half == pytest.approx((found.high - found.low) / 2)
    assert half > 0

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats import Verdict, agresti_caffo_interval, judge_gap
from pytest_cpg.stats.methods import METHODS, PAIRED_METHODS
from pytest_cpg.stats.pairing import Pairs
from pytest_cpg.stats.power import smallest_detectable_gap

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


def test_impossible_counts_and_methods_are_refused():
    with pytest.raises(ValueError, match="need oracle_successes <= oracle_episodes, got 6 of 5"):
        smallest_detectable_gap(6, 5, level=0.95)
    message = "need a method among agresti-caffo, bonett-price, tango, got 'wald'"
    with pytest.raises(ValueError, match=message):
        smallest_detectable_gap(5, 6, level=0.95, method="wald")

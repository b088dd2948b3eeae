import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats.pairing import pair_rates

rates = st.floats(0, 1)


@given(oracle=rates, learned=rates, share=rates)
def test_pairs_have_the_rates_of_their_arms(oracle, learned, share):
    pair = pair_rates(oracle, learned, share=share)
    outcomes = (pair.both, pair.oracle_only, pair.learned_only, pair.neither)
    assert all(0 <= chance <= 1 for chance in outcomes)
    assert sum(outcomes) == pytest.approx(1, abs=1e-15)
    assert (pair.oracle, pair.learned) == pytest.approx((oracle, learned), abs=1e-15)


@given(rate=st.floats(0.01, 0.99), share=rates)
def test_arms_of_one_rate_correlate_by_the_share(rate, share):
    pair = pair_rates(rate, rate, share=share)
    assert (pair.both - rate**2) / (rate * (1 - rate)) == pytest.approx(share, abs=1e-12)


@given(oracle=rates, learned=rates)
def test_a_share_of_nothing_is_independence_and_of_all_leaves_no_arm_wins_it_could_share(
    oracle, learned
):
    assert pair_rates(oracle, learned, share=0).both == oracle * learned
    together = pair_rates(oracle, learned, share=1)
    assert min(together.oracle_only, together.learned_only) == 0


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan, True, "0.5", None])
@pytest.mark.parametrize("name", ["oracle_rate", "learned_rate", "share"])
def test_what_is_no_share_is_refused_by_name(name, value):
    arguments = {"oracle_rate": 0.5, "learned_rate": 0.5, "share": 0.5} | {name: value}
    with pytest.raises(ValueError, match=f"need {name} from 0 to 1, got {value!r}"):
        pair_rates(**arguments)

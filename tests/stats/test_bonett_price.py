from statistics import NormalDist, fmean, pvariance

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats.bonett_price import BONETT_PRICE
from pytest_cpg.stats.pairing import Pairs

counts = st.integers(0, 80)


@given(st.tuples(counts, counts, counts).filter(any), st.floats(0.5, 0.999))
def test_it_is_the_wald_interval_of_scores_with_one_win_and_one_loss_added(table, level):
    agreed, wins, losses = table
    scores = [1] * (wins + 1) + [-1] * (losses + 1) + [0] * agreed
    half = NormalDist().inv_cdf((1 + level) / 2) * (pvariance(scores) / len(scores)) ** 0.5
    reference = np.clip((fmean(scores) - half, fmean(scores) + half), -1, 1)
    ci = BONETT_PRICE.interval(
        Pairs(both=agreed, oracle_only=wins, learned_only=losses, neither=0), level=level
    )
    assert (ci.low, ci.high) == pytest.approx(reference, abs=1e-12, rel=0)


def test_it_agrees_with_the_example_of_the_r_package_statpsych():
    # The manual of D. G. Bonett's package: ci.prop.ps(.05, 12, 4, 26, 6).
    ci = BONETT_PRICE.interval(Pairs(both=6, oracle_only=26, learned_only=4, neither=12))
    assert (ci.low, ci.high) == pytest.approx((0.2548067, 0.6251933), abs=5e-8)
    assert (ci.estimate, ci.method) == (22 / 48, "Bonett-Price 2012")


def test_bounds_are_cut_where_the_formula_leaves_the_range_of_a_difference():
    assert BONETT_PRICE.interval(Pairs(both=0, oracle_only=1, learned_only=0, neither=0)).high == 1


def test_its_p_value_is_the_z_test_of_statsmodels_with_a_win_and_a_loss_added():
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    for agreed, wins, losses in np.random.default_rng(0).integers(0, 41, (500, 3)).tolist():
        scores = np.repeat([1, -1, 0], [wins + 1, losses + 1, agreed + 1])
        _, reference = weightstats.ztest(scores, alternative="larger", ddof=0)
        p = BONETT_PRICE.p_value(
            Pairs(both=agreed, oracle_only=wins, learned_only=losses, neither=1)
        )
        assert p == pytest.approx(reference, abs=1e-10, rel=1e-10)


def test_four_starts_that_the_oracle_alone_solved_have_an_interval_above_zero():
    # Of equal models 6.25 % have: such a gate must not be judged by it.
    assert BONETT_PRICE.interval(Pairs(both=0, oracle_only=4, learned_only=0, neither=0)).low > 0
    assert BONETT_PRICE.smallest_decisive_pairs(level=0.95) == 6

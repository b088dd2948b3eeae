import math

import numpy as np
import pytest
from scipy import stats

from pytest_cpg.stats.intervals import wilson_interval
from pytest_cpg.stats.sampled import Adjusted, Percentile, Scaled, Share

RESAMPLES = np.random.default_rng(0).normal(0.4, 0.1, 999)
KINDS = {
    "share": (Share(estimate=0.2, size=73.5), 0.1, 0.35),
    "plain": (Scaled(estimate=0.2, error=0.05, freedom=9, scale="plain"), 0.1, 0.3),
    "log": (Scaled(estimate=0.2, error=0.05, freedom=9, scale="log"), 0.1, 0.4),
    "logit": (Scaled(estimate=0.9, error=0.05, freedom=9, scale="logit"), 0.6, 0.96),
    "share, Student's": (Share(estimate=0.2, size=73.5, freedom=7), 0.1, 0.35),
    "rare share": (Share(estimate=0.02, size=73.5, is_rare=True), 0.004, 0.06),
    "rare share, Student's": (Share(estimate=0.02, size=50, freedom=7, is_rare=True), 0.004, 0.08),
    "adjusted": (Adjusted(estimate=0.2, centre=0.19, error=0.05), 0.1, 0.3),
    "adjusted, Student's": (Adjusted(estimate=0.2, centre=0.19, error=0.05, freedom=5), 0.1, 0.3),
    "percentile": (Percentile(estimate=0.4, resamples=RESAMPLES), 0.25, 0.55),
}


@pytest.mark.parametrize(("sampled", "low", "high"), KINDS.values(), ids=KINDS)
def test_a_p_value_is_where_the_interval_ends_at_the_bound(sampled, low, high):
    # A percentile steps from resample to resample.
    near = {"abs": 5e-3} if isinstance(sampled, Percentile) else {"rel": 1e-6}
    p = sampled.p_above(low)
    assert 0 < p < 0.5
    assert sampled.interval(1 - 2 * p).low == pytest.approx(low, **near)
    p = sampled.p_below(high)
    assert 0 < p < 0.5
    assert sampled.interval(1 - 2 * p).high == pytest.approx(high, **near)
    assert sampled.p_above(high) > 0.5
    assert sampled.p_below(low) > 0.5


@pytest.mark.parametrize("successes", [0, 1, 7, 49, 50])
def test_a_share_of_independent_answers_has_the_interval_of_wilson(successes):
    for level in (0.8, 0.95, 0.99):
        expected = wilson_interval(successes, 50, level=level)
        found = Share(estimate=successes / 50, size=50).interval(level)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("successes", [0, 1, 7, 49, 50])
def test_a_rare_share_of_independent_answers_has_the_interval_of_jeffreys(successes):
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    expected = proportion.proportion_confint(successes, 50, method="jeffreys")
    found = Share(estimate=successes / 50, size=50, is_rare=True).interval()
    # An end that is itself observed is not left out.
    low, high = (0, expected[1]) if successes == 0 else expected
    assert (found.low, found.high) == pytest.approx((low, 1 if successes == 50 else high))


def test_an_estimated_size_widens_a_share_as_a_level_beyond_its_own_would():
    t = stats.t.isf(0.025, 4)
    for is_rare in (False, True):
        known = Share(estimate=0.1, size=40, is_rare=is_rare)
        wider = Share(estimate=0.1, size=40, freedom=4, is_rare=is_rare).interval()
        expected = known.interval(1 - 2 * stats.norm.sf(t))
        assert (wider.low, wider.high) == pytest.approx((expected.low, expected.high))


def test_intervals_agree_with_scipy_on_their_scales():
    t = stats.t.isf(0.025, 9)
    plain = KINDS["plain"][0].interval()
    assert (plain.low, plain.high) == pytest.approx((0.2 - t * 0.05, 0.2 + t * 0.05))
    log = KINDS["log"][0].interval()
    assert (log.low, log.high) == pytest.approx(
        (0.2 * math.exp(-t * 0.25), 0.2 * math.exp(t * 0.25))
    )
    logit = KINDS["logit"][0].interval()
    half = t * 0.05 / 0.09
    ends = 1 / (1 + np.exp(-np.log(9) + np.array([half, -half])))
    assert (logit.low, logit.high) == pytest.approx(tuple(ends))


def test_bounds_at_the_edges_have_p_values_of_0_and_1():
    logit, log, share = (KINDS[name][0] for name in ("logit", "log", "share"))
    rare = KINDS["rare share"][0]
    for sampled, edges in ((logit, (0, 1)), (log, (0,)), (share, (0, 1)), (rare, (0, 1))):
        for bound in edges:
            assert sampled.p_above(bound) == pytest.approx(1.0 * (bound == 1))
            assert sampled.p_below(bound) == pytest.approx(1.0 * (bound == 0))


def test_without_any_error_only_the_estimate_itself_is_not_excluded():
    certain = Scaled(estimate=0.0, error=0.0, freedom=3, scale="plain")
    assert (certain.interval().low, certain.interval().high) == (0, 0)
    assert certain.p_above(0) == certain.p_below(0) == 0.5
    assert certain.p_above(-0.1) == 0


def test_an_interval_stays_in_the_range_of_its_quantity():
    wide = Scaled(estimate=0.4, error=0.4, freedom=1, scale="log", low=0.0, high=1.0)
    assert 0 < wide.interval().low < wide.interval().high == 1
    change = Adjusted(estimate=0.9, centre=0.88, error=0.3).interval()
    assert change.high == 1


def test_percentiles_hold_an_estimate_that_no_resample_reaches():
    low = Percentile(estimate=-1.0, resamples=RESAMPLES).interval()
    high = Percentile(estimate=2.0, resamples=RESAMPLES).interval()
    assert (low.low, high.high) == (-1, 2)
    assert low.high == pytest.approx(np.quantile(RESAMPLES, 0.975))
    assert high.low == pytest.approx(np.quantile(RESAMPLES, 0.025))

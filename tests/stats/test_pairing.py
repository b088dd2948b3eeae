import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats.pairing import joint_chance, likely_counts, multinomial_chance, pair_rates

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


# Of rates nearer to 0 the binomial distribution of scipy overflows.
nonzero = st.one_of(st.just(0.0), st.floats(1e-6, 1))


@given(n=st.integers(1, 3000), rate=nonzero)
def test_what_is_left_out_is_negligible(n, rate):
    binom = pytest.importorskip("scipy.stats").binom
    counts = likely_counts(n, rate)
    assert 0 <= counts[0] <= counts[-1] <= n
    assert (np.diff(counts) == 1).all()
    assert binom.cdf(counts[0] - 1, n, rate) + binom.sf(counts[-1], n, rate) < 1e-13


def test_few_counts_of_many_episodes_are_likely():
    assert len(likely_counts(10_000, 0.5)) < 900
    assert likely_counts(50, 0).tolist() == [0]
    assert likely_counts(50, 1).tolist() == [50]


@given(n=st.integers(1, 300), rate=nonzero)
def test_one_kind_has_the_binomial_chance(n, rate):
    binom = pytest.importorskip("scipy.stats").binom
    counts = np.arange(n + 1)
    chance = multinomial_chance(n, (counts, rate))
    assert chance == pytest.approx(binom.pmf(counts, n, rate), abs=1e-12)


@given(n=st.integers(1, 30), first=st.floats(0, 0.6), second=st.floats(0, 0.4))
def test_two_kinds_have_the_multinomial_chance(n, first, second):
    multinomial = pytest.importorskip("scipy.stats").multinomial
    i, j = np.indices((n + 1, n + 1))
    chance = multinomial_chance(n, (i, first), (j, second))
    neither = np.maximum(n - i - j, 0)
    shares = [first, second, 1 - first - second]
    reference = multinomial.pmf(np.stack([i, j, neither], axis=-1), n, shares)
    assert chance == pytest.approx(np.where(i + j <= n, reference, 0), abs=1e-12)


@given(
    p=nonzero,
    q=nonzero,
    share=st.floats(0, 1),
    n=st.integers(1, 40),
    extra=st.integers(0, 60),
)
def test_joint_chances_are_those_of_one_episode_after_another(p, q, share, n, extra):
    pair = pair_rates(p, q, share=share)
    chance = np.zeros((n + extra + 1, n + 1))
    chance[0, 0] = 1
    for _ in range(n):
        after = pair.neither * chance
        after[1:] += pair.oracle_only * chance[:-1]
        after[:, 1:] += pair.learned_only * chance[:, :-1]
        after[1:, 1:] += pair.both * chance[:-1, :-1]
        chance = after
    for _ in range(extra):
        chance[1:], chance[0] = p * chance[:-1] + (1 - p) * chance[1:], (1 - p) * chance[0]
    s, t = np.arange(n + extra + 1)[:, None], np.arange(n + 1)
    joint = joint_chance(pair, n, n + extra, s, t)
    assert joint == pytest.approx(chance, abs=1e-12)


def test_a_grid_of_likely_counts_gives_the_chances_of_the_whole_one():
    pair = pair_rates(0.9, 0.8, share=0.5)
    s, t = (likely_counts(800, rate) for rate in (0.9, 0.8))
    assert len(s) < len(t) < 400
    whole = joint_chance(pair, 800, 800, np.arange(801)[:, None], np.arange(801))
    part = joint_chance(pair, 800, 800, s[:, None], t)
    assert part == pytest.approx(whole[s[:, None], t], abs=1e-12)

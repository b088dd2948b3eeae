import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats import agresti_caffo_interval, judge_gap
from pytest_cpg.stats.rankings import cluster_interval, cluster_return_interval

# Successes of three checkpoints of one recipe, and of their oracle arms.
ORACLE = [(6, 10), (4, 10), (4, 10)]
LEARNED = [(10, 10), (2, 10), (10, 10)]

two_hundred = settings(max_examples=200)
levels = st.floats(0.5, 0.999)
either_starts = pytest.mark.parametrize("same_starts", [False, True])


@st.composite
def arms(draw, most=60):
    episodes = draw(st.integers(1, most))
    return draw(st.integers(0, episodes)), episodes


@st.composite
def recipes(draw):
    count = draw(st.integers(2, 10))
    return [draw(arms()) for _ in range(count)], [draw(arms()) for _ in range(count)]


def bounds(interval):
    return interval.low, interval.high


def reference(oracle, learned, level, same_starts):
    """Return the bounds from scipy's t and from the widths of Agresti-Caffo intervals."""
    stats = pytest.importorskip("scipy.stats")
    gaps = np.array([s / n - t / m for (s, n), (t, m) in zip(oracle, learned, strict=True)])
    z = stats.norm.ppf((1 + level) / 2)
    rates = np.array([[(s + 1) / (n + 2) for s, n in arm] for arm in (oracle, learned)])
    sizes = np.array([[n + 2 for _, n in arm] for arm in (oracle, learned)])
    within = (rates * (1 - rates) / sizes).sum(axis=0).mean()
    error = math.sqrt(max(gaps.var(ddof=1), within) / len(gaps))
    t = stats.t.ppf((1 + level) / 2, len(gaps) - 1)
    half = math.hypot(t * error, z * math.sqrt(within) if same_starts else 0)
    return np.clip([gaps.mean() - half, gaps.mean() + half], -1, 1)


@two_hundred
@given(recipe=recipes(), level=levels, same_starts=st.booleans())
def test_the_interval_is_put_together_from_what_scipy_has(recipe, level, same_starts):
    ci = cluster_interval(*recipe, level=level, same_starts=same_starts)
    assert bounds(ci) == pytest.approx(reference(*recipe, level, same_starts), abs=1e-10)


@two_hundred
@given(
    episodes=st.lists(st.integers(2, 8), min_size=2, max_size=6),
    seed=st.integers(0, 2**32),
    spread=st.sampled_from([0, 1, 1000]),
    level=levels,
    same_starts=st.booleans(),
)
def test_the_interval_of_returns_is_put_together_from_what_scipy_has(
    episodes, seed, spread, level, same_starts
):
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(seed)
    # Checkpoints that differ by nothing, by as much as their episodes, or by far more.
    arms = [rng.normal(spread * rng.normal(), 1, (2, n)) for n in episodes]
    for arm in arms:
        arm[1] += spread * rng.normal()
    gaps = np.array([(oracle - learned).mean() for oracle, learned in arms])
    within = np.mean([np.var(o - m, ddof=1) / len(o) for o, m in arms])
    t, z = stats.t.ppf((1 + level) / 2, len(gaps) - 1), stats.norm.ppf((1 + level) / 2)
    between = max(gaps.var(ddof=1), within) / len(gaps)
    half = math.sqrt(t**2 * between + same_starts * z**2 * within)
    ci = cluster_return_interval(
        [oracle for oracle, _ in arms],
        [learned for _, learned in arms],
        level=level,
        same_starts=same_starts,
    )
    expected = gaps.mean() - half, gaps.mean() + half
    assert bounds(ci) == pytest.approx(expected, rel=1e-10, abs=1e-10)


def test_published_checkpoints_do_not_outperform_the_oracle_as_a_recipe():
    oracle, learned = (sum(s for s, _ in arm) for arm in (ORACLE, LEARNED))
    assert judge_gap(oracle, 30, learned, 30) == "LEARNED OUTPERFORMS ORACLE"
    for same_starts in (False, True):
        ci = cluster_interval(ORACLE, LEARNED, same_starts=same_starts)
        assert ci.low < 0 < ci.high
        assert ci.estimate == pytest.approx(-8 / 30)


@given(recipe=recipes(), level=levels)
def test_starts_in_common_never_narrow_the_interval(recipe, level):
    own = cluster_interval(*recipe, level=level, same_starts=False)
    common = cluster_interval(*recipe, level=level)
    assert common.estimate == own.estimate
    assert -1 <= common.low <= own.low <= own.estimate <= own.high <= common.high <= 1


def test_a_checkpoint_counts_once_however_many_episodes_it_had():
    ci = cluster_interval([(5, 10), (500, 1000)], [(5, 10), (0, 1000)])
    assert ci.estimate == 0.25


@either_starts
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize(("oracle", "learned"), [(10, 0), (0, 0), (10, 10), (5, 5)])
def test_gaps_that_happen_to_be_equal_are_not_certain(same_starts, count, oracle, learned):
    ci = cluster_interval([(oracle, 10)] * count, [(learned, 10)] * count, same_starts=same_starts)
    assert ci.estimate == (oracle - learned) / 10
    assert ci.high - ci.low > 0.1
    assert ci.low > -1 or ci.high < 1 or count == 2


@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_no_number_of_checkpoints_sees_more_than_the_starts_they_share(count):
    one = agresti_caffo_interval(30, 50, 25, 50)
    ci = cluster_interval([(30, 50)] * count, [(25, 50)] * count)
    assert ci.high - ci.low > one.high - one.low


def test_many_checkpoints_that_fail_alike_are_a_bottleneck_and_two_of_few_starts_are_not():
    assert cluster_interval([(10, 10)] * 3, [(0, 10)] * 3).low > 0.5
    assert cluster_interval([(10, 10)] * 2, [(0, 10)] * 2).low < 0


def test_results_are_plain_floats():
    ci = cluster_interval([(np.int64(5), 10), (6, 10)], [(3, 10), (1, 10)], level=np.float32(0.5))
    assert {type(value) for value in (ci.estimate, ci.low, ci.high, ci.level)} == {float}

import json
import math
from dataclasses import asdict
from itertools import combinations, permutations
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats.rankings import kendall_interval, rank_models, spearman_interval

fifty = settings(max_examples=50)


def named(count):
    return [f"model-{i}" for i in range(count)]


@st.composite
def outcome_tables(draw, most=12):
    shape = draw(st.integers(2, 5)), draw(st.integers(3, most))
    cells = draw(st.lists(st.booleans(), min_size=math.prod(shape), max_size=math.prod(shape)))
    return np.array(cells).reshape(shape)


def ranked(outcomes, *, seed=0, resamples=100, **options):
    rng = np.random.default_rng(seed)
    return rank_models(named(len(outcomes)), outcomes, rng=rng, resamples=resamples, **options)


def ranked_pair(outcomes, **options):
    return rank_models(["a", "b"], outcomes, rng=np.random.default_rng(0), **options)


def by_name(ranking):
    """Return each model's rank and rank interval."""
    return dict(
        zip(ranking.names, zip(ranking.ranks, ranking.rank_intervals, strict=True), strict=True)
    )


def counted_ranks(outcomes):
    """Return the best and worst rank of each model by its successes."""
    counts = [sum(row) for row in outcomes.tolist()]
    best = [1 + sum(other > own for other in counts) for own in counts]
    return best, [sum(other >= own for other in counts) for own in counts]


@fifty
@given(outcomes=outcome_tables())
def test_the_ranking_is_that_of_the_success_counts(outcomes):
    ranking = ranked(outcomes)
    counts = dict(zip(named(len(outcomes)), outcomes.sum(axis=1), strict=True))
    ordered = [counts[name] for name in ranking.names]
    assert ordered == sorted(ordered, reverse=True)
    assert list(ranking.ranks) == [1 + sum(c > own for c in ordered) for own in ordered]


def test_rank_intervals_agree_with_ranking_every_resample():
    rng = np.random.default_rng(3)
    for seed in range(12):
        starts = int(rng.integers(5, 9))
        outcomes = rng.random((3, starts)) < np.array([[0.9], [0.7], [0.1]])
        draws = np.random.default_rng(seed).multinomial(starts, [1 / starts] * starts, size=40)
        resamples = [np.repeat(outcomes, times, axis=1) for times in draws]
        best, worst = zip(*map(counted_ranks, resamples), strict=True)
        observed_best, observed_worst = counted_ranks(outcomes)
        # At level 0.9, two of forty resamples lie outside each end.
        low = np.minimum(np.sort(best, axis=0)[2], observed_best)
        high = np.maximum(np.sort(worst, axis=0)[-3], observed_worst)
        ranking = ranked(outcomes, seed=seed, level=0.9, resamples=40)
        assert by_name(ranking) == {
            name: (observed_best[i], (low[i], high[i])) for i, name in enumerate(named(3))
        }


@fifty
@given(outcomes=outcome_tables())
def test_the_order_of_the_models_does_not_matter(outcomes):
    count = len(outcomes)
    reverse = rank_models(
        named(count)[::-1], outcomes[::-1], rng=np.random.default_rng(0), resamples=100
    )
    assert by_name(reverse) == by_name(ranked(outcomes))


@fifty
@given(outcomes=outcome_tables())
def test_models_with_the_same_outcomes_share_rank_and_interval(outcomes):
    ranking = ranked(np.vstack([outcomes, outcomes[:1]]))
    first, twin = "model-0", f"model-{len(outcomes)}"
    assert by_name(ranking)[first] == by_name(ranking)[twin]
    low, high = by_name(ranking)[first][1]
    assert high > low


def test_the_same_generator_gives_the_same_ranking_and_outcomes_stay_untouched():
    outcomes = np.random.default_rng(6).random((4, 30)) < 0.5
    kept = outcomes.copy()
    outcomes.flags.writeable = False
    assert ranked(outcomes, seed=7) == ranked(outcomes.tolist(), seed=7)
    assert (outcomes == kept).all()


def test_models_that_solve_all_or_nothing_are_ranked():
    outcomes = np.array([[False] * 5, [True] * 5, [False] * 5, [True] * 5])
    ranking = ranked(outcomes)
    assert ranking.names == ("model-1", "model-3", "model-0", "model-2")
    assert ranking.ranks == (1, 1, 3, 3)
    assert ranking.rank_intervals == ((1, 2), (1, 2), (3, 4), (3, 4))


def test_models_that_solve_the_same_number_are_not_told_apart():
    ranking = ranked(np.zeros((3, 20), dtype=bool))
    assert ranking.ranks == (1, 1, 1)
    assert ranking.rank_intervals == ((1, 3),) * 3


def test_results_are_plain_numbers():
    ranking = ranked(np.random.default_rng(8).random((3, 20)) < 0.5, level=np.float64(0.9))
    assert json.loads(json.dumps(asdict(ranking)))["names"] == list(ranking.names)
    assert type(ranking.level) is float
    assert {type(end) for interval in ranking.rank_intervals for end in interval} == {int}


@pytest.mark.parametrize(("level", "least"), [(0.95, 40), (0.9, 20), (0.99, 200)])
def test_resamples_reach_into_both_tails(level, least):
    outcomes = np.ones((2, 5), dtype=bool)
    assert ranked_pair(outcomes, level=level, resamples=least).resamples == least
    for resamples in (least - 1, 0, 1000.0, True):
        message = f"need resamples to be a whole number of at least {least}, got {resamples!r}"
        with pytest.raises(ValueError, match=message):
            ranked_pair(outcomes, level=level, resamples=resamples)


METHODS = [spearman_interval, kendall_interval]

two_hundred = settings(max_examples=200)
levels = st.floats(0.5, 0.999)
every_method = pytest.mark.parametrize("method", METHODS)


@st.composite
def models(draw, most=15):
    """Draw a metric and a success rate, with ties, of models that differ in both."""
    n = draw(st.integers(5, most))
    columns = []
    for steps in (50, 10):
        column = draw(st.lists(st.integers(0, steps), min_size=n, max_size=n))
        if len(set(column)) == 1:
            column[0] = (column[0] + 1) % (steps + 1)
        columns.append([value / steps for value in column])
    return columns


def midranks(values):
    return np.array([sum(v < own for v in values) + sum(v == own for v in values) / 2
                     for own in values])  # fmt: skip


def spearman_of_ranks(x, y):
    return np.corrcoef(midranks(x), midranks(y))[0, 1]


def tau_b_of_pairs(x, y):
    pairs = list(combinations(range(len(x)), 2))
    dx = np.array([np.sign(x[i] - x[j]) for i, j in pairs])
    dy = np.array([np.sign(y[i] - y[j]) for i, j in pairs])
    return (dx @ dy) / math.sqrt((dx @ dx) * (dy @ dy))


def fisher(estimate, deviation, level):
    half = NormalDist().inv_cdf((1 + level) / 2) * deviation
    # The transform and its inverse, written out.
    odds = (1 + estimate) / (1 - estimate)
    low, high = odds * math.exp(-2 * half), odds * math.exp(2 * half)
    return (low - 1) / (low + 1), (high - 1) / (high + 1)


@two_hundred
@given(sample=models(), level=levels)
def test_both_agree_with_ranks_and_pairs_counted_out_on_fishers_scale(sample, level):
    n = len(sample[0])
    rho, tau = spearman_of_ranks(*sample), tau_b_of_pairs(*sample)
    for method, estimate, variance, largest in (
        (spearman_interval, rho, (1 + rho**2 / 2) / (n - 3), 1 - 6 / (n**3 - n)),
        (kendall_interval, tau, 0.437 / (n - 4), 1 - 2 / (n**2 - n)),
    ):
        ci = method(*sample, level=level)
        assert ci.estimate == pytest.approx(estimate, abs=1e-10, rel=0)
        if abs(estimate) < largest:
            reference = fisher(estimate, math.sqrt(variance), level)
            assert (ci.low, ci.high) == pytest.approx(reference, abs=1e-10, rel=0)


def test_spearman_agrees_with_the_example_of_the_r_package_statpsych():
    # The manual of D. G. Bonett's package: ci.spear(.05, y, x).
    y = [21, 4, 9, 12, 35, 18, 10, 22, 24, 1, 6, 8, 13, 16, 19]
    x = [67, 28, 30, 28, 52, 40, 25, 37, 44, 10, 14, 20, 28, 40, 51]
    ci = spearman_interval(x, y)
    published = (0.8699639, 0.5840951, 0.9638297)
    assert (ci.estimate, ci.low, ci.high) == pytest.approx(published, abs=5e-8)


@every_method
def test_no_order_but_the_perfect_one_reaches_its_continuity_correction(method):
    # One swap of neighbours lies twice as far from 1 as the point that stands for perfect order.
    perfect = method(range(5), range(5))
    for order in permutations(range(5)):
        ci = method(range(5), order)
        if order != (0, 1, 2, 3, 4):
            assert ci.low < perfect.low
            assert ci.high < perfect.high


@pytest.mark.parametrize("n", [5, 6, 20])
def test_perfect_order_leaves_the_room_that_the_number_of_models_asks_for(n):
    half_a_step = {spearman_interval: 6 / (n**3 - n), kendall_interval: 2 / (n**2 - n)}
    deviation = {
        spearman_interval: math.sqrt(1.5 / (n - 3)),
        kendall_interval: (0.437 / (n - 4)) ** 0.5,
    }
    for method in METHODS:
        ci, reverse = method(range(n), range(n)), method(range(n), range(n, 0, -1))
        low, _ = fisher(1 - half_a_step[method], deviation[method], 0.95)
        assert (ci.estimate, ci.high) == (1, 1)
        assert ci.low == pytest.approx(low, abs=1e-10)
        assert (reverse.estimate, reverse.low, reverse.high) == (-1, -1, -ci.low)


@every_method
def test_results_are_plain_floats_named_by_method(method):
    ci = method(np.arange(6, dtype=np.int32), np.array([1, 3, 2, 5, 4, 6], dtype=np.float32))
    assert {type(value) for value in (ci.estimate, ci.low, ci.high, ci.level)} == {float}
    assert ci.method in {"Bonett-Wright 2000", "Fieller-Hartley-Pearson 1957"}


def test_models_are_ranked_by_mean_returns_as_by_counts_where_these_are_returns():
    rng = np.random.default_rng(3)
    solved = rng.random((4, 30)) < np.array([[0.9], [0.5], [0.5], [0.1]])
    names = ["a", "b", "c", "d"]
    counts, returns = (
        rank_models(names, outcomes, rng=np.random.default_rng(0))
        for outcomes in (solved, 2.0 * solved)
    )
    assert (counts.names, counts.ranks) == (returns.names, returns.ranks)
    assert counts.rank_intervals == returns.rank_intervals
    assert returns.method == "mean returns, percentile bootstrap"
    with pytest.raises(ValueError, match="finite returns"):
        rank_models(names, np.where(solved, np.nan, 1.0), rng=rng)

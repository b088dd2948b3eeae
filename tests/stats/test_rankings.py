import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats.rankings import rank_models

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


@pytest.mark.parametrize("names", [["a"], [], ["a", "a"], "ab"])
def test_fewer_than_two_different_names_are_refused(names):
    outcomes = np.ones((len(names), 5), dtype=bool)
    with pytest.raises(ValueError, match="need different names of at least two models, got"):
        rank_models(names, outcomes, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("outcomes", "got"),
    [
        (np.ones((2, 5)), r"float64 of shape \(2, 5\)"),
        (np.ones((3, 5), dtype=bool), r"bool of shape \(3, 5\)"),
        (np.ones(5, dtype=bool), r"bool of shape \(5,\)"),
        ([[1, 0, 1], [0, 0, 1]], r"int64 of shape \(2, 3\)"),
    ],
)
def test_outcomes_that_are_no_table_of_bools_are_refused(outcomes, got):
    with pytest.raises(ValueError, match=rf"need bool outcomes \[2 models, starts\], got {got}"):
        ranked_pair(outcomes)


@pytest.mark.parametrize("starts", [0, 1, 2])
def test_fewer_than_three_starts_are_refused(starts):
    with pytest.raises(ValueError, match=f"need at least 3 starts, got {starts}"):
        ranked_pair(np.ones((2, starts), dtype=bool))


@pytest.mark.parametrize(("level", "least"), [(0.95, 40), (0.9, 20), (0.99, 200)])
def test_resamples_reach_into_both_tails(level, least):
    outcomes = np.ones((2, 5), dtype=bool)
    assert ranked_pair(outcomes, level=level, resamples=least).resamples == least
    for resamples in (least - 1, 0, 1000.0, True):
        message = f"need resamples to be a whole number of at least {least}, got {resamples!r}"
        with pytest.raises(ValueError, match=message):
            ranked_pair(outcomes, level=level, resamples=resamples)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan, "0.95", True])
def test_an_impossible_level_is_refused_with_its_value(level):
    with pytest.raises(ValueError, match=rf"need a level between 0 and 1.*, got {level!r}$"):
        ranked_pair(np.ones((2, 5), dtype=bool), level=level)

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg.stats.rankings import bradley_terry_strengths, rank_models

# A busy machine is no failure.
unhurried = settings(deadline=None, max_examples=50)


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


def counted_wins(outcomes):
    """Return who beat whom, start by start, with half a win each for a tie."""
    wins = np.zeros((len(outcomes), len(outcomes)))
    for start in outcomes.T:
        for i, own in enumerate(start):
            for j, other in enumerate(start):
                if i != j:
                    wins[i, j] += 1 if own and not other else 0.5 if own == other else 0
    return wins


def reaches(wins):
    """Return whether a chain of wins leads from each model to each other one."""
    steps = (wins > 0) | np.eye(len(wins), dtype=bool)
    return np.linalg.matrix_power(steps.astype(float), len(wins)) > 0


def minorised(wins, iterations):
    """Return the log-strengths of many tables [tables, M, M] by Hunter's MM algorithm."""
    strengths = np.ones(wins.shape[:2])
    compared = wins + wins.transpose(0, 2, 1)
    for _ in range(iterations):
        shares = compared / (strengths[:, :, None] + strengths[:, None, :])
        strengths = wins.sum(axis=2) / shares.sum(axis=2)
        strengths /= np.exp(np.log(strengths).mean(axis=1, keepdims=True))
    return np.log(strengths)


def test_strengths_agree_with_hunters_algorithm_on_five_hundred_tables():
    rng = np.random.default_rng(1)
    tables = rng.integers(1, 20, size=(500, 5, 5)).astype(float)
    tables[:, range(5), range(5)] = 0
    references = minorised(tables, 1000)
    for table, reference in zip(tables, references, strict=True):
        assert bradley_terry_strengths(named(5), table) == pytest.approx(reference, abs=1e-10)


def test_strengths_agree_with_a_logistic_regression_on_pair_differences():
    api = pytest.importorskip("statsmodels.api")
    rng = np.random.default_rng(2)
    for _ in range(50):
        # Some pairs meet rarely, some one-sidedly, and some never.
        table = rng.integers(0, 6, size=(4, 4)) * rng.integers(0, 2, size=(4, 4)) * 1.0
        np.fill_diagonal(table, 0)
        if not reaches(table).all():
            continue
        i, j = np.triu_indices(4, 1)
        met = (table + table.T)[i, j] > 0
        i, j = i[met], j[met]
        differences = np.eye(4)[i] - np.eye(4)[j]
        fit = api.GLM(
            np.column_stack([table[i, j], table[j, i]]),
            differences[:, 1:],
            family=api.families.Binomial(),
        ).fit(tol=1e-14)
        reference = np.concatenate([[0], fit.params])
        strengths = bradley_terry_strengths(named(4), table)
        assert strengths == pytest.approx(reference - reference.mean(), abs=1e-8)


def test_strengths_reproduce_the_published_baseball_example():
    # Agresti, Categorical Data Analysis, 3rd edition, section 11.6; the fit as in the manual of
    # the R package BradleyTerry2, in which Baltimore's strength is 0.
    teams = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
    wins = [
        [0, 7, 9, 7, 7, 9, 11],
        [6, 0, 7, 5, 11, 9, 9],
        [4, 6, 0, 7, 7, 8, 12],
        [6, 8, 6, 0, 6, 7, 10],
        [6, 2, 6, 7, 0, 7, 12],
        [4, 4, 5, 6, 6, 0, 6],
        [2, 4, 1, 3, 1, 7, 0],
    ]
    strengths = np.array(bradley_terry_strengths(teams, wins))
    published = [1.5814, 1.4364, 1.2945, 1.2476, 1.1077, 0.6839, 0]
    assert strengths - strengths[-1] == pytest.approx(published, abs=5e-5)


def test_lopsided_chains_have_finite_strengths():
    # Only neighbours meet: each difference is the log-odds of its pair.
    wins = np.zeros((30, 30))
    for i in range(29):
        wins[i, i + 1], wins[i + 1, i] = 1e6, 1
    differences = -np.diff(bradley_terry_strengths(named(30), wins))
    assert differences == pytest.approx(np.full(29, math.log(1e6)), abs=1e-8)


@unhurried
@given(outcomes=outcome_tables())
def test_half_wins_make_the_ranking_that_of_the_success_counts(outcomes):
    ranking = ranked(outcomes)
    counts = dict(zip(named(len(outcomes)), outcomes.sum(axis=1), strict=True))
    ordered = [counts[name] for name in ranking.names]
    assert ordered == sorted(ordered, reverse=True)
    assert list(ranking.ranks) == [1 + sum(c > own for c in ordered) for own in ordered]


@unhurried
@given(outcomes=outcome_tables())
def test_strengths_are_those_of_the_comparisons_counted_start_by_start(outcomes):
    ranking = ranked(outcomes)
    wins = counted_wins(outcomes)
    connected = reaches(wins).all()
    assert (ranking.strengths is not None) == connected == (len(ranking.components) == 1)
    if connected:
        reference = dict(
            zip(named(len(wins)), bradley_terry_strengths(named(len(wins)), wins), strict=True)
        )
        assert ranking.strengths == pytest.approx(
            [reference[name] for name in ranking.names], abs=1e-10
        )
        assert sum(ranking.strengths) == pytest.approx(0, abs=1e-10)
        ties = np.diff(ranking.ranks) == 0
        steps = np.diff(ranking.strengths)
        assert (steps[~ties] < 0).all()
        assert steps[ties] == pytest.approx(0, abs=1e-10)


def refitted_ranks(outcomes):
    """Return the best and worst rank of each model, by strength, and whether all have one."""
    wins = counted_wins(outcomes)
    connected = bool(reaches(wins).all())
    if connected:
        strengths = np.array(bradley_terry_strengths(named(len(wins)), wins))
        behind = strengths[:, None] < strengths - 1e-9
    else:
        behind = ~reaches(wins)
    return 1 + behind.sum(axis=1), len(wins) - behind.sum(axis=0), connected


@pytest.mark.parametrize("grouped", [False, True])
def test_rank_intervals_agree_with_refitting_every_resample(grouped):
    rng = np.random.default_rng(3)
    apart = 0
    for seed in range(12):
        starts = int(rng.integers(5, 9))
        outcomes = rng.random((3, starts)) < np.array([[0.9], [0.7], [0.1]])
        groups = np.arange(starts) // 2 if grouped else np.arange(starts)
        count = groups.max() + 1
        draws = np.random.default_rng(seed).multinomial(count, [1 / count] * count, size=40)
        refits = [refitted_ranks(np.repeat(outcomes, times[groups], axis=1)) for times in draws]
        best, worst, connected = zip(*refits, strict=True)
        observed_best, observed_worst, _ = refitted_ranks(outcomes)
        # At level 0.9, two of forty resamples lie outside each end.
        low = np.minimum(np.sort(best, axis=0)[2], observed_best)
        high = np.maximum(np.sort(worst, axis=0)[-3], observed_worst)
        ranking = ranked(outcomes, seed=seed, groups=groups, level=0.9, resamples=40)
        assert by_name(ranking) == {
            name: (observed_best[i], (low[i], high[i])) for i, name in enumerate(named(3))
        }
        assert ranking.disconnected_share == connected.count(False) / 40
        apart += ranking.disconnected_share > 0
    assert apart > 0


@unhurried
@given(outcomes=outcome_tables())
def test_the_order_of_the_models_does_not_matter(outcomes):
    count = len(outcomes)
    reverse = rank_models(
        named(count)[::-1], outcomes[::-1], rng=np.random.default_rng(0), resamples=100
    )
    assert by_name(reverse) == by_name(ranked(outcomes))


@unhurried
@given(outcomes=outcome_tables())
def test_counting_failures_instead_of_successes_mirrors_the_rank_intervals(outcomes):
    count = len(outcomes)
    mirrored = by_name(ranked(~outcomes))
    for name, (_, (low, high)) in by_name(ranked(outcomes)).items():
        assert mirrored[name][1] == (count + 1 - high, count + 1 - low)


@unhurried
@given(outcomes=outcome_tables(), level=st.floats(0.5, 0.95))
def test_rank_intervals_hold_the_rank_and_never_narrow_at_a_higher_level(outcomes, level):
    ranking, wider = by_name(ranked(outcomes, level=level)), by_name(ranked(outcomes, level=0.97))
    for name, (rank, (low, high)) in ranking.items():
        assert 1 <= low <= rank <= high <= len(outcomes)
        assert wider[name][1][0] <= low
        assert wider[name][1][1] >= high


@unhurried
@given(outcomes=outcome_tables())
def test_models_with_the_same_outcomes_share_rank_interval_and_strength(outcomes):
    ranking = ranked(np.vstack([outcomes, outcomes[:1]]))
    first, twin = "model-0", f"model-{len(outcomes)}"
    assert by_name(ranking)[first] == by_name(ranking)[twin]
    low, high = by_name(ranking)[first][1]
    assert high > low
    if ranking.strengths is not None:
        strength = dict(zip(ranking.names, ranking.strengths, strict=True))
        assert strength[first] == pytest.approx(strength[twin], abs=1e-12)


def test_starts_of_one_group_are_resampled_together():
    rng = np.random.default_rng(4)
    outcomes = rng.random((4, 12)) < 0.5
    repeated = ranked(np.repeat(outcomes, 5, axis=1), groups=np.repeat(np.arange(12), 5))
    assert by_name(repeated) == by_name(ranked(outcomes))
    labelled = ranked(np.repeat(outcomes, 5, axis=1), groups=np.repeat(list("abcdefghijkl"), 5))
    assert labelled == repeated


def test_a_group_for_each_start_is_no_grouping():
    outcomes = np.random.default_rng(5).random((3, 10)) < 0.5
    assert ranked(outcomes, groups=range(10)) == ranked(outcomes)


def test_the_same_generator_gives_the_same_ranking_and_outcomes_stay_untouched():
    outcomes = np.random.default_rng(6).random((4, 30)) < 0.5
    kept = outcomes.copy()
    outcomes.flags.writeable = False
    assert ranked(outcomes, seed=7) == ranked(outcomes.tolist(), seed=7)
    assert (outcomes == kept).all()


def test_a_model_that_never_loses_has_a_finite_strength_when_starts_tie():
    # It solves all that the other one solves, and 5 of 50 starts more.
    outcomes = np.arange(50) < np.array([[30], [25]])
    ranking = ranked(outcomes)
    assert ranking.names == ("model-0", "model-1")
    # Five wins and 45 half wins against 45 half wins.
    assert ranking.strengths[0] - ranking.strengths[1] == pytest.approx(math.log(27.5 / 22.5))


def test_models_that_solve_all_or_nothing_are_ranked_without_strengths():
    outcomes = np.array([[False] * 5, [True] * 5, [False] * 5, [True] * 5])
    ranking = ranked(outcomes)
    assert ranking.names == ("model-1", "model-3", "model-0", "model-2")
    assert ranking.components == (("model-1", "model-3"), ("model-0", "model-2"))
    assert ranking.ranks == (1, 1, 3, 3)
    assert ranking.rank_intervals == ((1, 2), (1, 2), (3, 4), (3, 4))
    assert ranking.strengths is None
    assert ranking.disconnected_share == 1


def test_resamples_without_the_one_start_that_connects_the_models_are_counted():
    # 49 of 50 against none: the failure is missing from about exp(-1) of the resamples.
    ranking = ranked(np.arange(50) < np.array([[49], [0]]), resamples=4000)
    assert ranking.strengths is not None
    assert ranking.disconnected_share == pytest.approx((1 - 1 / 50) ** 50, abs=0.04)
    assert ranking.rank_intervals == ((1, 1), (2, 2))


def test_models_that_solve_the_same_number_are_not_told_apart():
    ranking = ranked(np.zeros((3, 20), dtype=bool))
    assert ranking.ranks == (1, 1, 1)
    assert ranking.rank_intervals == ((1, 3),) * 3
    assert ranking.strengths == (0, 0, 0)
    assert ranking.disconnected_share == 0


def test_results_are_plain_numbers():
    ranking = ranked(np.random.default_rng(8).random((3, 20)) < 0.5, level=np.float64(0.9))
    assert json.loads(json.dumps(asdict(ranking)))["names"] == list(ranking.names)
    assert {type(value) for value in (*ranking.strengths, ranking.level)} == {float}
    assert {type(end) for interval in ranking.rank_intervals for end in interval} == {int}


def test_models_that_cannot_be_compared_are_named():
    wins = [[0, 2, 1], [1, 0, 4], [0, 0, 0]]
    with pytest.raises(ValueError, match=r"these sets have not: a, b \| c\. Leave out"):
        bradley_terry_strengths(["a", "b", "c"], wins)
    never_met = [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    with pytest.raises(ValueError, match=r"these sets have not: a, b \| c, d\."):
        bradley_terry_strengths(list("abcd"), never_met)


@pytest.mark.parametrize("names", [["a"], [], ["a", "a"], "ab"])
def test_fewer_than_two_different_names_are_refused(names):
    outcomes = np.ones((len(names), 5), dtype=bool)
    with pytest.raises(ValueError, match="need different names of at least two models, got"):
        rank_models(names, outcomes, rng=np.random.default_rng(0))
    with pytest.raises(ValueError, match="need different names of at least two models, got"):
        bradley_terry_strengths(names, [[0, 1], [1, 0]])


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


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (range(4), r"need one group for each of 5 starts, got shape \(4,\)"),
        ([[0] * 5], r"need one group for each of 5 starts, got shape \(1, 5\)"),
        ([0, 0, 1, 1, 1], "need at least 3 groups of starts, got 2"),
        ([0, 1, 2, 3, math.nan], "need groups that are finite numbers or text, got"),
        ([0, 1, 2, 3, None], "need groups that are finite numbers or text, got"),
    ],
)
def test_impossible_groups_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        ranked_pair(np.ones((2, 5), dtype=bool), groups=groups)


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


@pytest.mark.parametrize(
    ("wins", "message"),
    [
        ([[0, 1, 1], [1, 0, 1]], r"need wins \[2, 2\], got shape \(2, 3\)"),
        ([[0, -1], [1, 0]], "need finite wins of at least 0, and 0 on the diagonal, got"),
        ([[0, math.nan], [1, 0]], "need finite wins of at least 0, and 0 on the diagonal, got"),
        ([[0, math.inf], [1, 0]], "need finite wins of at least 0, and 0 on the diagonal, got"),
        ([[1, 1], [1, 0]], "need finite wins of at least 0, and 0 on the diagonal, got"),
    ],
)
def test_impossible_wins_are_refused(wins, message):
    with pytest.raises(ValueError, match=message):
        bradley_terry_strengths(["a", "b"], wins)

"""Figures of a planning gap: what a page draws is what the result holds."""

from dataclasses import replace

import numpy as np
import pytest
from documents import measured
from fakes import arm, first, result_of

from pytest_cpg.gates.planning_gap.cause import Cause, Profile
from pytest_cpg.gates.planning_gap.figures import effect, figures, profile_figures, trends

RESULT = measured(0.6, 0.5, 100)


def by_title(result):
    return {figure.title.partition(":")[0]: figure for figure in figures(result)}


def test_the_effect_is_the_judged_interval_of_the_gap_and_a_share_unless_it_is_of_returns():
    result = measured(0.96, 0.5, margin=0.1, interval="tango")
    loss = effect(result)
    assert (loss.found, loss.margin, loss.is_share) == (result.interval, 0.1, True)
    assert not effect(measured(0.9, 0.3, metric="return")).is_share


def test_every_arm_climbs_by_one_episode_where_it_was_solved():
    one = arm("learned", [True, False, True, True])
    object.__setattr__(one, "steps", np.array([100, 500, 250, 250]))
    result = replace(result_of(first(4, 4), first(3, 4)), learned=one)
    series = by_title(result)["Starts solved over steps"].series
    assert list(series) == ["oracle", "learned", "chance"]
    assert series["learned"] == ((0, 0), (100, 0.25), (250, 0.5), (250, 0.75), (500, 0.75))
    assert series["chance"] == ((0, 0), (500, 0))


def test_every_shared_start_is_in_the_cells_of_who_solved_it():
    figure = by_title(RESULT)["The same 100 starts in both arms"]
    cells, pairs = figure.series, RESULT.pairs
    assert {name: len(episodes) for name, episodes in cells.items()} == {
        "both solve": pairs.both,
        "lost by the model": pairs.oracle_only,
        "only the model solves": pairs.learned_only,
        "neither solves": pairs.neither,
    }
    assert cells["lost by the model"] == RESULT.lost_episodes
    assert sorted(sum(cells.values(), ())) == list(range(100))
    episode = RESULT.lost_episodes[0]
    known = {cell.number: cell for cell in figure.cells}
    steps = RESULT.oracle.steps[episode]
    assert known[episode].note == f"seed {episode + 7}; oracle {steps} steps, learned not solved"
    assert known[episode].code == f"task.reset([{episode + 7}])"


def test_an_oracle_arm_that_ran_more_episodes_is_paired_on_the_common_ones():
    longer = result_of(first(100, 100), first(0, 100))
    shorter = replace(result_of(first(50, 50), first(10, 50)), oracle=longer.oracle)
    cells = by_title(shorter)["The same 50 starts in both arms"].series
    assert sum(map(len, cells.values())) == 50
    assert list(by_title(shorter)["Lost episodes"].series) == [str(n) for n in range(10, 50)]


def test_a_lost_episode_is_named_with_its_seed_and_the_steps_of_the_oracle():
    lost = by_title(RESULT)["Lost episodes"]
    assert lost.title == f"Lost episodes: {len(RESULT.lost_episodes)}"
    episode = RESULT.lost_episodes[0]
    assert lost.series[str(episode)] == (f"{episode + 7}", f"{RESULT.oracle.steps[episode]}")
    assert lost.reading.startswith("Each with the seed of its start, and the steps in which")
    assert "Lost episodes" not in by_title(result_of(first(9, 9), first(9, 9)))


def test_rate_and_gap_are_followed_and_those_of_an_aa_check_apart():
    rate, gap = trends(RESULT)
    assert rate.text == f"{RESULT.learned.success_count}/100"
    assert (rate.bound.estimate, rate.axis) == (RESULT.learned.success_rate, (0, 1))
    assert gap.bound.high == RESULT.interval.high
    assert trends(replace(RESULT, is_aa=True))[0].name != rate.name


PROFILE = Profile(
    ranking=(0.9, 0.5, -0.1),
    open_loop=(0.1, 0.4),
    bins=(0.0, 0.5, 1.0, 2.0),
    trained=(0.7, 0.3, 0.0),
    planned=(0.2, 0.3, 0.5),
    predicted=(0.5, 0.1),
    actual=(0.2, 0.3),
)


def test_a_profile_is_drawn_whole():
    error, ranking, distances, promises = profile_figures(PROFILE, Cause.DYNAMICS_BIAS)
    assert error.series["learned"] == ((1, 0.1), (2, 0.4))
    assert ranking.series["learned"] == ((1, 0.9), (2, 0.5), (3, -0.1))
    assert distances.series["planned states"] == ((0, 0), (0, 0.2), (0.5, 0.3), (1, 0.5), (2, 0))
    assert distances.series["limit"] == ((1, 0), (1, 0.7))
    assert promises.series["learned"] == ((0.1, 0.3), (0.5, 0.2))
    assert promises.series["limit"] == ((0.1, 0.1), (0.5, 0.5))
    assert distances.finding == "50 % of planned states lie beyond the threshold."


@pytest.mark.parametrize(
    ("cause", "title"),
    [
        (Cause.COVERAGE, "How far plans go from the training data"),
        (Cause.EXPLOITATION, "Promised and true score of chosen plans"),
        (Cause.PLANNER, "How well the model ranks plans"),
    ],
)
def test_a_cause_is_shown_by_its_own_figure_first(cause, title):
    drawn = [figure.title for figure in profile_figures(PROFILE, cause)]
    assert drawn[0] == title
    assert len(set(drawn)) == 4


def test_a_model_that_is_right_where_the_oracle_goes_is_shown_where_its_own_plans_lead():
    right = replace(PROFILE, open_loop=(0.0, 0.2))
    assert profile_figures(right, Cause.DYNAMICS_BIAS)[0].title.startswith("Promised and true")
    assert profile_figures(PROFILE, Cause.DYNAMICS_BIAS)[0].title.startswith("Error of the score")


def test_nothing_is_drawn_of_a_profile_that_holds_nothing():
    assert not list(profile_figures(Profile(), Cause.NONE))
    assert not list(profile_figures(Profile(ranking=(0.5,), open_loop=(0.1,)), Cause.NONE))

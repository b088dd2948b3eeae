"""What every task must do: the conformance suite that users run, over all of ours."""

import functools

import numpy as np
import pytest

from pytest_cpg.conformance.rows import HORIZON, ROWS
from pytest_cpg.conformance.test_tasks import *  # noqa: F403 - tests of the task of this module
from pytest_cpg.conformance.test_tasks import every_result
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.goal_task import GoalTask
from pytest_cpg.tasks.goals import Goals
from pytest_cpg.tasks.pixel_task import PixelTask
from pytest_cpg.tasks.pixels import Pixels

EMBEDDED = {"maze", "two-room"}
CAUSAL = (
    "blocks:5-unobserved,k=2,stratum=push",
    "blocks:3,look=picture",
    "chemistry:full5",
    "chemistry:random4-dynamic,k=5",
)
# One whose episodes change the model, and two kinds of environments that are put back.
ROW_BY_ROW = ("dmc:point_mass-hard", "gym:CartPole-v1", "gym:InvertedPendulum-v5", *CAUSAL)

# Of each kind one, with goals that are drawn.
WITH_GOALS = ("maze", "dmc:point_mass-hard", "gym:CartPole-v1", "gym:InvertedPendulum-v5")
SEEN = ("maze", "reacher-easy", "blocks:5-unobserved,k=2,stratum=push")
WRAPPED = [*(f"{name} goals" for name in WITH_GOALS), *(f"{name} pixels" for name in SEEN)]
WRAPPED += [f"{name} goals and pixels" for name in SEEN[:2]]


@functools.cache
def built(name):
    if name.startswith("gym:"):
        pytest.importorskip("gymnasium")
    if name not in (*EMBEDDED, *CAUSAL, "gym:CartPole-v1"):
        pytest.importorskip("dm_control")
    if name == "gym:InvertedPendulum-v5":
        pytest.importorskip("imageio")
    return named_task(name, TASKS)()


@pytest.fixture(scope="module", params=sorted(TASKS))
def name(request):
    if request.param not in EMBEDDED:
        pytest.importorskip("dm_control")
    return request.param


@pytest.fixture(scope="module")
def task(name):
    return built(name)


@pytest.fixture(params=[*sorted(TASKS), *ROW_BY_ROW, *WRAPPED])
def conformance_task(request):
    name, _, wrapped = request.param.partition(" ")
    task = built(name)
    if "goals" in wrapped:
        task = GoalTask(inner=task, goals=Goals(offset=3, within=0.1).loaded())
    return PixelTask(inner=task, pixels=Pixels(stack=2)) if "pixels" in wrapped else task


@pytest.fixture
def states(task):
    return task.reset(np.arange(ROWS))


@pytest.fixture
def plans(task):
    rngs = [np.random.default_rng(row) for row in range(ROWS)]
    return task.actions.sample(rngs, (HORIZON,))


def test_it_bears_the_name_that_it_is_asked_for_by_and_says_its_versions(task, name):
    assert task.name == name
    assert task.versions
    assert all(isinstance(text, str) for pair in task.versions.items() for text in pair)


def test_a_budget_can_be_asked_for_and_none_means_the_default(task, name):
    assert TASKS[name](budget=7).budget == 7
    assert TASKS[name](budget=None).budget == task.budget
    with pytest.raises(ValueError, match="at least 1 step, got 0"):
        TASKS[name](budget=0)


def test_another_instance_gives_the_same_bits(task, name, states, plans):
    elsewhere = every_result(TASKS[name](), states, plans)
    for what, result in every_result(task, states, plans).items():
        assert result.tobytes() == elsewhere[what].tobytes()


def test_success_is_a_high_reward(task, states):
    rngs = [np.random.default_rng(row) for row in range(ROWS)]
    actions = task.actions.sample(rngs, (task.budget,))
    ended = task.rollout(states, actions)
    reward = task.reward(ended, actions)
    success = task.success(ended, actions)
    assert ((reward >= 0) & (reward <= 1)).all()
    assert (reward[success] >= 0.5).all()
    assert reward[~success].max(initial=0) < reward[success].min(initial=1)


def test_lost_rows_stay_lost_and_never_succeed(task, states, plans):
    expected = task.step(states, plans[:, 0])[0]
    states[1] = np.nan
    after = task.step(states, plans[:, 0])
    ahead = task.rollout(states, plans)
    np.testing.assert_array_equal(after[0], expected)
    assert np.isnan(after[1]).all()
    assert np.isnan(ahead[1]).all()
    assert np.isnan(task.score(task.observe(ahead[1]))).all()
    assert not task.success(ahead[1], plans[1]).any()

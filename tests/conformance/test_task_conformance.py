"""What every task must do, built in or contributed."""

import numpy as np
import pytest

from pytest_cpg.contracts import Task
from pytest_cpg.tasks import TASKS

EMBEDDED = {"maze", "two-room"}
ROWS, HORIZON = 6, 4


@pytest.fixture(scope="module", params=sorted(TASKS))
def name(request):
    if request.param not in EMBEDDED:
        pytest.importorskip("dm_control")
    return request.param


@pytest.fixture(scope="module")
def task(name):
    return TASKS[name]()


@pytest.fixture
def states(task):
    return task.reset(np.arange(ROWS))


@pytest.fixture
def plans(task):
    rngs = [np.random.default_rng(row) for row in range(ROWS)]
    return task.actions.sample(rngs, (HORIZON,))


def frozen(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays


def every_result(task, states, plans):
    imagined = task.rollout(states, plans)
    observed = task.observe(states)
    return {
        "step": task.step(states, plans[:, 0]),
        "rollout": imagined,
        "observe": observed,
        "score": task.score(observed),
        "reward": task.reward(states, plans[:, 0]),
        "success": task.success(states, plans[:, 0]),
        "observe ahead": task.observe(imagined),
        "score ahead": task.score(task.observe(imagined)),
        "reward ahead": task.reward(imagined, plans),
        "success ahead": task.success(imagined, plans),
    }


def test_it_is_a_task_under_its_own_name(task, name):
    assert isinstance(task, Task)
    assert task.name == name
    assert task.budget >= 1
    assert task.control_period > 0
    assert task.versions
    assert all(isinstance(text, str) for pair in task.versions.items() for text in pair)


def test_a_budget_can_be_asked_for_and_none_means_the_default(task, name):
    assert TASKS[name](budget=7).budget == 7
    assert TASKS[name](budget=None).budget == task.budget
    with pytest.raises(ValueError, match="at least 1 step, got 0"):
        TASKS[name](budget=0)


def test_shapes_and_types_follow_the_contract(task, states, plans):
    results = every_result(task, states, plans)
    size = states.shape[1]
    assert results["step"].shape == (ROWS, size)
    assert results["rollout"].shape == (ROWS, HORIZON, size)
    assert results["observe"].shape == (ROWS, task.observation_size)
    assert results["observe ahead"].shape == (ROWS, HORIZON, task.observation_size)
    for what in ("score", "reward", "success"):
        assert results[what].shape == (ROWS,)
        assert results[f"{what} ahead"].shape == (ROWS, HORIZON)
    for what, result in results.items():
        assert result.dtype == (np.bool_ if "success" in what else np.float64)
    assert np.isfinite(results["observe ahead"]).all()


def test_a_single_state_needs_no_batch_axis(task, states, plans):
    observation = task.observe(states[0])
    assert observation.shape == (task.observation_size,)
    assert np.shape(task.score(observation)) == ()
    assert np.shape(task.reward(states[0], plans[0, 0])) == ()
    assert np.shape(task.success(states[0], plans[0, 0])) == ()


def test_no_rows_give_no_rows(task, states, plans):
    assert task.step(states[:0], plans[:0, 0]).shape == (0, states.shape[1])
    assert task.rollout(states[:0], plans[:0]).shape == (0, HORIZON, states.shape[1])


def test_the_same_arguments_give_the_same_bits_in_any_instance(task, name, states, plans):
    first = every_result(task, states, plans)
    again = every_result(task, states, plans)
    elsewhere = every_result(TASKS[name](), states, plans)
    for what, result in first.items():
        assert result.tobytes() == again[what].tobytes() == elsewhere[what].tobytes()


def test_a_start_depends_on_its_seed_alone(task, states):
    shuffled = [3, 0, 5, 3]
    np.testing.assert_array_equal(task.reset(np.array(shuffled)), states[shuffled])
    assert len(np.unique(states, axis=0)) > 1


def test_a_row_does_not_depend_on_the_batch(task, states, plans):
    whole = every_result(task, states, plans)
    reverse = every_result(task, states[::-1], plans[::-1])
    for what, result in whole.items():
        assert result.tobytes() == reverse[what][::-1].tobytes()
    for row in range(ROWS):
        alone = every_result(task, states[row : row + 1], plans[row : row + 1])
        for what, result in whole.items():
            assert result[row : row + 1].tobytes() == alone[what].tobytes()


def test_arguments_are_neither_written_to_nor_returned(task, states, plans):
    given = frozen(states, plans)
    before = [array.copy() for array in given]
    results = every_result(task, *given)
    observed = results["observe"]
    for result in results.values():
        assert result.flags.writeable
        assert not any(np.shares_memory(result, array) for array in given)
    assert not np.shares_memory(task.score(observed), observed)
    for array, copy in zip(given, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_result_that_is_written_to_changes_no_later_one(task, states, plans):
    expected = every_result(task, states, plans)
    for result in every_result(task, states, plans).values():
        result.fill(1)
    task.reset(np.arange(ROWS)).fill(1)
    np.testing.assert_array_equal(task.reset(np.arange(ROWS)), states)
    for what, result in every_result(task, states, plans).items():
        assert result.tobytes() == expected[what].tobytes()


def test_a_state_holds_all_that_its_future_depends_on(task, states, plans):
    expected = task.step(task.step(states, plans[:, 0]), plans[:, 1])
    middle = task.step(states, plans[:, 0])
    task.reset(np.arange(100, 103))
    task.step(states[::-1], plans[:, 3])
    task.rollout(middle, plans)
    np.testing.assert_array_equal(task.step(middle, plans[:, 1]), expected)


def test_a_rollout_is_observed_like_repeated_steps(task, states, plans):
    imagined = task.rollout(states, plans)
    for t in range(HORIZON):
        states = task.step(states, plans[:, t])
        assert task.observe(imagined[:, t]).tobytes() == task.observe(states).tobytes()


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


def test_the_idle_action_is_one_of_the_actions(task):
    assert task.actions.contains(task.actions.idle)

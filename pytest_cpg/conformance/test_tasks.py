"""What every task must do: pure functions of their arguments, row by row, bit for bit."""

from __future__ import annotations

import numpy as np

from pytest_cpg.conformance.rows import (
    HORIZON,
    ROWS,
    Arrays,
    check_same,
    plans_of,
    starts_of,
    without_writing,
)
from pytest_cpg.contracts import Task
from pytest_cpg.contracts.lookup import check_complete
from pytest_cpg.contracts.task import score_states

_PURE = "Let it depend on its arguments alone: draw nothing, and keep what is needed in the state."
_ROW = (
    "Compute each row by itself: a matrix product of a batch, and what is shared between rows, "
    "rounds by the batch."
)
_STEPS = (
    "Let rollout do the same operations as step in the same order, for instance by calling step."
)


def every_result(task: Task, states: Arrays, plans: Arrays) -> dict[str, Arrays]:
    """Return what each method gives, and what it gives for imagined states."""
    imagined = task.rollout(states, plans)
    return {
        "step": task.step(states, plans[:, 0]),
        "rollout": imagined,
        "observe": task.observe(states),
        "score": score_states(task, states),
        "reward": task.reward(states, plans[:, 0]),
        "success": task.success(states, plans[:, 0]),
        "observe ahead": task.observe(imagined),
        "score ahead": score_states(task, imagined),
        "reward ahead": task.reward(imagined, plans),
        "success ahead": task.success(imagined, plans),
    }


def test_it_is_a_task(conformance_task: Task) -> None:
    check_complete("task", "conformance_task", conformance_task, Task)
    assert conformance_task.budget >= 1
    assert conformance_task.control_period > 0
    assert conformance_task.actions.contains(conformance_task.actions.idle)


def test_shapes_follow_the_contract(conformance_task: Task) -> None:
    task = conformance_task
    states, plans = starts_of(task), plans_of(task)
    results, size = every_result(task, states, plans), states.shape[1]
    assert results["step"].shape == (ROWS, size)
    assert results["rollout"].shape == (ROWS, HORIZON, size)
    assert results["observe"].shape == (ROWS, task.observation_size)
    assert results["observe ahead"].shape == (ROWS, HORIZON, task.observation_size)
    for what in ("score", "reward", "success"):
        assert results[what].shape == (ROWS,)
        assert results[f"{what} ahead"].shape == (ROWS, HORIZON)
    assert task.step(states[:0], plans[:0, 0]).shape == (0, size)
    assert task.rollout(states[:0], plans[:0]).shape == (0, HORIZON, size)
    assert np.shape(task.observe(states[0])) == (task.observation_size,)
    assert np.shape(task.reward(states[0], plans[0, 0])) == ()
    assert np.shape(task.success(states[0], plans[0, 0])) == ()
    assert np.shape(score_states(task, states[0])) == ()


def test_rewards_and_successes_are_defined(conformance_task: Task) -> None:
    results = every_result(
        conformance_task, starts_of(conformance_task), plans_of(conformance_task)
    )
    for what in ("step", "observe ahead", "reward ahead", "score ahead"):
        assert np.isfinite(results[what]).all(), what
    for what in ("success", "success ahead"):
        assert results[what].dtype == np.bool_


def test_the_same_arguments_give_the_same_bits(conformance_task: Task) -> None:
    states, plans = starts_of(conformance_task), plans_of(conformance_task)
    again = every_result(conformance_task, states, plans)
    for what, result in every_result(conformance_task, states, plans).items():
        check_same(what, again[what], result, cure=_PURE)


def test_a_start_depends_on_its_seed_alone(conformance_task: Task) -> None:
    states, shuffled = starts_of(conformance_task), [ROWS - 1, 0, 2, ROWS - 1]
    np.testing.assert_array_equal(conformance_task.reset(np.array(shuffled)), states[shuffled])
    assert len(np.unique(states, axis=0)) > 1


def test_a_row_does_not_depend_on_the_batch(conformance_task: Task) -> None:
    task, states, plans = conformance_task, starts_of(conformance_task), plans_of(conformance_task)
    whole = every_result(task, states, plans)
    reverse = every_result(task, states[::-1], plans[::-1])
    for what, result in whole.items():
        check_same(f"{what}, in another order", reverse[what][::-1], result, cure=_ROW)
    for row in range(ROWS):
        alone = every_result(task, states[row : row + 1], plans[row : row + 1])
        for what, result in whole.items():
            place = f"{what}, of row {row} alone and among others"
            check_same(place, alone[what], result[row : row + 1], cure=_ROW)


def test_arguments_are_neither_written_to_nor_returned(conformance_task: Task) -> None:
    states, plans = starts_of(conformance_task), plans_of(conformance_task)
    with without_writing(states, plans):
        results = every_result(conformance_task, states, plans)
    for what, result in results.items():
        assert result.flags.writeable, what
        assert not np.shares_memory(result, states), what
        assert not np.shares_memory(result, plans), what


def test_a_result_that_is_written_to_changes_no_later_one(conformance_task: Task) -> None:
    task, states, plans = conformance_task, starts_of(conformance_task), plans_of(conformance_task)
    expected = every_result(task, states, plans)
    for result in every_result(task, states, plans).values():
        result.fill(1)
    starts_of(task).fill(1)
    np.testing.assert_array_equal(starts_of(task), states)
    for what, result in every_result(task, states, plans).items():
        check_same(what, result, expected[what], cure="Return a copy of what the task keeps.")


def test_a_state_holds_all_that_its_future_depends_on(conformance_task: Task) -> None:
    task, states, plans = conformance_task, starts_of(conformance_task), plans_of(conformance_task)
    middle = task.step(states, plans[:, 0])
    expected = task.step(middle, plans[:, 1])
    task.reset(np.arange(100, 103))
    task.step(states[::-1], plans[:, 3])
    task.rollout(middle, plans)
    np.testing.assert_array_equal(task.step(middle, plans[:, 1]), expected)


def test_a_rollout_is_observed_like_repeated_steps(conformance_task: Task) -> None:
    task, states, plans = conformance_task, starts_of(conformance_task), plans_of(conformance_task)
    imagined = task.rollout(states, plans)
    for t in range(HORIZON):
        states = task.step(states, plans[:, t])
        ahead = imagined[:, t]
        place = f"after step {t + 1}, in a rollout and by steps"
        seen, scores = task.observe(ahead), score_states(task, ahead)
        check_same(f"observe {place}", seen, task.observe(states), cure=_STEPS)
        check_same(f"score {place}", scores, score_states(task, states), cure=_STEPS)
        for what, judge in (("reward", task.reward), ("success", task.success)):
            np.testing.assert_array_equal(
                judge(ahead, plans[:, t]),
                judge(states, plans[:, t]),
                err_msg=f"{what} {place}. {_STEPS}",
            )


__all__ = [name for name in dir() if name.startswith("test_")]

"""Goals of tasks that have none: from a file, drawn, and told where they are wrong."""

import pickle
from pathlib import Path

import numpy as np
import pytest

from pytest_cpg.contracts import BoxActions, ComponentError, TaskError
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import Greedy, RandomShooting
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.goal_task import GoalTask, with_goals
from pytest_cpg.tasks.goals import Goals
from pytest_cpg.tasks.pictures import rendered
from pytest_cpg.world_models import OracleDynamics


def goal_task(inner=None, **settings):
    goals = Goals(**{"within": 0.5, **settings}).loaded()
    return GoalTask(inner=inner or TASKS["maze"](), goals=goals)


@pytest.fixture
def file(tmp_path):
    def write(**arrays):
        path = tmp_path / "goals.npz"
        np.savez(path, **arrays)
        return str(path)

    return write


def test_a_goal_is_where_true_steps_from_the_start_lead():
    task = goal_task(offset=7)
    states = task.reset(np.arange(5))
    goals = task.goal(states)
    np.testing.assert_array_equal(task.observe(states)[:, -2:], goals)
    inner = TASKS["maze"]()
    starts = inner.reset(np.arange(5))
    np.testing.assert_array_equal(states[:, :-2], starts)
    away = np.abs(goals - inner.observe(starts)).sum(axis=1)
    assert ((away <= 7) & (away > 0)).any()
    # The same whichever others are drawn beside them.
    np.testing.assert_array_equal(task.reset(np.array([3])), states[3:4])


def test_score_is_the_distance_over_the_columns_and_success_is_near_enough():
    task = goal_task(offset=4, columns=[1], within=2)
    observations = np.array([[0.0, 0.0, 9.0, 2.0], [0.0, 0.0, 0.0, 3.0]])
    np.testing.assert_array_equal(task.score(observations), [2, 3])
    assert task.success(observations, np.zeros((2, 1))).tolist() == [True, False]
    assert "goals=after 4 steps random, within=2 in 1" in task.name
    assert task.note_on_starts == (
        "goals are where 4 true steps of random actions lead from the start; states are rated by "
        "their Euclidean distance to the goal over columns 1, and 2 is near enough"
    )


@pytest.mark.parametrize("columns", [[0, 1], [1, 0]])
def test_the_order_of_columns_changes_no_distance(columns):
    task = goal_task(offset=4, columns=columns)
    np.testing.assert_array_equal(task.score(np.array([[4.0, 7.0, 5.0, 7.0]])), [1])


def test_what_the_inner_task_says_of_its_starts_is_said_too():
    task = goal_task(named_task("blocks:3,stratum=push", TASKS)(), offset=3)
    assert task.inner.note_on_starts in task.note_on_starts
    assert "goals are where 3 true steps" in task.note_on_starts


def test_starts_that_are_at_their_goal_already_stay_out():
    # Of 2 random moves, many lead back.
    starts = sample_starts(goal_task(offset=2), 40, seed=0)
    task = goal_task(offset=2)
    assert starts.skipped > 0
    idle = np.broadcast_to(task.actions.idle, (40, task.actions.size))
    assert not task.success(task.step(starts.states, idle), idle).any()


def test_a_planner_draws_goals_that_are_nearer_to_the_tasks_own():
    inner = TASKS["maze"]()
    led = goal_task(offset=6, by=Greedy())
    states = led.reset(np.arange(4))
    before = inner.score(inner.observe(states[:, :-2]))
    np.testing.assert_array_equal(inner.score(led.goal(states)), np.maximum(before - 6, 0))


def test_episodes_have_the_goals_of_a_file_in_order(file):
    listed = np.array([[1.0, 1.0], [2.0, 1.0], [1.0, 3.0]])
    task = goal_task(file=file(goals=listed, within=0.5), within=None)
    starts = sample_starts(task, 3, seed=4)
    np.testing.assert_array_equal(task.goal(starts.states), listed)
    with pytest.raises(TaskError, match=r"has 3 goals, and the gate 4 starts .* episodes=3"):
        sample_starts(task, 4, seed=4)
    # The file need not be there where it is sent.
    sent = pickle.loads(pickle.dumps(task.goals))  # noqa: S301 - our own
    np.testing.assert_array_equal(sent.listed, listed)
    assert sent.written == task.goals.written


def test_objects_beside_goals_are_not_read(file):
    beside = np.array([{"level": 1}], dtype=object)
    path = file(goals=np.ones((2, 4)), within=0.5, infos=beside)
    assert Goals(file=path).loaded().listed.shape == (2, 4)
    with pytest.raises(ValueError, match="Object arrays cannot be loaded"):
        Goals(file=file(goals=beside, within=0.5)).loaded()


def test_goals_may_be_the_columns_alone(file):
    task = goal_task(file=file(goals=np.ones((2, 1)), within=0.5, columns=[1]), within=None)
    assert task.observation_size == 3
    np.testing.assert_array_equal(task.score(np.array([[5.0, 3.0, 1.0]])), [2])


def test_recorded_actions_lead_from_the_gates_own_starts(file):
    inner = TASKS["maze"]()
    actions = inner.actions.sample([np.random.default_rng(0)], (3, 8))[0]
    task = goal_task(file=file(actions=actions), offset=5)
    starts = sample_starts(task, 3, seed=0, fixed=True)
    after = inner.rollout(starts.states[:, :-2], actions[:, :5])[:, -1]
    np.testing.assert_array_equal(task.goal(starts.states), inner.observe(after))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, r'need the path of a file, "goals.npz", or \{"offset": 25, .*got 5'),
        ({"ofset": 5}, r"with any of file, offset, by, within, columns, got"),
        ({"offset": 0}, "offset must be a whole number of steps above 0, got 0"),
        ({"offset": 5, "within": -1}, "within must be a distance above 0, got -1"),
        ({"offset": 5, "columns": [0, 0]}, r"columns must be places .*got \[0, 0\]"),
        ({"within": 0.1}, 'need a file, goals="goals.npz", or offset=25'),
        ({"offset": 5, "by": Greedy}, 'by must be "random" or a planner'),
        ({"offset": 5}, "nothing says when a goal is reached. Give within="),
        ("nowhere.npz", "cannot read 'nowhere.npz': No such file"),
    ],
)
def test_a_wrong_value_is_told_with_what_to_write(value, message):
    with pytest.raises(ValueError, match=message):
        Goals.of(value).loaded()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, r"needs goals \[N, G\], actions .* has nothing"),
        ({"goal": np.ones((2, 2))}, "has 'goal'"),
        ({"goals": np.ones((0, 2))}, r"has goals of shape \[0, 2\].* none of them 0"),
        ({"goals": np.ones(2)}, r"has goals of shape \[2\]"),
        ({"goals": np.array([[1, np.nan]])}, "goals must be finite, row 0 is"),
        ({"actions": np.ones((2, 3, 1)), "offset": 4}, "offset=4 is more than the 3 actions"),
    ],
)
def test_a_wrong_file_is_told_with_what_to_write(arrays, message, file):
    with pytest.raises(ValueError, match=message):
        Goals(file=file(**arrays), within=1).loaded()


def test_what_is_no_npz_is_told(tmp_path):
    path = tmp_path / "goals.npz"
    path.write_text("goals")
    with pytest.raises(ValueError, match=r"cannot read .*np\.savez"):
        Goals(file=str(path), within=1).loaded()


def test_one_array_is_told_from_a_file_of_arrays(tmp_path):
    np.save(tmp_path / "goals.npy", np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"it is one array without a name. Write it by np\.savez"):
        Goals(file=str(tmp_path / "goals.npy"), within=1).loaded()


@pytest.mark.parametrize(
    ("arrays", "settings", "message"),
    [
        ({"goals": np.ones((2, 3))}, {}, r"has goals of 3 numbers, and maze needs 2, an obs"),
        ({"goals": np.ones((2, 1))}, {}, r"Or say which of them they are: columns=\(0, 1\)"),
        ({"goals": np.ones((2, 2))}, {"columns": [2]}, r"columns=\(2,\) of maze, .* from 0 to 1"),
        ({"actions": np.ones((2, 3, 9))}, {}, "actions of 9 numbers, and those of maze have"),
        ({"actions": np.ones((2, 900, 2))}, {}, r"offset=900 is more than the .*budget=1800"),
    ],
)
def test_goals_that_do_not_fit_the_task_are_told(arrays, settings, message, file):
    goals = Goals(file=file(**arrays), within=1, **settings).loaded()
    with pytest.raises(ComponentError, match=message):
        with_goals(TASKS["maze"], goals)()


def test_recorded_actions_lie_between_the_bounds(file):
    pytest.importorskip("dm_control")
    make = TASKS["pendulum-swingup"]
    task = with_goals(make, Goals(file=file(actions=np.ones((1, 2, 1))), within=1).loaded())
    assert isinstance(task(actions="box").actions, BoxActions)
    over = with_goals(make, Goals(file=file(actions=np.full((1, 2, 1), 7)), within=1).loaded())
    with pytest.raises(ComponentError, match=r"actions from 7 to 7, and those of .* lie between"):
        over(actions="box")


class Latent:
    """A model with latents of its own, which encodes the goal as it encodes what it sees."""

    def __init__(self, rollout):
        self._rollout = rollout

    def encode(self, observations):
        return np.concatenate([2 * observations[:, :2], 2 * observations[:, 2:]], axis=1)

    def rollout(self, latents, actions):
        after = 2 * self._rollout(latents[:, :2] / 2, actions)
        goals = np.repeat(latents[:, None, 2:], actions.shape[1], axis=1)
        return np.concatenate([after, goals], axis=2)

    def score(self, latents):
        return np.linalg.norm(latents[..., :2] - latents[..., 2:], axis=-1)


def test_a_model_with_latents_gets_the_goal_as_one():
    task = goal_task(TASKS["maze"](budget=16), offset=8)
    result = measure_gap(
        Design(task=task, planner=RandomShooting(), episodes=12, seed=0),
        oracle=OracleDynamics(task),
        learned=Latent(task.inner.rollout),
    )
    assert result.oracle.success_count > result.chance.success_count
    np.testing.assert_array_equal(result.learned.steps, result.oracle.steps)
    assert len(result.start_goals) == 12


def test_a_picture_shows_the_goal_of_the_gate_and_not_the_mazes_own():
    green = np.array([90, 174, 122])
    maze = TASKS["maze"]()

    def drawn(task, states):
        return (np.asarray(rendered(task, states)) == green).all(axis=-1)[0]

    task = goal_task(offset=6)
    assert task.draws_goals
    states = np.array([[1.0, 1.0, 3.0, 1.0]])
    own, seen = drawn(maze, states[:, :2]), drawn(task, states)
    assert own.any()
    assert seen.any()
    assert not (own & seen).any()
    # Of one column any row will do.
    band = drawn(goal_task(offset=6, columns=[0]), states)
    assert (band | seen).sum() == band.sum() > 2 * seen.sum()
    assert not goal_task(named_task("blocks:3", TASKS)(), offset=3).draws_goals


def test_a_path_may_be_a_path_and_is_written_as_text(file):
    path = file(goals=np.ones((2, 2)), within=0.5)
    for value in (Path(path), {"file": Path(path)}):
        assert Goals.of(value).loaded().written == Goals.of(path).loaded().written

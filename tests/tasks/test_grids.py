"""Grids: cells, walls and shortest paths."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from runs import arm_of

from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.planners import CEM, Chance, RandomShooting
from pytest_cpg.tasks.grids import GridTask, maze, two_room

RIGHT, DOWN, LEFT, UP = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
CORRIDOR = """
#####
#..G#
#.###
#####
"""


@pytest.fixture(params=[maze, two_room])
def task(request):
    return request.param()


@pytest.fixture
def corridor():
    return GridTask(name="corridor", layout=CORRIDOR, budget=5)


def floor(task):
    """All cells that are not wall, [cells, 2], read from the map by hand."""
    return np.array(
        [
            (x, y)
            for y, line in enumerate(task.layout.split())
            for x, cell in enumerate(line)
            if cell != "#"
        ],
        dtype=float,
    )


class TrueDynamics:
    """The task itself as an arm's model."""

    def __init__(self, task):
        self.encode = task.observe
        self.rollout = task.rollout
        self.score = task.score


def test_moves_go_one_cell_and_walls_block(corridor):
    states = np.array([[1.0, 1.0]] * 4)
    after = corridor.step(states, np.array([RIGHT, DOWN, LEFT, UP]))
    np.testing.assert_array_equal(after, [[2, 1], [1, 2], [1, 1], [1, 1]])


def test_score_counts_the_steps_along_the_shortest_path(corridor):
    cells = np.array([[3.0, 1], [2, 1], [1, 1], [1, 2], [0, 0], [3, 2], [-7, 1], [1, 99]])
    np.testing.assert_array_equal(corridor.score(cells), [0, 1, 2, 3, 4, 4, 4, 4])


def test_score_takes_the_nearest_cell(corridor):
    np.testing.assert_array_equal(corridor.score(np.array([[2.4, 1.3], [2.6, 0.6]])), [1, 0])


@given(
    arrays(np.float64, (5, 2), elements=st.floats(allow_nan=False, allow_infinity=False, width=64))
)
def test_any_finite_prediction_has_a_finite_score(observations):
    for task in (maze(), two_room()):
        farthest = task.score(floor(task)).max()
        scores = task.score(observations)
        assert ((scores >= 0) & (scores <= farthest + 1)).all()


def test_infinite_predictions_lie_outside(corridor):
    assert corridor.score(np.array([np.inf, -np.inf])) == 4


def test_every_cell_has_a_neighbour_one_step_nearer(task):
    cells = floor(task)
    scores = task.score(cells)
    nearest = np.min([task.score(task.step(cells, cells * 0 + m)) for m in task.actions.values], 0)
    away = scores > 0
    np.testing.assert_array_equal(nearest[away], scores[away] - 1)
    assert (~away).sum() == 1


def test_reward_and_success_are_at_the_goal_only(corridor):
    states = np.array([[3.0, 1.0], [2.0, 1.0], [np.nan, np.nan]])
    actions = np.zeros((3, 2))
    np.testing.assert_array_equal(corridor.reward(states, actions), [1, 0, 0])
    np.testing.assert_array_equal(corridor.success(states, actions), [True, False, False])


def test_starts_are_uniform_over_the_start_cells(task):
    starts = task.reset(np.arange(3000))
    cells, counts = np.unique(starts, axis=0, return_counts=True)
    expected = 3000 / task.layout.count(".")
    assert len(cells) == task.layout.count(".")
    # Six standard deviations of a binomial count, nearly.
    assert (abs(counts - expected) < 6 * expected**0.5).all()


def test_two_room_starts_in_the_room_without_the_goal():
    starts = two_room().reset(np.arange(300))
    door = two_room().layout.split()[1].index("#", 1)
    assert (starts[:, 0] < door).all()


@pytest.mark.parametrize("planner", [RandomShooting(), CEM()], ids=lambda planner: planner.name)
def test_planners_solve_it_with_the_true_dynamics_and_chance_does_not(task, planner):
    starts = sample_starts(task, 60, seed=0)
    arms = [
        arm_of("oracle", task, p, TrueDynamics(task), starts, seed=0) for p in (planner, Chance())
    ]
    assert arms[0].success_rate >= 0.95
    assert arms[1].success_rate <= 0.3


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("###\n#G.#\n####", "rows of one length"),
        ("####\n#Gx#\n####", "got 'x'"),
        ("####\n#G.#\n##.#", "enclosed by '#'"),
        ("####\n#..#\n####", "one goal 'G'"),
        ("####\n#G:#\n####", "one start '.'"),
        ("#####\n#G#.#\n#####", "cut off from the goal"),
        ("", "one or more rows"),
    ],
)
def test_a_broken_map_says_what_is_wrong(layout, message):
    with pytest.raises(ValueError, match=message):
        GridTask(name="broken", layout=layout, budget=1)


def test_equal_maps_are_equal_tasks():
    assert maze() == maze()
    assert maze() != maze(budget=1)

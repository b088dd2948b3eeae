"""Scores by a word: paths around walls on an environment's own map, and what is carried."""

import pickle

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from runs import arm_of

from pytest_cpg.contracts import ComponentError
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.episodes.probe import bound_as_truth
from pytest_cpg.gates.planning_gap.diagnosis.dead_ends import dead_ends
from pytest_cpg.planners import ICEM
from pytest_cpg.tasks import named_task
from pytest_cpg.tasks.gymnasium import gym_task
from pytest_cpg.tasks.gymnasium.paths import PathMap, PathScore
from pytest_cpg.world_models import OracleDynamics

BOX = gymnasium.spaces.Box
# A way around a wall, in cells of 2 units; the first centre is at (-4, 6).
MAP = np.array(
    [[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [1, 0, 1, 0, 1], [1, 0, 0, 0, 1], [1, 1, 1, 1, 1]]
)


class Maze(gymnasium.Env):
    """A point in a maze that shows its map as OGBench's do; walls stop it."""

    observation_space, action_space = BOX(-9, 9, (2,)), BOX(-1, 1, (2,))
    maze_map = MAP

    def ij_to_xy(self, ij):
        return 2 * ij[1] - 4, 6 - 2 * ij[0]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        noise = self.np_random.uniform(-0.5, 0.5, (2, 2))
        self.place, self.goal = np.array([[-2.0, 4.0], [2.0, 4.0]]) + noise
        return self.place.copy(), {"goal": self.goal.copy()}

    def step(self, action):
        # In small steps, one way after the other: a wall stops one, and leaves the other.
        for part in np.repeat(np.diag(np.asarray(action, float)), 4, axis=0) / 8:
            row, column = np.rint(
                [(6 - (self.place + part)[1]) / 2, ((self.place + part)[0] + 4) / 2]
            )
            if not MAP[int(row), int(column)]:
                self.place = self.place + part
        away = float(np.linalg.norm(self.place - self.goal))
        return self.place.copy(), 0.0, False, False, {"success": away < 0.5}


@pytest.fixture
def score():
    rows, columns = np.indices(MAP.shape)
    centres = np.stack([2.0 * columns - 4, 6.0 - 2 * rows], axis=-1)
    return PathScore(PathMap(MAP == 0, centres), (0, 1), (2, 3))


@pytest.mark.parametrize(
    ("place", "goal", "length"),
    [
        # In one cell and in sight it is the straight distance.
        ((-2, 4), (-2, 4), 0),
        ((-2.5, 4), (-2, 4.5), np.hypot(0.5, 0.5)),
        ((-2.5, 4), (-2, 2), np.hypot(0.5, 2)),
        # Around the wall, by the centres of cells.
        ((-2, 4), (2, 4), 12),
        ((-2, 2), (2, 2), 8),
        # From a wall, the way of the nearest free cell counts.
        ((0, 4), (2, 4), 2),
        ((9, 9), (2, 4), np.hypot(7, 5)),
        ((np.nan, 0), (2, 4), np.nan),
    ],
)
def test_a_path_leads_around_walls(score, place, goal, length):
    found = score(np.array([*place, *goal], dtype=float))
    np.testing.assert_allclose(found, length)


def test_whoever_moves_to_what_is_best_nearby_gets_to_the_goal(score):
    place, goal = np.array([-2.4, 4.5]), np.array([2.3, 3.6])
    ways = np.stack([np.cos(np.arange(16) * np.pi / 8), np.sin(np.arange(16) * np.pi / 8)], axis=1)
    for _ in range(100):
        near = place + 0.2 * ways
        ratings = score(np.concatenate([near, np.broadcast_to(goal, near.shape)], axis=1))
        place = near[ratings.argmin()]
    assert np.linalg.norm(place - goal) < 0.2


def test_rows_do_not_feel_their_neighbours(score):
    rows = np.random.default_rng(0).uniform(-5, 7, (3, 50, 4))
    ratings = score(rows)
    assert ratings.shape == (3, 50)
    np.testing.assert_array_equal(score(rows[1, 7]), ratings[1, 7])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(score))(rows), ratings)  # noqa: S301


def test_the_oracle_solves_by_paths_what_the_straight_distance_does_not():
    planner = ICEM(samples=16, iterations=2, elites=4, horizon=6, execute=3)
    solved, stuck = {}, {}
    for word in ("path", None):
        task = gym_task(Maze, score=word, budget=60)
        design = Design(task=task, planner=planner, episodes=6, seed=0)
        starts = sample_starts(task, 6, seed=0)
        truth = bound_as_truth(OracleDynamics(task), design, starts)
        arm = arm_of("oracle", task, planner, truth, starts, seed=0)
        solved[word], stuck[word] = arm.success_count, dead_ends(design, starts, arm)
    assert solved == {"path": 6, None: 0}
    assert stuck["path"] is None
    assert stuck[None].are_usual


def test_a_word_is_part_of_the_name():
    gymnasium.register("cpg-maze-v0", Maze)
    try:
        task = named_task("gym:cpg-maze-v0,score=path", {})()
        assert task.name == "gym:cpg-maze-v0,score=path"
        observations = task.observe(task.reset(np.arange(2)))
        assert (task.score(observations) > 9).all()
        with pytest.raises(ComponentError, match=r"no score 'paht'\. Did you mean 'path'\?"):
            named_task("gym:cpg-maze-v0,score=paht", {})()
        with pytest.raises(ComponentError, match="score=carry is for OGBench's cubes"):
            named_task("gym:cpg-maze-v0,score=carry", {})()
    finally:
        del gymnasium.registry["cpg-maze-v0"]


@pytest.mark.parametrize("kind", [float, bool, object, str])
def test_walls_are_ones_however_they_are_written(kind):
    class Written(Maze):
        maze_map = MAP.astype(kind)

    task = gym_task(Written, score="path", success="success")
    observations = task.observe(task.reset(np.arange(2)))
    assert (task.score(observations) > 9).all()


def test_what_shows_no_map_is_told_what_to_give():
    with pytest.raises(
        ComponentError, match=r"score=path needs a map.* maze_map, an array \[R, C\]"
    ):
        gym_task("Pendulum-v1", score="path", threshold=-0.1)


@pytest.mark.parametrize("package", ["ogbench"])
def test_the_maps_of_other_packages_are_read(package):
    pytest.importorskip(package)
    task = named_task("gym:ogbench:pointmaze-medium-v0,score=path", {})()
    observations = task.observe(task.reset(np.arange(3)))
    straight = np.linalg.norm(observations[:, :2] - observations[:, 2:], axis=1)
    lengths = task.score(observations)
    assert (lengths >= straight).all()
    assert (lengths > 1.2 * straight).any()

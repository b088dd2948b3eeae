import numpy as np
import pytest

pytest.importorskip("torch")

from point_maze import PointMaze
from worlds import published_queries

from pytest_cpg.gates.policy_comparison.answers import compared, imagined_returns
from pytest_cpg.world_models import Transitions, bind_ensemble, train_ensemble

# One in five; the answers to all of them are in examples/experiments/opcc.
QUERIES = published_queries("maze-umaze").take(np.arange(0, 1500, 5))


def pushed_balls(maze, *, balls=1000, steps=20):
    """Return transitions of balls pushed at random from everywhere; no policy takes part."""
    rng = np.random.default_rng(0)
    free = np.argwhere(maze.cells != "#")
    # A cell's centre is 0.2 below its number, in the joints' own coordinates.
    places = free[rng.integers(len(free), size=balls)] - 0.2 + rng.uniform(-0.4, 0.4, (balls, 2))
    # Slow ones too, or nobody sees what a policy does that stays at the goal.
    speeds = rng.uniform(-5, 5, (balls, 2)) * rng.random((balls, 1)) ** 2
    states, rows = np.concatenate([places, speeds], axis=1), []
    for step in range(steps):
        if step % 12 == 0:
            pushes = rng.uniform(-1, 1, (balls, 2)) * rng.random((balls, 1))
        actions = np.clip(pushes + 0.3 * rng.standard_normal((balls, 2)), -1, 1)
        after = maze.step(states, actions)
        rows.append((states, actions, after, maze.reward(after)))
        states = after
    before, taken, after, rewards = (np.concatenate(part) for part in zip(*rows, strict=True))
    return Transitions(observations=before, actions=taken, next_observations=after, rewards=rewards)


@pytest.mark.trains
def test_ten_small_networks_answer_nearly_every_question_about_a_maze():
    """A constant answer is wrong in four of nine, and a world that stands still in one of fifty."""
    data = pushed_balls(PointMaze("umaze"))
    model = train_ensemble(data, seed=0, members=10, updates=300, hidden=64)
    bound = bind_ensemble(
        model, observations=QUERIES.observations_a[:4], actions=QUERIES.actions_a[:4]
    )
    sides = imagined_returns(bound, QUERIES, progress=lambda *_: None)
    answers = compared(*sides).answers
    assert (answers != QUERIES.labels).mean() <= 0.01

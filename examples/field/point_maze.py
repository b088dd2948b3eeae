"""OGBench's point maze as the truth, and a network of it that is trained in seconds.

The goal of an episode is one of the environment's five, and is observed behind the position. The
straight distance to it is no good as a cost: plans end at the first wall. So states are rated by
the way through the maze's free cells.

Needs ``pip install ogbench`` beside ``pytest-cpg[gymnasium,control,torch]``. Run ``pytest -v``.
"""

from collections import deque
from functools import cache

import numpy as np

from pytest_cpg.tasks.gymnasium import gym_task
from pytest_cpg.world_models import collect_transitions, train_mlp

NAME, REPEAT = "ogbench:pointmaze-medium-v0", 5


@cache
def free_cells():
    """Return the centres [C, 2] of the maze's free cells, and the ways [C, C] between them."""
    import gymnasium

    maze = gymnasium.make(NAME).unwrapped
    cells = [(int(i), int(j)) for i, j in np.argwhere(maze.maze_map == 0)]
    centres = np.array([maze.ij_to_xy(cell) for cell in cells], dtype=float)
    unit = np.linalg.norm(np.subtract(maze.ij_to_xy((1, 1)), maze.ij_to_xy((1, 2))))
    ways = np.full((len(cells), len(cells)), np.inf)
    for first, cell in enumerate(cells):
        ways[first, first], queue = 0.0, deque([cell])
        while queue:
            i, j = queue.popleft()
            for near in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
                if near in cells and np.isinf(ways[first, cells.index(near)]):
                    ways[first, cells.index(near)] = ways[first, cells.index((i, j))] + unit
                    queue.append(near)
    return centres, ways


def way_to_goal(observations):
    """Rate observations [..., 4], position and goal, by the way between them."""
    centres, ways = free_cells()
    place, goal = observations[..., :2], observations[..., 2:]
    to_centres = np.linalg.norm(place[..., None, :] - centres, axis=-1)
    ends = np.linalg.norm(goal[..., None, :] - centres, axis=-1).argmin(axis=-1)
    here = to_centres.argmin(axis=-1)
    # Of the cells beside the present one that which is nearest to the goal is headed for.
    beside = np.where(ways[here] <= ways[0][ways[0] > 0].min(), ways[ends] + to_centres, np.inf)
    straight = np.linalg.norm(place - goal, axis=-1)
    return np.where(here == ends, straight, beside.min(axis=-1))


def maze(budget=80):
    return gym_task(NAME, budget=budget, action_repeat=REPEAT, score=way_to_goal)


@cache
def network():
    # Positions are learned alone: the goal stays where it is.
    data = collect_transitions(maze(200), count=20_000, seed=0, episode_steps=200, hold=8)
    return train_mlp(data, seed=0, hidden=256, steps=6_000, learning_rate=3e-3)

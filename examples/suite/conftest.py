"""A model of rooms, learned from random walks in each, and three tasks that it is used for."""

import numpy as np

from pytest_cpg.tasks.grids import GridTask
from pytest_cpg.world_models import collect_transitions

CORRIDOR = """
###########
#....#...G#
#.##.#.####
#.#..#....#
#.#.#####.#
#.#.......#
###########
"""


class TableModel:
    """What every move did in every cell; where nothing was seen, nothing moves."""

    def __init__(self, walks):
        befores = np.concatenate([walks.observations, walks.actions], axis=1)
        self.seen = dict(zip(map(tuple, befores), walks.next_observations, strict=True))

    def __call__(self, observations, actions):
        rows = np.concatenate([observations, actions], axis=1)
        return np.array([self.seen.get(tuple(row), row[:2]) for row in rows])


def corridor(*, budget=100):
    return GridTask(name="corridor", layout=CORRIDOR, budget=budget)


def pytest_cpg_tasks():
    return {"corridor": corridor}


def pytest_cpg_world_models():
    return {
        "table": lambda task: TableModel(collect_transitions(task, count=20_000, seed=7)),
        "free-space": lambda _: lambda observations, actions: observations + actions,
    }

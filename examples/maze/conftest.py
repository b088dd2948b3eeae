"""A small model repository: world models of a maze, learned from random walks."""

import numpy as np

from pytest_cpg.world_models.transitions import collect_transitions


class TableModel:
    """What every move did in every cell; where nothing was seen, nothing moves."""

    def __init__(self, walks):
        befores = np.concatenate([walks.observations, walks.actions], axis=1)
        self.seen = dict(zip(map(tuple, befores), walks.next_observations, strict=True))

    def __call__(self, observations, actions):
        rows = np.concatenate([observations, actions], axis=1)
        return np.array([self.seen.get(tuple(row), row[:2]) for row in rows])


class FreeSpaceModel:
    """Every move succeeds: a model that never learned about walls."""

    def __call__(self, observations, actions):
        return observations + actions


def pytest_cpg_world_models():
    """Name the models, so that markers can ask for them."""
    return {
        "table": lambda task: TableModel(collect_transitions(task, count=20_000, seed=7)),
        "free-space": lambda _: FreeSpaceModel(),
    }

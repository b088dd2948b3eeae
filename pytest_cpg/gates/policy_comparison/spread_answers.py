"""Spread answers: blocks of queries that the workers of an executor imagine."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, WorldModelError
from pytest_cpg.episodes.spread_run import OTHER_ANSWER
from pytest_cpg.gates.policy_comparison.answers import Block, bound_to
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.gates.rows import Spread
from pytest_cpg.machine.workers import Crew, Workload
from pytest_cpg.world_models.binding.conventions import describe
from pytest_cpg.world_models.ensembles.binding import BoundEnsemble


def spread_over(
    executor: Executor, model: Any, ensemble: BoundEnsemble, queries: PolicyQueries, *, seed: int
) -> Spread:
    """Return what imagines blocks on an executor, to the same bits as this process does.

    Workers bind the model anew, as it was given; ``ensemble`` is the same, bound here.
    """
    workload = Workload.of(
        ((model, describe(model)), (queries, "PolicyQueries")),
        _Loaded,
        (model, queries, seed, _probed(ensemble, queries)),
        name=describe(model),
    )
    crew = Crew(executor, workload)
    return lambda blocks, tick: crew.run((_Rows(one.rows, one.size) for one in blocks), tick=tick)


class _Rows(NamedTuple):
    """A block without its queries, which a worker has."""

    rows: IntArray
    size: int

    def __str__(self) -> str:
        return f"the block of sides from number {self.rows[0]} on"


class _Loaded:
    """An ensemble and queries in a worker."""

    def __init__(self, model: Any, queries: PolicyQueries, seed: int, answer: FloatArray) -> None:
        self._queries, self._ensemble = queries, bound_to(model, queries, seed=seed)
        if not np.array_equal(_probed(self._ensemble, queries), answer, equal_nan=True):
            raise WorldModelError(OTHER_ANSWER)

    def run(self, block: _Rows) -> FloatArray:
        """Return the imagined returns [E, R]."""
        whole = Block(queries=self._queries, rows=block.rows, size=block.size)
        return whole.returns(self._ensemble)


def _probed(ensemble: BoundEnsemble, queries: PolicyQueries) -> FloatArray:
    """Return what is paid [E, B] from the first start, by which a model is known again."""
    return Block(queries=queries, rows=np.zeros(1, dtype=int), size=2).frozen_returns(ensemble)

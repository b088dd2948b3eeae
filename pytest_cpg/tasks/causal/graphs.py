"""Graphs: which object causes which, by name or drawn; the order of objects has no cycle."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import BoolArray


def _edges(graph: str, count: int) -> list[tuple[int, int]] | None:
    """Return the edges of a named graph, causes first; None where there is none of that name."""
    last = count - 1
    return {
        "chain": [(i, i + 1) for i in range(last)],
        "full": [(i, j) for j in range(count) for i in range(j)],
        "collider": [(i, last) for i in range(last)],
        "tree": [((j - 1) // 2, j) for j in range(1, count)],
        "jungle": [
            *(((j - 1) // 2, j) for j in range(1, count)),
            *((((j - 1) // 2 - 1) // 2, j) for j in range(3, count)),
        ],
        "bidiagonal": [(i, j) for j in range(count) for i in (j - 2, j - 1) if i >= 0],
        "fork": [(0, j) for j in range(1, count)],
        "confounder": [(0, j) for j in range(1, count)] + [(i, i + 1) for i in range(1, last)],
    }.get(graph)


GRAPHS = ("chain", "full", "collider", "tree", "jungle", "bidiagonal", "fork", "confounder")


def parents_of(graph: str, count: int, density: float, *, seed: int) -> BoolArray:
    """Return which objects [N, N] cause which: row j holds the parents of object j.

    ``"random"`` draws an edge from i to a later j with chance min(d j, 5) / (j + 1), where the
    density d was 0.5.
    """
    adjacency = np.zeros((count, count), dtype=np.bool_)
    if graph == "random":
        chance = np.minimum(density * np.arange(count), 5) / (np.arange(count) + 1)
        drawn = np.random.default_rng([seed, 1]).random((count, count)) < chance[:, None]
        return np.asarray(np.tril(drawn, -1))
    for cause, effect in _edges(graph, count) or []:
        adjacency[effect, cause] = True
    return adjacency


def descendants_of(parents: BoolArray) -> BoolArray:
    """Return which objects [N, N] an object changes, by whatever path: row j has those of j."""
    reached = parents.T.copy()
    for _ in range(len(parents)):
        reached |= (reached.astype(int) @ parents.T.astype(int)) > 0
    return np.asarray(reached)

"""Graphs: which object causes which, by name, drawn or written out, and by which chances.

The order of objects has no cycle.
"""

from __future__ import annotations

import re
from itertools import product

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray


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


_EDGE = re.compile(r"(\d+)>(\d+)")


def written_edges(graph: str) -> list[tuple[int, int]]:
    """Return the edges that are written out, as ``0>1+0>2``, causes first.

    Raises ValueError for what is no edge, and for an effect before its cause: so no graph has a
    cycle.
    """
    edges = []
    for text in graph.split("+"):
        if not (found := _EDGE.fullmatch(text)):
            raise ValueError(f"no edge {text!r}. Write edges as 0>1+0>2")
        cause, effect = map(int, found.groups())
        if cause >= effect:
            raise ValueError(
                f"edge {text}: objects are numbered so that causes come first, and a cycle has no "
                f"such order. Number them anew, or leave out an edge of the cycle"
            )
        edges.append((cause, effect))
    return edges


GRAPHS = ("chain", "full", "collider", "tree", "jungle", "bidiagonal", "fork", "confounder")


def parents_of(graph: str, count: int, density: float, *, seed: int) -> BoolArray:
    """Return which objects [N, N] cause which: row j holds the parents of object j.

    ``"random"`` draws an edge from i to a later j with chance min(d j, 5) / (j + 1), where the
    density d was 0.5. Edges may be written out, as ``0>1+0>2``.
    """
    adjacency = np.zeros((count, count), dtype=np.bool_)
    if graph == "random":
        chance = np.minimum(density * np.arange(count), 5) / (np.arange(count) + 1)
        drawn = np.random.default_rng([seed, 1]).random((count, count)) < chance[:, None]
        return np.asarray(np.tril(drawn, -1))
    edges = written_edges(graph) if ">" in graph else _edges(graph, count)
    for cause, effect in edges or []:
        adjacency[effect, cause] = True
    return adjacency


def descendants_of(parents: BoolArray) -> BoolArray:
    """Return which objects [N, N] an object changes, by whatever path: row j has those of j."""
    reached = parents.T.copy()
    for _ in range(len(parents)):
        reached |= (reached.astype(int) @ parents.T.astype(int)) > 0
    return np.asarray(reached)


def tables_of(parents: BoolArray, colours: int, gain: float, *, seed: int) -> list[FloatArray]:
    """Return the chances of each object's colours [C, ..., C], by those of its parents in order.

    Of a network of one hidden layer for each object: orthogonal weights times ``gain``, and biases
    of up to 2.1 either way.
    """
    count = len(parents)
    rng, size = np.random.default_rng([seed, 2]), count * colours
    hidden, tables = 4 * count, []
    for node in range(count):
        first, last = (_orthogonal(rng, *two) for two in ((hidden, size), (colours, hidden)))
        biases = [rng.uniform(-2.1, 2.1, rows) for rows in (hidden, colours)]
        causes = np.flatnonzero(parents[node])
        settings = np.array(list(product(range(colours), repeat=len(causes))), dtype=int)
        shown = np.zeros((len(settings), size))
        for column, cause in enumerate(causes):
            shown[np.arange(len(shown)), cause * colours + settings[:, column]] = 1
        active = np.maximum(shown @ (gain * first.T) + biases[0], 0)
        logits = active @ (gain * last.T) + biases[1]
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        tables.append(chances.reshape(*[colours] * (len(causes) + 1)))
    return tables


def _orthogonal(rng: np.random.Generator, rows: int, columns: int) -> FloatArray:
    """Draw a matrix [rows, columns] whose shorter side is orthonormal."""
    drawn = rng.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))
    return np.asarray(q if rows >= columns else q.T)

"""Paths: how far it is to a goal around walls, on the map that an environment exposes.

The straight distance to a goal leads into walls. The length of the shortest path between centres of
free cells does not: whoever moves straight to the best centre in sight gets nearer at every step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from pytest_cpg.contracts import BoolArray, ComponentError, FloatArray, IntArray

# A cell and its neighbours.
_NEAR = tuple(product((-1, 0, 1), repeat=2))
# Of stable-worldmodel's rooms, which are drawn in pixels: pixels a cell.
_PIXELS = 7


@dataclass(frozen=True, slots=True, eq=False)
class PathMap:
    """Which cells [R, C] of a map are free, and where their centres [R, C, 2] are."""

    free: BoolArray
    centres: FloatArray


class PathScore:
    """Rates observations by the length of the shortest path to their goal.

    ``place`` and ``goal`` are the columns of an observation with two coordinates each.
    """

    def __init__(self, path_map: PathMap, place: Sequence[int], goal: Sequence[int]) -> None:
        self._place, self._goal = list(place), list(goal)
        self._size = path_map.free.shape
        self._centres = path_map.centres.reshape(-1, 2)
        self._corner = path_map.centres[0, 0]
        # Of a row and of a column, in coordinates.
        self._steps = path_map.centres[[1, 0], [0, 1]] - self._corner
        # Cells [R * C, 9] that are reached straight from one, -1 for none.
        self._seen = _seen_from_each(path_map)
        self._lengths = _lengths(self._seen, self._centres)

    def __call__(self, observations: FloatArray) -> FloatArray:
        """Return the lengths [...] of the paths of observations [..., O]."""
        rows = observations.reshape(-1, observations.shape[-1])
        places, goals = rows[:, self._place], rows[:, self._goal]
        at, to = self._cells(places), self._cells(goals)
        straight = _distance(places, goals)
        best = np.where(at == to, straight, np.inf)
        for last in self._seen[to].T:
            left = np.where(last < 0, np.inf, _distance(goals, self._centres[last]))
            best = np.where(at == last, straight, best)
            for first in self._seen[at].T:
                away = np.where(first < 0, np.inf, _distance(places, self._centres[first]))
                best = np.minimum(best, away + self._lengths[first, last] + left)
        # Where an observation is no number, neither is its path.
        lost = np.isnan(places).any(axis=1) | np.isnan(goals).any(axis=1)
        return np.where(lost, np.nan, best).reshape(observations.shape[:-1])

    def _cells(self, places: FloatArray) -> IntArray:
        """Return the number [B] of the cell that each place [B, 2] is in, or is nearest to."""
        at = np.rint(np.nan_to_num((places - self._corner) @ np.linalg.inv(self._steps)))
        at = np.clip(at, 0, np.array(self._size) - 1).astype(np.int64)
        return np.asarray(at[:, 0] * self._size[1] + at[:, 1])


def path_score(environment: Any, sizes: Mapping[str, int], title: str) -> PathScore:
    """Return the score of an environment whose observations have parts of these sizes.

    Raises ComponentError where it shows no map.
    """
    bare = environment.unwrapped
    for maps in (_maze, _room):
        if (path_map := maps(bare)) is not None:
            break
    else:
        raise ComponentError(
            f"{title}: score=path needs a map, and the environment has none: give it maze_map, an "
            f"array [R, C] with 1 for a wall, and ij_to_xy(ij), where a cell's centre is. Or give "
            f"a function of observations: gym_task(make, score=...) from "
            f"pytest_cpg.tasks.gymnasium."
        )
    begins = dict(zip(sizes, np.cumsum([0, *sizes.values()]), strict=False))
    for place, goal in (("achieved_goal", "desired_goal"), ("observation", "goal")):
        if place in begins and goal in begins:
            return PathScore(
                path_map, *([begins[name], begins[name] + 1] for name in (place, goal))
            )
    if maps is _room:
        # The observation itself begins with the place, and the goal.
        return PathScore(path_map, (0, 1), (2, 3))
    raise ComponentError(
        f"{title}: score=path needs a goal in the observation, and there are {', '.join(sizes)}. "
        f"Give a function of observations: gym_task(make, score=...) from "
        f"pytest_cpg.tasks.gymnasium."
    )


def _maze(bare: Any) -> PathMap | None:
    """Return the map of a maze as OGBench's or gymnasium-robotics' environments keep it, if any."""
    maze = getattr(bare, "maze", bare)
    centre = getattr(maze, "ij_to_xy", None) or getattr(maze, "cell_rowcol_to_xy", None)
    if centre is None or not hasattr(maze, "maze_map"):
        return None
    cells = np.array(maze.maze_map, dtype=object)
    centres = [
        [centre(np.array([row, column])) for column in range(cells.shape[1])]
        for row in range(cells.shape[0])
    ]
    # Whoever marks starts and goals does so by letters.
    is_wall = [[bool(cell in (1, "1")) for cell in row] for row in cells]
    return PathMap(~np.array(is_wall), np.array(centres, dtype=np.float64))


def _room(bare: Any) -> PathMap | None:
    """Return the map of stable-worldmodel's two rooms, for an agent of its radius, if it is one."""
    if not hasattr(bare, "door_positions") or not hasattr(bare, "wall_axis"):
        return None
    radius = float(bare.variation_space["agent"]["radius"].value.item())
    ticks = np.arange(_PIXELS / 2, bare.IMG_SIZE, _PIXELS)
    centres = np.stack(np.meshgrid(ticks, ticks, indexing="xy"), axis=-1)
    across, along = (centres[..., axis] for axis in ((0, 1) if bare.wall_axis == 1 else (1, 0)))
    is_wall = abs(across - bare.WALL_CENTER) <= bare.wall_thickness // 2 + radius
    for place, size in zip(bare.door_positions, bare.door_sizes, strict=True):
        is_wall &= abs(along - float(place)) > float(size)
    margin = bare.BORDER_SIZE + radius
    inside = ((centres >= margin) & (centres <= bare.IMG_SIZE - margin)).all(axis=-1)
    return PathMap(~is_wall & inside, centres)


def _seen_from_each(path_map: PathMap) -> IntArray:
    """Return the free cells [R * C, 9] that are reached straight from each one, -1 for none.

    The least rectangle that holds both has to be free. Of a wall, into which rounding or a goal may
    lead, all free neighbours are taken, or the nearest free cell.
    """
    free, (rows, columns) = path_map.free, path_map.free.shape
    seen = np.full((rows, columns, len(_NEAR)), -1)
    for row, column in product(range(rows), range(columns)):
        for number, (down, right) in enumerate(_NEAR):
            other, beside = row + down, column + right
            if not (0 <= other < rows and 0 <= beside < columns and free[other, beside]):
                continue
            corner = free[min(row, other) :, min(column, beside) :]
            if corner[: 1 + abs(down), : 1 + abs(right)].all() or not free[row, column]:
                seen[row, column, number] = other * columns + beside
        if (seen[row, column] < 0).all():
            away = _distance(path_map.centres, path_map.centres[row, column])
            seen[row, column, 0] = np.argmin(np.where(free, away, np.inf))
    return seen.reshape(-1, len(_NEAR))


def _lengths(seen: IntArray, centres: FloatArray) -> FloatArray:
    """Return the lengths [N, N] of the shortest paths between the centres [N, 2] of all cells."""
    begin, number = np.nonzero(seen >= 0)
    end = seen[begin, number]
    weights = _distance(centres[begin], centres[end])
    graph = coo_array((weights, (begin, end)), shape=(len(seen), len(seen)))
    return np.asarray(dijkstra(graph.tocsr()))


def _distance(places: FloatArray, others: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(places - others, axis=-1))

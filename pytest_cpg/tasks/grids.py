"""Grids: small worlds of cells and walls that need nothing but numpy.

A state is the observation: the coordinates (x, y) of a cell, x to the right and y down from the top
left corner of the map.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, FiniteActions, FloatArray, IntArray
from pytest_cpg.contracts.arrays import rolled_out
from pytest_cpg.tasks.options import TaskOptions
from pytest_cpg.tasks.pictures import Frames, draw_grid

CharArray: TypeAlias = npt.NDArray[np.str_]

_NEIGHBOURS = ((1, 0), (0, 1), (-1, 0), (0, -1))

# "#" is a wall, "G" the goal; episodes start at "." and never at ":".
_MAZE = """
###############
#.....#.....#G#
#.###.#.###.#.#
#.#...#...#...#
#.#.#####.#####
#.#.....#.....#
#.#####.#.###.#
#.....#.......#
###############
"""
_TWO_ROOM = """
###############
#......#::::::#
#......#::::::#
#......#::::::#
#......:::::::#
#......#::::::#
#......#:::::G#
###############
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridTask:
    """Walk to the goal, one cell a step; see `Task`."""

    name: str
    # The map: a rectangle enclosed by walls ``#``, with one goal ``G``, cells ``.`` where episodes
    # start and cells ``:`` where none does.
    layout: str
    budget: int
    # Four moves (dx, dy) by one cell; a move into a wall stays.
    actions: ClassVar = FiniteActions(np.array(_NEIGHBOURS))
    observation_size: ClassVar = 2
    observed: ClassVar = ("column, from the left, cells", "row, from the top, cells")
    # A second a step. Numpy draws the starts.
    control_period: ClassVar = 1.0
    versions: ClassVar = MappingProxyType({"numpy": np.__version__})
    _distances: IntArray = field(init=False, repr=False, compare=False)
    _starts: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        TaskOptions.of(self).check()
        cells = _parse(self.layout)
        starts = np.argwhere(cells == ".")[:, ::-1]
        object.__setattr__(self, "_distances", _distances_to_goal(cells))
        object.__setattr__(self, "_starts", starts.astype(np.float64))

    @property
    def measured(self) -> IntArray:
        """Columns of a state that noise may be added to: both."""
        return np.arange(2)

    def reset(self, seeds: IntArray) -> FloatArray:
        """Draw the start of each seed [N], uniform over the map's start cells: states [N, 2]."""
        chosen = [np.random.default_rng(int(seed)).integers(len(self._starts)) for seed in seeds]
        return self._starts[np.array(chosen, dtype=np.int64)]

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, 2] and actions [B, 2] to next states [B, 2]."""
        moved = np.rint(states + actions)
        blocked = self.score(moved) == self._distances.max()
        return np.where(blocked[:, None], states, moved)

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, 2] and actions [B, H, 2] to the states after each action [B, H, 2]."""
        return rolled_out(self.step, states, actions)

    def observe(self, states: FloatArray) -> FloatArray:
        """Copy states [..., 2]: all is seen."""
        return np.array(states, dtype=np.float64)

    def score(self, observations: FloatArray) -> FloatArray:
        """Count the steps from the nearest cell [..., 2] to the goal [...].

        Walls and what lies outside rate one step worse than the farthest cell.
        """
        lost = np.isnan(observations).any(axis=-1)
        corner = np.array(self._distances.shape[::-1]) - 1
        # The map's edge is wall, so clipping keeps what is outside out; nan becomes 0.
        cells = np.rint(np.fmin(np.fmax(observations, 0), corner)).astype(np.intp)
        return np.where(lost, np.nan, self._distances[cells[..., 1], cells[..., 0]])

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give 1 for states [..., 2] at the goal, else 0."""
        del actions
        return np.where(self.score(states) == 0, 1.0, 0.0)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether states [..., 2] are at the goal."""
        return np.asarray(self.reward(states, actions) == 1)

    def render(self, states: FloatArray) -> Frames:
        """Draw states [B, 2] on the map: frames [B, H, W, 3]."""
        return draw_grid(self.layout, states)

    def render_goals(self, states: FloatArray, goals: FloatArray) -> Frames:
        """Draw states [B, 2] on the map, with goals [B, 2] in place of its own."""
        return draw_grid(self.layout, states, goals)


def maze(*, budget: int = 100) -> GridTask:
    """Return a maze of corridors with dead ends; a random walk mostly does not get out."""
    return GridTask(name="maze", layout=_MAZE, budget=budget)


def two_room(*, budget: int = 60) -> GridTask:
    """Return two rooms with one door; the goal is in the room where no episode starts."""
    return GridTask(name="two-room", layout=_TWO_ROOM, budget=budget)


def _parse(layout: str) -> CharArray:
    """Return the map's characters [rows, columns], or say what is wrong with it."""
    lines = layout.split()
    if len({len(line) for line in lines}) != 1:
        raise ValueError("a layout needs one or more rows of one length")
    cells = np.array([list(line) for line in lines])
    unknown = sorted(set(cells.flat) - set("#.:G"))
    if unknown:
        raise ValueError(f"a layout is made of '#', '.', ':' and 'G', got {str(unknown[0])!r}")
    edge = np.concatenate([cells[0], cells[-1], cells[:, 0], cells[:, -1]])
    if (edge != "#").any():
        raise ValueError("a layout must be enclosed by '#'")
    if (cells == "G").sum() != 1 or not (cells == ".").any():
        raise ValueError("a layout needs one goal 'G' and at least one start '.'")
    return cells


def _distances_to_goal(cells: CharArray) -> IntArray:
    """Return steps to the goal [rows, columns] by breadth-first search; walls are farthest."""
    distances = np.full(cells.shape, -1)
    frontier = [(int(row), int(column)) for row, column in np.argwhere(cells == "G")]
    steps = 0
    while frontier:
        for cell in frontier:
            distances[cell] = steps
        around = {(row + dy, column + dx) for row, column in frontier for dx, dy in _NEIGHBOURS}
        frontier = [cell for cell in around if cells[cell] != "#" and distances[cell] < 0]
        steps += 1
    if ((distances < 0) & (cells != "#")).any():
        raise ValueError("a layout must not have cells that are cut off from the goal")
    distances[distances < 0] = steps
    return distances

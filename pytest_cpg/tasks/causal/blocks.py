"""Blocks: on a board of 5 x 5 cells, a block pushes another only if it is heavier.

The rules are those of Ke et al., "Systematic evaluation of causal discovery in visual model based
reinforcement learning" (2021), section 4.1, and of their code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, ComponentError, FiniteActions, FloatArray, IntArray
from pytest_cpg.contracts.arrays import read_only
from pytest_cpg.tasks.causal.looks import (
    SET_1,
    SETTINGS,
    SIDE,
    Look,
    as_grid,
    as_picture,
    blues,
    stamps,
    unrated,
)
from pytest_cpg.tasks.causal.names import check_among, check_within, named, written
from pytest_cpg.tasks.causal.target import TowardsTarget
from pytest_cpg.tasks.pictures import Frames

# Beside the board, where nothing stands and nothing may go.
_OUTSIDE = SIDE * SIDE
# Stay, up, right, down, left, in rows and columns.
_DIRECTIONS = ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))
# Starts that are drawn at once until one is in the stratum, and draws after which none is.
_DRAWN, _MOST_DRAWN = 64, 2**17
_MOST_MOVES = 1000
# Shades of neighbours in rank lie this many times nearer to their own.
_SHADES = 8
_PLACE = ("row from the top", "column from the left")


def _neighbours() -> IntArray:
    """Return where each direction [5] leads from each cell [26], the last of them outside."""
    cells = np.full((_OUTSIDE + 1, len(_DIRECTIONS)), _OUTSIDE)
    for (row, column), (way, (down, right)) in product(
        product(range(SIDE), repeat=2), enumerate(_DIRECTIONS)
    ):
        if 0 <= row + down < SIDE and 0 <= column + right < SIDE:
            cells[row * SIDE + column, way] = (row + down) * SIDE + column + right
    return read_only(cells)


_NEXT = _neighbours()


class Moved(NamedTuple):
    """What a move does.

    Attributes
    ----------
    cells : array [B, N], int
        Where the blocks are after it.
    pushes, is_blocked : array [B], bool
        Whether it pushed another block; whether a block was in its way, and neither moved.
    is_invalid : array [B], bool
        Whether it would have pushed a lighter block into a third one: the published data leave
        such steps out.
    """

    cells: IntArray
    pushes: BoolArray
    is_blocked: BoolArray
    is_invalid: BoolArray


def move(cells: IntArray, weights: FloatArray, blocks: IntArray, directions: IntArray) -> Moved:
    """Move one block of each board: cells and weights [B, N], blocks and directions [B]."""
    rows = np.arange(len(cells))
    mover = cells[rows, blocks]
    target = _NEXT[mover, directions]
    behind = _NEXT[target, directions]
    is_hit = cells == target[:, None]
    hit = is_hit.argmax(axis=1)
    is_occupied = is_hit.any(axis=1) & (directions != 0)
    is_heavier = is_occupied & (weights[rows, blocks] > weights[rows, hit])
    is_invalid = is_heavier & (cells == behind[:, None]).any(axis=1)
    pushes = is_heavier & ~is_invalid & (behind != _OUTSIDE)
    moves = pushes | (~is_occupied & (target != _OUTSIDE))
    after = cells.copy()
    after[rows[pushes], hit[pushes]] = behind[pushes]
    after[rows[moves], blocks[moves]] = target[moves]
    return Moved(after, pushes, is_occupied & ~pushes, is_invalid)


STRATA = ("all", "push", "blocked")


@dataclass(frozen=True, kw_only=True)
class Blocks(TowardsTarget):
    """Move blocks to where some random moves took them; see `Task`.

    A state [5 N] holds of each of the ``N`` blocks its cell (in rows of 5, from the top left), the
    cell where it is wanted, its weight, its colour (a shade in [0, 1], or which of nine) and its
    shape.
    An action is a block and a direction: 0 stay, 1 up, 2 right, 3 down, 4 left.

    Attributes
    ----------
    blocks : int
        How many there are, 2 to 9.
    setting : str
        One of `SETTINGS`: whether a block's weight is seen by its shade of blue, or has to be
        learned with its colour.
    k : int
        Random moves from the start to the target, and the steps that there are to get there.
    stratum : str
        Which starts there are: ``"all"``; ``"push"``, where one of those moves pushed a block; or
        ``"blocked"``, where one ran into a block that it could not push.
    look : str
        What is observed: ``"vector"``, ``"grid"`` (a pixel for each cell) or ``"picture"`` (50 x 50
        pixels); of the latter two, models see the present and the target [2, H, W, 3] in 8 bits.
        Then a model brings its own `score`.
    """

    blocks: int = 3
    setting: str = "observed"
    k: int = 10
    stratum: str = "all"
    look: Look = "vector"
    _actions: FiniteActions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_within("blocks", self.blocks, 2, len(SET_1))
        check_within("k", self.k, 1, _MOST_MOVES)
        check_among("setting", self.setting, SETTINGS)
        check_among("stratum", self.stratum, STRATA)
        check_among("look", self.look, get_args(Look))
        if (self.stratum, self.k) == ("blocked", 1):
            raise ValueError("stratum='blocked': with k=1 a blocked move reaches nothing; give k=2")
        values = list(product(range(self.blocks), range(len(_DIRECTIONS))))
        object.__setattr__(self, "_actions", FiniteActions(np.array(values)))

    @property
    def name(self) -> str:
        """As a marker writes it, with what is not as usual."""
        usual, parts = Blocks(), [f"blocks:{self.blocks}"]
        parts[0] += f"-{self.setting}" * (self.setting != usual.setting)
        parts += [
            f"{part}={written(getattr(self, part))}"
            for part in ("k", "stratum", "look")
            if getattr(self, part) != getattr(usual, part)
        ]
        return ",".join(parts)

    @property
    def actions(self) -> FiniteActions:
        """Which block is moved, and where: [5 N, 2]."""
        return self._actions

    @property
    def observation_size(self) -> int:
        """Row and column of each block, its colour, and where it is wanted; or two pictures."""
        return prod(self.picture_shape or (5, self.blocks))

    @property
    def observed(self) -> tuple[str, ...] | None:
        """What the numbers of an observation are; pixels have no names."""
        if self.look != "vector":
            return None
        return (
            *(f"block {block}, {what}, cells" for block in self._blocks for what in _PLACE),
            *(f"block {block}, colour" for block in self._blocks),
            *(f"block {block}, wanted {what}, cells" for block in self._blocks for what in _PLACE),
        )

    def reset(self, seeds: IntArray) -> FloatArray:
        """Draw blocks, and a target that k random moves lead to elsewhere: states [N, S].

        Raises ComponentError where no start is in the stratum.
        """
        return np.array([self._start(np.random.default_rng(int(seed))) for seed in seeds])

    def share(self, *, count: int = 10_000, seed: int = 0) -> float:
        """Return the share of random starts that are in the stratum, of so many."""
        return float(self._drawn(np.random.default_rng(seed), count)[2].mean())

    @cached_property
    def note_on_starts(self) -> str | None:
        """How rare the stratum is."""
        if self.stratum == "all":
            return None
        share = f"{100 * self.share():.2g} % of random starts"
        return f"episodes begin in stratum {self.stratum!r}, which has {share}"

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, 2] to next states [B, S]."""
        after = np.array(states, dtype=np.float64)
        after[:, : self.blocks] = self.moved(states, actions).cells
        return after

    def moved(self, states: FloatArray, actions: FloatArray) -> Moved:
        """Say what actions [B, 2] do in states [B, S]."""
        return move(self._cells(states), self._part(states, 2), *actions.T.astype(np.intp))

    def strata(self, states: FloatArray, actions: FloatArray) -> Mapping[str, BoolArray]:
        """Say of which strata the steps by actions [B, 2] from states [B, S] are: [B] each."""
        moved = self.moved(states, actions)
        return {
            "push": moved.pushes,
            "blocked": moved.is_blocked,
            "contact": moved.pushes | moved.is_blocked,
        }

    @property
    def parts(self) -> dict[str, tuple[int, int]] | None:
        """Of each block where it is; pixels are of no block."""
        if self.look != "vector":
            return None
        return {f"block {n}": (2 * n, 2 * n + 1) for n in range(self.blocks)}

    def acted_on(self, actions: FloatArray) -> IntArray:
        """Say which block actions [B, 2] move: [B]."""
        return actions[:, 0].astype(np.intp)

    def observe(self, states: FloatArray) -> npt.NDArray[Any]:
        """Map states [..., S] to observations [..., O]: numbers, or pixels of 8 bits."""
        if self.look != "vector":
            return self.pictures(states).reshape(*states.shape[:-1], -1)
        places, wanted = (_places(self._part(states, part)) for part in (0, 1))
        return np.concatenate([places, self._part(states, 3), wanted], axis=-1)

    def score(self, observations: FloatArray) -> FloatArray:
        """Return how many cells the mean block is from where it is wanted: [...].

        Raises WorldModelError where pictures are observed: a model brings its own.
        """
        if self.look != "vector":
            raise unrated(self.name)
        size = 2 * self.blocks
        away = np.abs(observations[..., :size] - observations[..., -size:])
        return np.asarray(away.sum(axis=-1) / self.blocks)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the distance of `score`, negated: [...]."""
        del actions
        places, wanted = (_places(self._part(states, part)) for part in (0, 1))
        return np.asarray(-np.abs(places - wanted).sum(axis=-1) / self.blocks)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say of states [..., S] whether every block is where it is wanted."""
        del actions
        return np.asarray((self._part(states, 0) == self._part(states, 1)).all(axis=-1))

    def frames(self, states: FloatArray, look: Look, *, part: int = 0) -> Frames:
        """Draw states [B, S] as "grid" [B, 3, 5, 5] or "picture" [B, 3, 50, 50], of 8 bits.

        ``part`` 1 draws the target.
        """
        check_among("look", look, ("grid", "picture"))
        cells, shades = self._part(states, part).astype(np.intp), self._part(states, 3)
        is_blue = SETTINGS[self.setting].shades
        colours = blues(shades) if is_blue else SET_1[shades.astype(np.intp)]
        if look == "grid":
            return as_grid(cells, colours)
        return as_picture(cells, colours, self._part(states, 4).astype(np.intp))

    @property
    def _blocks(self) -> range:
        return range(self.blocks)

    def _part(self, states: FloatArray, part: int) -> FloatArray:
        return states[..., part * self.blocks : (part + 1) * self.blocks]

    def _cells(self, states: FloatArray) -> IntArray:
        return self._part(states, 0).astype(np.intp)

    def _start(self, rng: np.random.Generator) -> FloatArray:
        """Draw starts until one is in the stratum."""
        looks = self._looks(rng)
        for _ in range(_MOST_DRAWN // _DRAWN):
            cells, wanted, is_in = self._drawn(rng, _DRAWN, looks[0])
            if is_in.any():
                row = int(is_in.argmax())
                return np.concatenate([cells[row], wanted[row], *looks])
        raise ComponentError(
            f"{self.name}: none of {_MOST_DRAWN} random starts is in the stratum. Give a larger k, "
            f"or stratum='all'."
        )

    def _drawn(
        self, rng: np.random.Generator, count: int, weights: FloatArray | None = None
    ) -> tuple[IntArray, IntArray, BoolArray]:
        """Draw so many cells and wanted cells [count, N], and say which starts are to be had."""
        weights = self._looks(rng)[0] if weights is None else weights
        cells = rng.random((count, SIDE * SIDE)).argsort(axis=1)[:, : self.blocks]
        plans = rng.integers(len(self.actions.values), size=(count, self.k))
        wanted: IntArray = cells
        seen = np.zeros((2, count), dtype=np.bool_)
        for numbers in plans.T:
            blocks, directions = self.actions.values[numbers].T.astype(np.intp)
            wanted, pushes, is_blocked, _ = move(
                wanted, np.broadcast_to(weights, wanted.shape), blocks, directions
            )
            seen |= [pushes, is_blocked]
        is_in = (wanted != cells).any(axis=1)
        if self.stratum != "all":
            is_in &= seen[STRATA.index(self.stratum) - 1]
        return cells, wanted, is_in

    def _looks(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """Draw the weights, colours and shapes [N] of blocks."""
        setting, count = SETTINGS[self.setting], self.blocks
        shapes: IntArray = np.arange(count) % len(stamps())
        if not setting.is_fixed:
            shapes = rng.integers(setting.shapes, size=count)
        if not setting.shades:
            colours = np.sort(rng.permutation(len(SET_1))[:count]).astype(np.float64)
            return colours, colours, shapes
        weights = np.arange(count, 0, -1.0)
        if setting.shades == "any":
            return weights, -np.sort(-rng.random(count)), shapes
        apart = 1 / (count - 1)
        off = rng.uniform(-apart / _SHADES, apart / _SHADES, size=count)
        off[[0, -1]] = -abs(off[0]), abs(off[-1])
        return weights, np.arange(count - 1, -1, -1) * apart + off, shapes


def _places(cells: FloatArray) -> FloatArray:
    """Return rows and columns [..., 2 N] of cells [..., N]."""
    return np.stack(np.divmod(cells, SIDE), axis=-1).reshape(*cells.shape[:-1], -1)


def blocks(text: str) -> Blocks:
    """Return the task of a name such as ``5-unobserved,k=1,stratum=push``, behind "blocks:".

    Raises ValueError for what there is not.
    """
    count, setting, options = named(text, {"k": int, "stratum": str, "look": str})
    if not count.isdecimal():
        raise ValueError(f"blocks: need how many there are, as in 'blocks:3', got {count!r}")
    if setting:
        options["setting"] = setting
    return Blocks(blocks=int(count), **options)

"""Chemistry: the colour of an object depends on those of its parents in a known causal graph.

The rules are those of Ke et al., "Systematic evaluation of causal discovery in visual model based
reinforcement learning" (2021), section 4.2, and of their code.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, FiniteActions, FloatArray, IntArray
from pytest_cpg.contracts.arrays import read_only
from pytest_cpg.tasks.causal.graphs import (
    GRAPHS,
    descendants_of,
    parents_of,
    tables_of,
    written_edges,
)
from pytest_cpg.tasks.causal.looks import (
    SET_1,
    SIDE,
    Look,
    as_grid,
    as_picture,
    stamps,
    unrated,
)
from pytest_cpg.tasks.causal.names import check_among, check_within, named, written
from pytest_cpg.tasks.causal.target import TowardsTarget
from pytest_cpg.tasks.pictures import Frames

# Where objects stand: corners, middle, and between these.
_STATIC = (0, 4, 20, 24, 12, 6, 8, 16, 18, 2)
_MOST = len(_STATIC)
_MOST_ACTIONS, _MOST_ROWS = 1000, 2**17
# Of a fair hash of 64 bits (Steele, Lea, Flood, "Fast splittable pseudorandom number generators").
_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, kw_only=True)
class Chemistry(TowardsTarget):
    """Set colours until all objects have those of the target; see `Task`.

    To set an object's colour draws those of its descendants anew, each from a table by the colours
    of its parents. A state [3 N + 2] holds the objects' colours, those that are wanted, where the
    objects stand, and the episode's number and step, which draws come from. An action is an object
    and a colour. The target is where k random actions lead, by draws of their own.

    Attributes
    ----------
    graph : str
        One of `GRAPHS`, ``"random"``, or edges between objects, causes first: ``"0>1+0>2"``.
    objects, colours : int
        How many there are, 2 to 10 and 2 to 9; as many objects as edges name, where these are
        written.
    positions : str
        ``"static"``, or ``"dynamic"``: drawn for each episode.
    k : int
        Random actions from the start to the target, and the steps that there are to get there.
    gain : float
        How strongly parents decide: the scale of the network that tables are drawn from.
    tables : int
        Seed of the tables, and of a random graph.
    density : float
        Of a random graph: an object is caused by each before it about this often, of 0 to 1.
    look : str
        What is observed, as of `Blocks`.
    """

    graph: str = "chain"
    objects: int = 5
    colours: int = 5
    positions: str = "static"
    k: int = 10
    gain: float = 3.5
    tables: int = 0
    density: float = 0.5
    look: Look = "vector"
    _actions: FiniteActions = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if ">" in self.graph:
            last = max(effect for _, effect in written_edges(self.graph))
            object.__setattr__(self, "objects", last + 1)
        else:
            check_among("graph", self.graph, (*GRAPHS, "random"))
        check_among("setting", self.positions, ("static", "dynamic"))
        check_within("objects", self.objects, 2, _MOST)
        check_within("colours", self.colours, 2, len(SET_1))
        check_within("k", self.k, 1, _MOST_ACTIONS)
        check_within("gain", self.gain, 1e-3, 1e3)
        check_within("tables", self.tables, 0, 2**32 - 1)
        check_within("density", self.density, 0, 1)
        check_among("look", self.look, get_args(Look))
        rows = self.colours ** int(self.parents.sum(axis=1).max())
        if rows > _MOST_ROWS:
            raise ValueError(
                f"an object with as many parents has a table of {rows} rows, and {_MOST_ROWS} are "
                f"possible. Take fewer objects or colours"
            )
        values = list(product(range(self.objects), range(self.colours)))
        object.__setattr__(self, "_actions", FiniteActions(np.array(values)))

    @property
    def name(self) -> str:
        """As a marker writes it, with what is not as usual."""
        usual = Chemistry()
        first = f"chemistry:{self.graph}" + f"{self.objects}" * (">" not in self.graph)
        first += f"-{self.positions}" * (self.positions != usual.positions)
        others = [
            f"{part}={written(getattr(self, part))}"
            for part in ("k", "gain", "colours", "tables", "density", "look")
            if getattr(self, part) != getattr(usual, part)
        ]
        return ",".join([first, *others])

    @property
    def actions(self) -> FiniteActions:
        """Which object gets which colour: [N C, 2]."""
        return self._actions

    @property
    def observation_size(self) -> int:
        """Of each object a 1 at its colour, the same of the target, its place; or two pictures."""
        return prod(self.picture_shape or (2, self.objects, self.colours + 1))

    @cached_property
    def parents(self) -> BoolArray:
        """Which objects [N, N] cause which: row j holds the parents of object j."""
        return read_only(parents_of(self.graph, self.objects, self.density, seed=self.tables))

    @cached_property
    def descendants(self) -> BoolArray:
        """Which objects [N, N] an object changes, by whatever path: row j holds its descendants."""
        return read_only(descendants_of(self.parents))

    @cached_property
    def chances(self) -> tuple[FloatArray, ...]:
        """The chances of each object's colours [C, ..., C], by those of its parents in order."""
        drawn = tables_of(self.parents, self.colours, self.gain, seed=self.tables)
        return tuple(map(read_only, drawn))

    def reset(self, seeds: IntArray) -> FloatArray:
        """Draw colours and places, and a target that k random actions lead to: states [N, S]."""
        return np.array([self._start(int(seed))[0] for seed in seeds])

    def target_plans(self, seeds: IntArray) -> FloatArray:
        """Return the actions [N, k, 2] that led to the targets of these starts.

        To take them again is the published "optimal" plan, although it sees no colours.
        """
        return np.array([self._start(int(seed))[1] for seed in seeds])

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, 2] to next states [B, S]."""
        after = np.array(states, dtype=np.float64)
        draws = _uniform(states[:, -2], states[:, -1], self.objects)
        colours = states[:, : self.objects].astype(np.intp)
        after[:, : self.objects] = self._set(colours, actions.astype(np.intp), draws)
        after[:, -1] += 1
        return after

    def observe(self, states: FloatArray) -> npt.NDArray[Any]:
        """Map states [..., S] to observations [..., O]: numbers, or pixels of 8 bits."""
        if self.look != "vector":
            return self.pictures(states).reshape(*states.shape[:-1], -1)
        size = self.objects
        both = [self.shown(states[..., part * size : (part + 1) * size]) for part in (0, 1)]
        places = np.concatenate(np.divmod(states[..., 2 * size : 3 * size], SIDE), axis=-1)
        return np.concatenate([*both, places], axis=-1)

    @property
    def parts(self) -> dict[str, range] | None:
        """Of each object the numbers that say its colour; pixels are of no object."""
        if self.look != "vector":
            return None
        size = self.colours
        return {f"object {n}": range(n * size, (n + 1) * size) for n in range(self.objects)}

    def acted_on(self, actions: FloatArray) -> IntArray:
        """Say whose colour actions [B, 2] set: [B]."""
        return actions[:, 0].astype(np.intp)

    def redrawn(self, states: FloatArray, seeds: IntArray) -> FloatArray:
        """Return states [B, S] as they are, but for the colours that are drawn from there."""
        after = np.array(states, dtype=np.float64)
        after[:, -2] = seeds
        return after

    def log_probability(
        self, observations: FloatArray, actions: FloatArray, next_observations: FloatArray
    ) -> FloatArray:
        """Return the logs [B] of the chances of colours after actions [B, 2]; of vectors alone.

        Of observations [B, O] before and after; minus infinity for what cannot happen.
        """
        size = self.objects * self.colours
        before, after = (
            rows[:, :size].reshape(len(rows), self.objects, -1).argmax(axis=-1)
            for rows in (observations, next_observations)
        )
        nodes, values = actions.T.astype(np.intp)
        before[np.arange(len(before)), nodes] = values
        total = np.zeros(len(before))
        for node, table in enumerate(self.chances):
            causes = np.flatnonzero(self.parents[node])
            chances = table[tuple(after[:, part] for part in (*causes, node))]
            is_drawn = self.descendants[nodes, node]
            chances = np.where(is_drawn, chances, after[:, node] == before[:, node])
            total += np.log(chances, out=np.full(len(total), -np.inf), where=chances > 0)
        return total

    def shown(self, colours: FloatArray) -> FloatArray:
        """Return a 1 at each colour [..., N] among zeros: [..., N C]."""
        is_it = colours[..., None] == np.arange(self.colours)
        return np.asarray(is_it.reshape(*colours.shape[:-1], -1), dtype=np.float64)

    def score(self, observations: FloatArray) -> FloatArray:
        """Return the share of objects of another colour than is wanted; of chances, expected.

        Raises WorldModelError where pictures are observed: a model brings its own.
        """
        if self.look != "vector":
            raise unrated(self.name)
        size = self.objects * self.colours
        now, wanted = observations[..., :size], observations[..., size : 2 * size]
        return np.asarray(1 - (now * wanted).sum(axis=-1) / self.objects)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the share of objects of the colour that is wanted: [...]."""
        del actions
        return np.asarray(self._matches(states).mean(axis=-1))

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say of states [..., S] whether every object is of the colour that is wanted."""
        del actions
        return np.asarray(self._matches(states).all(axis=-1))

    def frames(self, states: FloatArray, look: Look, *, part: int = 0) -> Frames:
        """Draw states [B, S] as "grid" [B, 3, 5, 5] or "picture" [B, 3, 50, 50], of 8 bits.

        ``part`` 1 draws the target.
        """
        size = self.objects
        check_among("look", look, ("grid", "picture"))
        cells = states[:, 2 * size : 3 * size].astype(np.intp)
        colours = SET_1[states[:, part * size : (part + 1) * size].astype(np.intp)]
        if look == "grid":
            return as_grid(cells, colours)
        shapes = np.broadcast_to(np.arange(size) % len(stamps()), cells.shape)
        return as_picture(cells, colours, shapes)

    def _matches(self, states: FloatArray) -> BoolArray:
        size = self.objects
        return np.asarray(states[..., :size] == states[..., size : 2 * size])

    def _start(self, seed: int) -> tuple[FloatArray, FloatArray]:
        """Draw a start [S], and the actions [k, 2] that lead to its target."""
        rng, size = np.random.default_rng(seed), self.objects
        places = np.array(_STATIC[:size])
        if self.positions == "dynamic":
            places = rng.permutation(SIDE * SIDE)[:size]
        while True:
            colours: IntArray = np.zeros((1, size), dtype=np.intp)
            colours[0, 0] = rng.integers(self.colours)
            for node in range(1, size):
                self._draw(colours, np.array([0]), node, rng.random(1))
            wanted = colours
            plan = self.actions.values[rng.integers(len(self.actions.values), size=self.k)]
            for action in plan.astype(np.intp):
                wanted = self._set(wanted, action[None], rng.random((1, size)))
            if (wanted != colours).any():
                # A number of 53 bits, which a float holds.
                key = rng.integers(2**53)
                return np.concatenate([colours[0], wanted[0], places, [key, 0.0]]), plan

    def _set(self, colours: IntArray, actions: IntArray, draws: FloatArray) -> IntArray:
        """Set colours [B, N] by actions [B, 2], and draw descendants by uniform numbers [B, N]."""
        after, rows = colours.copy(), np.arange(len(colours))
        after[rows, actions[:, 0]] = actions[:, 1]
        for node in range(1, self.objects):
            drawn = np.flatnonzero(self.descendants[actions[:, 0], node])
            if drawn.size:
                self._draw(after, drawn, node, draws[drawn, node])
        return after

    def _draw(self, colours: IntArray, rows: IntArray, node: int, draws: FloatArray) -> None:
        """Draw the colours of an object in these rows, by the colours of its parents there."""
        causes = np.flatnonzero(self.parents[node])
        table = self._sums[node]
        # Of an object without causes there is one row for all.
        sums = np.atleast_2d(table[tuple(colours[rows, cause] for cause in causes)])
        # Chances add up to 1 but for rounding.
        colours[rows, node] = (draws[:, None] >= sums[:, :-1]).sum(axis=1)

    @cached_property
    def _sums(self) -> tuple[FloatArray, ...]:
        return tuple(read_only(table.cumsum(axis=-1)) for table in self.chances)


@dataclass(frozen=True)
class ExactChemistry:
    """The chances of colours that the tables of a `Chemistry` give, in place of a draw.

    As ``compare(oracle=ExactChemistry(task))``: a plan by the true dynamics themselves would see
    draws before they happen. What is predicted after a plan's first action is exact; later actions
    take the chances of objects as if these did not depend on each other.
    """

    task: Chemistry

    def __call__(self, observations: FloatArray, actions: FloatArray) -> FloatArray:
        """Map observations [B, O] and actions [B, 2] to those of chances after them [B, O]."""
        task = self.task
        size, count = task.objects, task.colours
        after = np.array(observations, dtype=np.float64)
        now = after[:, : size * count].reshape(-1, size, count)
        nodes, values = actions.T.astype(np.intp)
        for node in np.unique(nodes):
            rows = np.flatnonzero(nodes == node)
            now[rows] = self._after(now[rows], int(node), values[rows])
        after[:, : size * count] = now.reshape(len(after), -1)
        return after

    def _after(self, chances: FloatArray, node: int, values: IntArray) -> FloatArray:
        """Return the chances [B, N, C] after an object is set, over all draws."""
        task, size = self.task, self.task.objects
        after = chances.copy()
        after[:, node] = np.eye(task.colours)[values]
        letters = [chr(ord("a") + number) for number in range(size)]
        within, terms = {node}, [f"z{letters[node]}"]
        factors: list[FloatArray] = [after[:, node]]
        for other in np.flatnonzero(task.descendants[node]).tolist():
            causes = np.flatnonzero(task.parents[other]).tolist()
            for cause in set(causes) - within:
                terms.append(f"z{letters[cause]}")
                factors.append(chances[:, cause])
            within |= {*causes, other}
            terms.append("".join(letters[cause] for cause in (*causes, other)))
            factors.append(task.chances[other])
            after[:, other] = np.einsum(f"{','.join(terms)}->z{letters[other]}", *factors)
        return after


def _uniform(keys: FloatArray, steps: FloatArray, count: int) -> FloatArray:
    """Return a number in [0, 1) for each object [B, count], by the episode's key and step [B]."""
    objects = np.arange(1, count + 1, dtype=np.uint64)
    number = steps[:, None].astype(np.uint64) * np.uint64(count) + objects
    with np.errstate(over="ignore"):
        bits = _mixed(_mixed(keys[:, None].astype(np.uint64)) + number * np.uint64(_GOLDEN))
    return np.asarray((bits >> np.uint64(11)) * 2.0**-53)


def _mixed(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(_MIX_1)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(_MIX_2)
    return bits ^ (bits >> np.uint64(31))


def chemistry(text: str) -> Chemistry:
    """Return the task of a name such as ``chain5-dynamic,k=5,gain=8``, behind "chemistry:".

    Raises ValueError for what there is not.
    """
    head, positions, options = named(
        text,
        {"k": int, "gain": float, "colours": int, "tables": int, "density": float, "look": str},
    )
    if positions:
        options["positions"] = positions
    if ">" in head:
        return Chemistry(graph=head, **options)
    graph = head.rstrip("0123456789")
    if not graph or graph == head:
        raise ValueError(
            f"need a graph and how many objects, as in 'chemistry:chain5', or edges, as in "
            f"'chemistry:0>1+0>2', got {head!r}"
        )
    return Chemistry(graph=graph, objects=int(head[len(graph) :]), **options)

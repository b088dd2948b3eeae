"""Tiling: batches made into calls of one size, so that a row's result is its own.

The result of a row must not depend on the batch it is in, or an episode would end otherwise alone
than among others. Float products round by the shape of the batch, so whatever is learned is called
with exactly `TILE` rows, short tiles padded by repeating the last row. Where `Sizes` has seen a
model give the same bits in smaller calls, fewer rows are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.machine.processors import own_share
from pytest_cpg.world_models.binding.callables import adapt, agree
from pytest_cpg.world_models.binding.conventions import (
    ArrayFunction,
    Failure,
    attempt,
    describe,
    is_same,
)
from pytest_cpg.world_models.binding.torch_state import is_compiled, is_elsewhere, same_mode

# Rows per call of a learned model. On the default MLP, 2500 rows in such tiles cost a quarter more
# CPU time than in one piece; in tiles of 50 rows they cost 2.7 times as much.
TILE = 512
# Shapes of arguments but for the number of rows: other horizons are other shapes.
_Shape: TypeAlias = tuple[tuple[int, ...], ...]
# Where a model is on another device: a usual round (50 episodes of 64 candidates) then goes there
# and comes back once.
TILE_ELSEWHERE = 4096
# No smaller size is tried: kernels for a few rows are others, and save little.
_LEAST = 8
# Of each size in its trial. All trials together compute about so many whole tiles.
_CALLS = 4
# Rows that `together` asks for at once, at most.
_TOGETHER = 8
# Rows that cost as much as one more call. A row of the default MLP costs 2.7 times as much in tiles
# of 50 as in tiles of 512: a call costs as much as 115.
_CALL = 115


def tile_of(learned: object) -> int:
    """Return how many rows a model is called with: always the same, on the same kind of device."""
    return TILE_ELSEWHERE if is_elsewhere(learned) else TILE


def tiled(
    function: ArrayFunction,
    *,
    rows: int = TILE,
    threads: int = 1,
    probe: Sequence[FloatArray] = (),
) -> ArrayFunction:
    """Return a batched function that is only ever called with so many rows.

    With a ``probe`` to try it with, also with fewer, where that gives the same bits; see `Sizes`.
    """
    sizes = Sizes(function, probe, rows)

    def call(*arrays: FloatArray) -> FloatArray:
        count = len(arrays[0])
        ends = np.cumsum([0, *sizes.of(arrays)])

        def tile(number: int) -> FloatArray:
            first, end = ends[number], ends[number + 1]
            # In C order, whatever the argument's: products round by memory order too.
            if end - first == count:
                return function(*map(np.ascontiguousarray, arrays))
            places = np.minimum(np.arange(first, end), count - 1)
            return function(*(np.take(array, places, axis=0) for array in arrays))[: count - first]

        workers = min(threads, len(ends) - 1)
        # Loops, as a StopIteration of the function's would end anything that iterates over calls.
        tiles = [] if workers < 2 else _threaded(tile, len(ends) - 1, workers)
        results: FloatArray = np.empty(0)
        for number in range(len(ends) - 1):
            rows_of_tile = tiles[number] if tiles else tile(number)
            if not number:
                results = np.empty((count, *rows_of_tile.shape[1:]))
            results[ends[number] : ends[number + 1]] = rows_of_tile
        return results

    return call


def tiled_for(
    learned: object, function: ArrayFunction, probe: Sequence[FloatArray]
) -> ArrayFunction:
    """Return a function of a model in tiles of its own size, on as many threads as it allows."""
    far = is_elsewhere(learned)
    return tiled(
        function,
        rows=tile_of(learned),
        threads=own_share() if is_thread_safe(learned) and not far else 1,
        # Elsewhere rows cost little, and another size may be compiled anew.
        probe=() if far or is_compiled(learned) else probe,
    )


def method_of(
    learned: Any, promise: str, *probe: FloatArray, rows: int | None = None
) -> ArrayFunction:
    """Return a model's method from arrays to an array, in tiles, checked on these rows.

    The promise begins with its name, as ``encode(observations [B, O]) -> latents [B, Z]`` does.
    Raises WorldModelError when it is broken, or a row's result depends on the rows around it; see
    `adapt`. Tiles have ``rows`` rows, or as many as the model's own.
    """
    name = promise.partition("(")[0]
    method = adapt(getattr(learned, name), *probe, promise=promise)
    checked = tiled(method, rows=rows) if rows else tiled_for(learned, method, probe)
    check_rows(learned, name, checked, *probe)
    return checked


def is_thread_safe(learned: object) -> bool:
    """Say whether a model's own class says that several threads may ask at once.

    Of our own adapters alone. One that is derived from them may keep anything between calls, and
    what a race does to its answers looks like a bad model.
    """
    return "thread_safe" in vars(type(learned)) and bool(getattr(learned, "thread_safe", False))


def _threaded(tile: Callable[[int], FloatArray], count: int, threads: int) -> list[FloatArray]:
    """Make tiles on several threads at once, in the modes that the caller is in."""
    mode = same_mode()

    def work(number: int) -> FloatArray:
        with mode():
            return tile(number)

    # The caller only waits, where an alarm is heard. Whatever ends the waiting ends the threads
    # after the tiles under way: torch must be in none when Python ends.
    pool = ThreadPoolExecutor(threads)
    try:
        results = [pool.submit(copy_context().run, work, number) for number in range(count)]
        return [result.result() for result in results]
    finally:
        pool.shutdown(cancel_futures=True)


def check_rows(learned: object, name: str, function: ArrayFunction, *probe: FloatArray) -> None:
    """Raise WorldModelError unless rows come out alone as they do among others."""
    together = function(*probe)
    for row in (0, len(together) - 1):
        alone = function(*(array[row : row + 1] for array in probe))
        if not agree(together[row : row + 1], alone):
            raise WorldModelError(
                f"{describe(learned)}: {name} gives another result for a row alone than for the "
                f"same row among others. A result must depend on its own row alone: put a batch "
                f"norm into eval mode, and normalise by constants."
            )


class Sizes:
    """Divides rows into calls of sizes that give a row the same bits.

    The largest size may always be asked. Its halves are tried once they would have saved what
    trying them costs: a whole tile of probe rows, in every place of it, has to come out the same
    in calls of half the size. Kernels are chosen by shapes and not by values, so it is the same for
    all others. Without a probe only the largest size is asked.
    """

    def __init__(self, function: ArrayFunction, probe: Sequence[FloatArray], largest: int) -> None:
        self._function, self._probe, self._largest = function, probe, largest
        self._least: dict[_Shape, int] = {}
        self._added: dict[_Shape, int] = {}

    def of(self, arrays: Sequence[FloatArray]) -> list[int]:
        """Return how many rows each call has for arrays [B, ...], the last one beyond ``B``."""
        count, shape = len(arrays[0]), tuple(array.shape[1:] for array in arrays)
        calls = _divided(count, self._largest, self._least.get(shape, self._largest))
        if self._probe and shape not in self._least:
            saved = sum(calls) - sum(_divided(count, self._largest, _LEAST))
            self._added[shape] = self._added.get(shape, 0) + saved
            if self._added[shape] > _CALLS * self._largest:
                self._least[shape] = self._tried(shape)
        return calls

    def _tried(self, shape: _Shape) -> int:
        """Return the smallest size that is as good as the largest."""
        # Neighbours are different rows, and a row is in places of every kind.
        order = np.random.default_rng(0).permutation(self._largest)
        rows = [
            _cycled(array, (self._largest, *wanted))[order]
            for array, wanted in zip(self._probe, shape, strict=True)
        ]
        # It may refuse plans of the probe's actions, which nobody asked about.
        whole = attempt(self._function, *(array.copy() for array in rows))
        if isinstance(whole, Failure):
            return self._largest
        size = self._largest
        while size % 2 == 0 and size > _LEAST:
            for first in range(0, min(self._largest, _CALLS * size // 2), size // 2):
                half = slice(first, first + size // 2)
                part = attempt(self._function, *(array[half].copy() for array in rows))
                if not is_same(part, whole[half]):
                    return size
            size //= 2
        return size


def together(function: ArrayFunction, probe: Sequence[FloatArray]) -> ArrayFunction:
    """Return a function that is asked for several rows at once, where that changes no bit.

    Unlike one in tiles, it may be right for a single row alone: a model may take what belongs to
    the first row for what belongs to all.
    """
    most: dict[_Shape, int] = {}
    calls: dict[_Shape, int] = {}

    def tried(shape: _Shape) -> int:
        rows = [
            _cycled(array, (_TOGETHER, *sizes)) for array, sizes in zip(probe, shape, strict=True)
        ]

        def answer(size: int) -> FloatArray | Failure:
            return attempt(lambda *arrays: _in_calls(function, arrays, size), *rows)

        alone, size = answer(1), _TOGETHER
        while size > 1 and (isinstance(alone, Failure) or not is_same(answer(size), alone)):
            size //= 2
        return size

    def call(*arrays: FloatArray) -> FloatArray:
        shape, count = tuple(array.shape[1:] for array in arrays), len(arrays[0])
        if shape not in most:
            calls[shape] = calls.get(shape, 0) + count - -(-count // _TOGETHER)
            if calls[shape] > _CALLS * _TOGETHER:
                most[shape] = tried(shape)
        return _in_calls(function, arrays, most.get(shape, 1))

    return call


def _in_calls(function: ArrayFunction, arrays: Sequence[FloatArray], size: int) -> FloatArray:
    """Call a function with so many rows at a time, and with single ones for what is left."""
    count = len(arrays[0])
    whole = count - count % size
    ends = [*range(0, whole, size), *range(whole, count + 1)]
    parts = [function(*(array[first:end] for array in arrays)) for first, end in pairwise(ends)]
    return np.concatenate(parts)


def _divided(count: int, largest: int, least: int) -> list[int]:
    """Return the sizes of calls for so many rows, which are halves of the largest one."""
    sizes = [largest] * (count // largest)
    left, size = count % largest, largest
    while left:
        while size // 2 >= max(left, least):
            size //= 2
        half = size // 2
        if half < least or half + _CALL + sum(_divided(left - half, half, least)) >= size:
            return [*sizes, size]
        sizes.append(half)
        left -= half
    return sizes


def _cycled(array: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    """Return an array of this shape, made of the rows, columns and so on of a smaller one."""
    for axis, size in enumerate(shape):
        array = np.take(array, np.arange(size) % array.shape[axis], axis=axis)
    return array

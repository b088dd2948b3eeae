"""Tiling: batches made into calls of one size, so that a row's result is its own.

The result of a row must not depend on the batch it is in, or an episode would end otherwise alone
than among others. Float products round by the shape of the batch, so whatever is learned is called
with exactly `TILE` rows, short tiles padded by repeating the last row. Where `Sizes` has seen a
model give the same bits in smaller calls, fewer rows are added. That is done here, and nowhere
else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from threading import Event, Thread
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.machine.processors import own_share
from pytest_cpg.world_models.binding.callables import adapt, agree
from pytest_cpg.world_models.binding.conventions import ArrayFunction, ShapeRule, describe
from pytest_cpg.world_models.binding.tile_sizes import Sizes
from pytest_cpg.world_models.binding.torch_state import is_compiled, is_elsewhere, same_mode

# Rows per call of a learned model. On the default MLP, 2500 rows in such tiles cost a quarter more
# CPU time than in one piece; in tiles of 50 rows they cost 2.7 times as much.
TILE = 512
# Where a model is on another device: a usual round (50 episodes of 64 candidates) then goes there
# and comes back once.
TILE_ELSEWHERE = 4096


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
        tiles = [] if workers < 2 else _threaded(tile, range(len(ends) - 1), workers)
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
    learned: Any,
    name: str,
    *probe: FloatArray,
    shape: ShapeRule,
    promise: str,
    rows: int | None = None,
) -> ArrayFunction:
    """Return a model's method from arrays to an array, in tiles, checked on these rows.

    Raises WorldModelError when it breaks its promise, or a row's result depends on the rows around
    it; see `adapt`. Tiles have ``rows`` rows, or as many as the model's own.
    """
    method = adapt(getattr(learned, name), *probe, shape=shape, promise=promise)
    checked = tiled(method, rows=rows) if rows else tiled_for(learned, method, probe)
    check_rows(learned, name, checked, *probe)
    return checked


def is_thread_safe(learned: object) -> bool:
    """Say whether a model's own class says that several threads may ask at once.

    Of our own adapters alone. One that is derived from them may keep anything between calls, and
    what a race does to its answers looks like a bad model.
    """
    return "thread_safe" in vars(type(learned)) and bool(getattr(learned, "thread_safe", False))


def _threaded(
    tile: Callable[[int], FloatArray], numbers: Sequence[int], threads: int
) -> list[FloatArray]:
    """Make tiles on several threads at once, in the modes that the caller is in.

    The caller only waits, where an alarm is heard. Whatever ends the waiting ends the threads, once
    they are through with the tiles under way: torch must be in none when Python ends.
    """
    mode, is_over = same_mode(), Event()
    results: list[Future[FloatArray]] = [Future() for _ in numbers]

    def work(number: int) -> None:
        for place in range(number, len(numbers), threads):
            if is_over.is_set():
                return
            try:
                with mode():
                    results[place].set_result(tile(numbers[place]))
            except BaseException as error:
                results[place].set_exception(error)

    workers = [Thread(target=copy_context().run, args=(work, number)) for number in range(threads)]
    for worker in workers:
        worker.start()
    try:
        return [result.result() for result in results]
    finally:
        is_over.set()
        for worker in workers:
            worker.join()


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

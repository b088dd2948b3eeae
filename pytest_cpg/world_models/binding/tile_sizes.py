"""Tile sizes: with how many rows a function may be called without changing the bits of any."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.world_models.binding.conventions import ArrayFunction, Failure, attempt

# No smaller size is tried: kernels for a few rows are others, and save little.
_LEAST = 8
# Of each size in its trial. All trials together compute about so many whole tiles.
_CALLS = 4
# Rows that `together` asks for at once, at most.
_TOGETHER = 8
# Rows that cost as much as one more call. A row of the default MLP costs 2.7 times as much in tiles
# of 50 as in tiles of 512: a call costs as much as 115.
_CALL = 115


class Sizes:
    """Divides rows into calls of sizes that give a row the same bits.

    The largest size may always be asked. Its halves are tried once they would have saved what
    trying them costs: a whole tile of probe rows, in every place of it, has to come out the same
    in calls of half the size. Kernels are chosen by shapes and not by values, so it is the same for
    all others. What differs there, or is refused, is not asked.

    Parameters
    ----------
    probe : sequence of arrays [P, ...]
        Rows to try it with; without them only the largest size is asked.
    """

    def __init__(self, function: ArrayFunction, probe: Sequence[FloatArray], largest: int) -> None:
        self._function, self._probe, self._largest = function, probe, largest
        # By all but the number of rows: other horizons are other shapes.
        self._least: dict[tuple[tuple[int, ...], ...], int] = {}
        self._added: dict[tuple[tuple[int, ...], ...], int] = {}

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

    def _tried(self, shape: tuple[tuple[int, ...], ...]) -> int:
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
                if isinstance(part, Failure) or not np.array_equal(
                    part, whole[half], equal_nan=True
                ):
                    return size
            size //= 2
        return size


def together(function: ArrayFunction, probe: Sequence[FloatArray]) -> ArrayFunction:
    """Return a function that is asked for several rows at once, where that changes no bit.

    Unlike one in tiles, it may be right for a single row alone: a model may take what belongs to
    the first row for what belongs to all.
    """
    most: dict[tuple[tuple[int, ...], ...], int] = {}
    calls: dict[tuple[tuple[int, ...], ...], int] = {}

    def tried(shape: tuple[tuple[int, ...], ...]) -> int:
        rows = [
            _cycled(array, (_TOGETHER, *sizes)) for array, sizes in zip(probe, shape, strict=True)
        ]
        alone = attempt(lambda *arrays: _in_calls(function, arrays, 1), *rows)
        if isinstance(alone, Failure):
            return 1
        size = _TOGETHER
        while size > 1:
            answer = attempt(lambda *arrays, size=size: _in_calls(function, arrays, size), *rows)
            if not isinstance(answer, Failure) and np.array_equal(answer, alone, equal_nan=True):
                return size
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

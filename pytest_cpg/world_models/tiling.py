"""Tiling: batches made into calls of one size, so that a row's result is its own.

The result of a row must not depend on the batch it is in, or an episode would end otherwise alone
than among others. Float products round by the shape of the batch (numpy in nearly every row,
torch for small ones), so whatever is learned is always called with exactly `TILE` rows, short
tiles padded by repeating the last row. That is done here, and nowhere else.
"""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.world_models.callables import agree
from pytest_cpg.world_models.conventions import ArrayFunction, describe
from pytest_cpg.world_models.torch_state import is_elsewhere

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

# Rows per call of a learned model. On the default MLP, 2500 rows in such tiles cost a quarter more
# CPU time than in one piece; in tiles of 50 rows they cost 2.7 times as much.
TILE = 512
# Where a model is on another device: a usual round (50 episodes of 64 candidates) then goes there
# and comes back once.
TILE_ELSEWHERE = 4096


def tile_of(learned: object) -> int:
    """Return how many rows a model is called with: always the same, on the same kind of device."""
    return TILE_ELSEWHERE if is_elsewhere(learned) else TILE


def tiled(function: ArrayFunction, *, rows: int = TILE) -> ArrayFunction:
    """Return a batched function that is only ever called with so many rows."""

    def call(*arrays: FloatArray) -> FloatArray:
        count = len(arrays[0])
        results: FloatArray = np.empty(0)
        for first in range(0, count, rows):
            own = np.minimum(np.arange(first, first + rows), count - 1)
            # np.take gives C order whatever the argument's: products round by memory order too.
            tile = function(*(np.take(array, own, axis=0) for array in arrays))
            if not first:
                results = np.empty((count, *tile.shape[1:]))
            results[first : first + rows] = tile[: count - first]
        return results

    return call


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

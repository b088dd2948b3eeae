"""Policy: what acts on observations by itself, without searching a world for its actions."""

from __future__ import annotations

from typing import Protocol

from pytest_cpg.contracts.arrays import FloatArray


class Policy(Protocol):
    """A function from what is observed to what is done.

    It is deterministic and without memory: an observation has one action, whatever was asked
    before and whatever else is in the batch.
    """

    def act(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to actions [B, A], in the simulator's own units."""
        ...

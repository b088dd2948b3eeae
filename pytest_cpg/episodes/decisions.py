"""Decisions: places that the arms of a gate came to, to be asked about again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.contracts.streams import Purpose, Stream

Rows = TypeVar("Rows", IntArray, FloatArray)


class Decision(NamedTuple):
    """A place where a plan is chosen, after so many steps of the learned arm (0) or oracle."""

    episode: int
    arm: int
    at: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decisions:
    """Decisions and where each is taken: states [N, S], and the learned model's latents [N, Z]."""

    rows: tuple[Decision, ...]
    states: FloatArray
    latents: FloatArray

    @property
    def episodes(self) -> IntArray:
        """Which episode each is from, [N]."""
        return np.array([row.episode for row in self.rows])

    @property
    def at(self) -> IntArray:
        """Steps taken before each, [N]."""
        return np.array([row.at for row in self.rows])

    def take(self, rows: IntArray) -> Decisions:
        """Return some of them."""
        return Decisions(
            rows=tuple(self.rows[row] for row in rows),
            states=self.states[rows],
            latents=self.latents[rows],
        )

    def streams(self, seed: int, purpose: Purpose) -> list[np.random.Generator]:
        """Return a stream for each of them, the same whatever the others are."""
        return [Stream.DIAGNOSIS.of(seed, purpose, *row) for row in self.rows]


def evenly(rows: Rows, most: int) -> Rows:
    """Return so many rows at most, from the first to the last."""
    places = np.linspace(0, len(rows) - 1, min(most, len(rows)))
    return np.asarray(rows[places.round().astype(int)])

"""Decisions: places that the arms of a gate came to, to be asked about again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Plans
from pytest_cpg.contracts.planner import is_warm_started
from pytest_cpg.contracts.streams import Purpose, Stream
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.world_models import BoundModel

Rows = TypeVar("Rows", IntArray, FloatArray)
# In one array of imagined or true states, of which there are a handful at a time: 32 MiB.
_MOST_NUMBERS = 2**22


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

    def parts(self, numbers: int) -> list[IntArray]:
        """Divide them into as few parts as memory allows, for so many numbers of each: rows."""
        count = len(self.rows)
        return np.array_split(np.arange(count), min(count, -(-count * numbers // _MOST_NUMBERS)))

    def planned(self, design: Design, arm: str, model: BoundModel) -> FloatArray:
        """Return the plans [N, H, A] that an arm's planner chooses there, in either from one noise.

        One that is warm started begins anew: one of the arms was never there before.
        """
        imagination = Imagination(arm, design.task.actions, model)
        noise = self.streams(design.seed, Purpose.NOISE_OF_PLANNER)
        imagination.plans_for(self.episodes, self.at, noise)
        memory: dict[str, Any] = {"memory": None} if is_warm_started(design.planner) else {}
        chosen = design.planner.plan(
            imagination,
            self.latents if arm == "learned" else imagination.encode(self.states),
            self.streams(design.seed, Purpose.PLANNER),
            design.task.budget - self.at,
            **memory,
        )
        return Plans(*chosen).actions


def evenly(rows: Rows, most: int) -> Rows:
    """Return so many rows at most, from the first to the last."""
    places = np.linspace(0, len(rows) - 1, min(most, len(rows)))
    return np.asarray(rows[places.round().astype(int)])

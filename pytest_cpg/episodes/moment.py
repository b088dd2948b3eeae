"""Moment: where some episodes of an arm are, and what a perturbation draws there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Task
from pytest_cpg.contracts.streams import Stream


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Moment:
    """Some episodes [B] of an arm, after so many ``steps`` [B], and what is drawn there.

    Draws depend on the seed, the episode and its step alone, and on which of several perturbations
    asks.
    """

    task: Task
    seed: int
    rows: IntArray
    steps: IntArray
    every_episode: IntArray
    part: int = 0
    memory: dict[str, Any] = field(default_factory=dict)

    def rng(self, episode: int, step: int = 0) -> np.random.Generator:
        """Return the random stream of a step of an episode.

        `normal` draws from it. A table of a whole episode that is used beside it has a stream of
        its own after the last step: ``rng(episode, moment.task.budget)``.
        """
        more = (self.part,) if self.part else ()
        return Stream.DISTURBANCE.of(self.seed, episode, step, *more)

    def normal(self, size: int) -> FloatArray:
        """Draw standard normal noise [B, size]."""
        pairs = zip(self.every_episode[self.rows], self.steps, strict=True)
        return np.stack([self.rng(*pair).standard_normal(size) for pair in pairs])

    def kept(self, name: str, begin: Callable[[int], Any]) -> Any:
        """Return an array [N, ...] that lasts as long as the arm: at first a row by episode.

        Of these episodes it has the ``rows``, and may be written to.
        """
        if name not in self.memory:
            self.memory[name] = np.stack([begin(int(episode)) for episode in self.every_episode])
        return self.memory[name]

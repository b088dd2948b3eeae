"""Target: what worlds share whose goal is where some random actions led."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.contracts.arrays import rolled_out
from pytest_cpg.tasks.causal.looks import Look, beside, seen, seen_shape
from pytest_cpg.tasks.pictures import Frames


class TowardsTarget(ABC):
    """A world whose target is `k` random actions from the start, and which has looks."""

    k: int
    look: Look

    @property
    def budget(self) -> int:
        """As many steps as led to the target."""
        return self.k

    @property
    def control_period(self) -> float:
        """One second per step."""
        return 1.0

    @property
    def versions(self) -> Mapping[str, str]:
        """The version of numpy, which draws the starts."""
        return MappingProxyType({"numpy": np.__version__})

    @abstractmethod
    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, 2] to next states [B, S]."""

    @abstractmethod
    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return a reward for each state [..., S], whatever was done: [...]."""

    @abstractmethod
    def frames(self, states: FloatArray, look: Look, *, part: int = 0) -> Frames:
        """Draw states [B, S] as "grid" [B, 3, 5, 5] or "picture" [B, 3, 50, 50], of 8 bits.

        ``part`` 1 draws the target.
        """

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, 2] to the states after each action [B, H, S]."""
        return rolled_out(self.step, states, actions)

    @property
    def score_states(self) -> Callable[[FloatArray], FloatArray] | None:
        """What rates states where observations have no score."""
        return None if self.look == "vector" else lambda states: -self.reward(states, states)

    @property
    def picture_shape(self) -> tuple[int, int, int, int] | None:
        """The present and the target, in red, green and blue: [2, H, W, 3]; None of numbers."""
        return seen_shape(self.look)

    def pictures(self, states: FloatArray) -> Frames:
        """Draw states [..., S] and their targets [..., 2, H, W, 3], as the look has it."""
        return seen(self.frames, states, self.look)

    def render(self, states: FloatArray) -> Frames:
        """Draw states [B, S] beside their targets: frames [B, H, W, 3]."""
        return beside(*(self.frames(states, "picture", part=part) for part in (0, 1)))

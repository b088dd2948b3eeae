"""Action spaces: what can be done at every step, out of a set or a box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pytest_cpg.contracts.arrays import BoolArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class FiniteActions:
    """A finite set of actions."""

    #: [M, A]: One action a row, in the simulator's own units.
    values: FloatArray

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 2 or 0 in values.shape:
            raise ValueError(f"need actions of shape [M, A], got shape {values.shape}")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    @property
    def size(self) -> int:
        """Numbers in one action, ``A``."""
        return int(self.values.shape[1])

    @property
    def low(self) -> FloatArray:
        """The least of each number, [A]."""
        return np.asarray(self.values.min(axis=0))

    @property
    def high(self) -> FloatArray:
        """The largest of each number, [A]."""
        return np.asarray(self.values.max(axis=0))

    @property
    def idle(self) -> FloatArray:
        """The action nearest to zero, [A]."""
        nearest = int(np.argmin((self.values**2).sum(axis=1)))
        return np.array(self.values[nearest])

    def contains(self, actions: FloatArray) -> BoolArray:
        """Say which of the actions [..., A] are in the set, exactly: [...]."""
        return np.asarray((actions[..., None, :] == self.values).all(axis=-1).any(axis=-1))

    def nearest(self, actions: FloatArray) -> FloatArray:
        """Return the possible action that is nearest to each of the actions [..., A]; NaN stays."""
        distances = ((actions[..., None, :] - self.values) ** 2).sum(axis=-1)
        closest = self.values[distances.argmin(axis=-1)]
        return np.where(np.isnan(actions).any(axis=-1, keepdims=True), np.nan, closest)

    def sample(self, rngs: Sequence[np.random.Generator], shape: tuple[int, ...]) -> FloatArray:
        """Draw uniform actions ``[N, *shape, A]``, the row of an episode from its own stream."""
        return self.values[np.stack([rng.integers(len(self.values), size=shape) for rng in rngs])]


@dataclass(frozen=True, slots=True, eq=False)
class BoxActions:
    """All actions between two bounds."""

    #: [A]: Finite bounds, in the simulator's own units, ``low < high``.
    low: FloatArray
    high: FloatArray

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = np.array(getattr(self, name), dtype=np.float64)
            bound.flags.writeable = False
            object.__setattr__(self, name, bound)
        if self.low.ndim != 1 or self.low.shape != self.high.shape or not self.low.size:
            raise ValueError(f"need two bounds [A], got {self.low.shape} and {self.high.shape}")
        if not (np.isfinite(self.low) & np.isfinite(self.high) & (self.low < self.high)).all():
            raise ValueError(f"need finite low < high, got {self.low} and {self.high}")

    @property
    def size(self) -> int:
        """Numbers in one action, ``A``."""
        return int(self.low.size)

    @property
    def idle(self) -> FloatArray:
        """The action nearest to zero, [A]."""
        return np.clip(np.zeros_like(self.low), self.low, self.high)

    def contains(self, actions: FloatArray) -> BoolArray:
        """Say which of the actions [..., A] lie within the bounds: [...]."""
        return np.asarray(((actions >= self.low) & (actions <= self.high)).all(axis=-1))

    def nearest(self, actions: FloatArray) -> FloatArray:
        """Return the possible action that is nearest to each of the actions [..., A]; NaN stays."""
        return np.asarray(np.clip(actions, self.low, self.high))

    def sample(self, rngs: Sequence[np.random.Generator], shape: tuple[int, ...]) -> FloatArray:
        """Draw uniform actions ``[N, *shape, A]``, the row of an episode from its own stream."""
        unit = np.stack([rng.random((*shape, self.size)) for rng in rngs])
        return self.low + (self.high - self.low) * unit


ActionSpace: TypeAlias = FiniteActions | BoxActions

"""Edits of control: plans of an action space that differ from one by a single edit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pytest_cpg.contracts import ActionSpace, FiniteActions, FloatArray, IntArray


class ControlEdits:
    """Draws neighbours of the plans of ``N`` decisions, each from a stream of its own.

    Half of them are prefixes, of lengths from 0 that are all different, as far as there are so
    many: a plan that ends early goes on with the idle action, the one nearest to zero. The others
    have one action substituted, at a place that is drawn uniformly: by a draw from a box, or by
    another action of a finite set. Steps past the budget are left as they are.

    ``remaining`` are steps [N] until the budget.
    """

    def __init__(
        self, actions: ActionSpace, remaining: IntArray, rngs: Sequence[np.random.Generator]
    ) -> None:
        self._actions, self._remaining, self._rngs = actions, remaining, rngs

    def draw(self, plans: FloatArray, count: int) -> FloatArray:
        """Return neighbours [N, count, H, A] of plans [N, H, A]."""
        found: FloatArray = np.repeat(plans[:, None], count, axis=1)
        space, horizon = self._actions, plans.shape[1]
        for neighbours, left, rng in zip(found, self._remaining, self._rngs, strict=True):
            steps = min(horizon, int(left))
            prefixes = min(count // 2, steps)
            ends = rng.permutation(steps)[:prefixes]
            is_past = np.arange(horizon) >= ends[:, None]
            neighbours[:prefixes][is_past] = space.idle
            rows = np.arange(prefixes, count)
            places = rng.integers(steps, size=len(rows))
            neighbours[rows, places] = self._substitutes(neighbours[rows, places], rng)
        return found

    def _substitutes(self, old: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return other actions than these [C, A]."""
        space = self._actions
        if not isinstance(space, FiniteActions):
            return np.asarray(space.sample([rng], (len(old),))[0])
        count = len(space.values)
        known = (old[:, None] == space.values).all(axis=-1).argmax(axis=1)
        shifts = 1 + rng.integers(max(1, count - 1), size=len(old))
        return np.asarray(space.values[(known + shifts) % count])

"""Labels: whether the returns that queries come with are those of a simulator at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.gates.policy_comparison.simulators import (
    Simulator,
    side_of,
    simulator_of,
    true_returns,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LabelAgreement:
    """How far the labels of some queries are those of a simulator.

    Attributes
    ----------
    rows : array [K], int
        Which queries were simulated.
    horizons : array [K], int
        Theirs.
    flipped : array [K], bool
        Where the simulator says that the other policy is better, or neither.
    errors : array [K, 2]
        By how much the returns of sides a and b differ, without sign.
    """

    rows: IntArray
    horizons: IntArray
    flipped: BoolArray
    errors: FloatArray

    @property
    def share(self) -> float:
        """The share of labels that agree, in [0, 1]."""
        return float(1 - self.flipped.mean())

    @property
    def per_horizon(self) -> dict[int, tuple[int, int]]:
        """How many labels agree, and out of how many, by horizon."""
        return {
            int(horizon): (int((~self.flipped[own]).sum()), int(own.sum()))
            for horizon in np.unique(self.horizons)
            for own in [self.horizons == horizon]
        }

    def __str__(self) -> str:
        """Say it in a few lines.

        >>> rows, horizons = np.arange(4), np.array([10, 10, 50, 50])
        >>> errors = np.full((4, 2), 0.5)
        >>> print(LabelAgreement(rows=rows, horizons=horizons, flipped=rows == 3, errors=errors))
        3 of 4 labels agree (75.00 %); returns differ by 0.5 (median), 0.5 (largest)
          horizon 10: 2 of 2
          horizon 50: 1 of 2, not query 3
        """
        agreeing = len(self.rows) - int(self.flipped.sum())
        lines = [
            f"{agreeing} of {len(self.rows)} labels agree ({100 * self.share:.2f} %); returns "
            f"differ by {np.median(self.errors):.3g} (median), {self.errors.max():.3g} (largest)"
        ]
        for horizon, (agree, count) in self.per_horizon.items():
            flips = self.rows[self.flipped & (self.horizons == horizon)]
            named = f", not query {', '.join(map(str, flips[:3]))}" if len(flips) else ""
            more = " ..." if len(flips) > 3 else ""
            lines.append(f"  horizon {horizon}: {agree} of {count}{named}{more}")
        return "\n".join(lines)


def verify_labels(
    queries: PolicyQueries, simulator: Simulator | None = None, *, count: int | None = None
) -> LabelAgreement:
    """Simulate queries again, and return how far their labels agree.

    Parameters
    ----------
    simulator : Simulator, optional
        None for the published environment's own; see `simulator_of`.
    count : int, optional
        So many queries, evenly spaced; None for all.

    Raises ComponentError where no simulator is known or installed, ValueError without states.
    """
    if count is not None and not 1 <= count <= len(queries):
        raise ValueError(f"count must be from 1 to {len(queries)}, got {count!r}")
    rows = np.unique(np.linspace(0, len(queries) - 1, count or len(queries)).round().astype(int))
    world = simulator_of(queries.environment) if simulator is None else simulator
    a, b = _simulated(queries, world, rows)
    labels = queries.labels[rows]
    return LabelAgreement(
        rows=rows,
        horizons=queries.horizons[rows],
        flipped=np.where(labels, a >= b, a <= b),
        errors=np.abs(np.stack([a - queries.returns_a[rows], b - queries.returns_b[rows]], axis=1)),
    )


def relabelled(queries: PolicyQueries, simulator: Simulator | None = None) -> PolicyQueries:
    """Return the queries with the returns of a simulator at hand, ties left out.

    For labels that `verify_labels` does not confirm, such as HalfCheetah's at long horizons.
    """
    world = simulator_of(queries.environment) if simulator is None else simulator
    rows = np.arange(len(queries))
    a, b = _simulated(queries, world, rows)
    kept = np.flatnonzero(a != b)
    return replace(queries.take(kept), returns_a=a[kept], returns_b=b[kept])


def _simulated(
    queries: PolicyQueries, world: Simulator, rows: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the true returns of both sides of some queries [K]."""
    sides = (side_of(queries, side, rows) for side in "ab")
    a, b = (true_returns(world, side, queries.act, queries.discount) for side in sides)
    return a, b

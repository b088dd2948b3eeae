"""Formulas: where a plan's value stands among its neighbours'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import BoolArray, FloatArray
from pytest_cpg.stats import Interval

FLAT = 1e-6
"""Neighbours whose values lie no further apart are flat: the smallest span of the code."""


def cfsim(values: FloatArray, neighbours: FloatArray) -> FloatArray:
    """Return the CFSim score of plans [...] among the values of their neighbours [..., K].

    ``(V - min) / max(max - min, 1e-6)``, as in the listing, section 3.3, of "Evaluating Agent Plans
    via Counterfactual Simulation Rollouts" (clawRxiv 2604.02053): the best neighbour scores 1, and
    affine rewards change nothing. Its equation adds an ``eps`` that it does not give.

    The plan is not among its neighbours, so that a plan better than all of them scores above 1, and
    a worse one below 0. Where all neighbours are worth the same, that plan scores 0, and any other
    a million times the difference.

    >>> cfsim(np.array([3.0]), np.array([[1.0, 5.0, 2.0]]))
    array([0.5])

    Raises ValueError for numbers that are not finite, and where there are no neighbours.
    """
    values, neighbours = (np.asarray(part, dtype=np.float64) for part in (values, neighbours))
    if neighbours.ndim != values.ndim + 1 or neighbours.shape[:-1] != values.shape:
        raise ValueError(
            f"need the values of K neighbours for each plan, got shapes {values.shape} and "
            f"{neighbours.shape}"
        )
    if not neighbours.shape[-1]:
        raise ValueError("need at least one neighbour of each plan, got none")
    if not (np.isfinite(values).all() and np.isfinite(neighbours).all()):
        raise ValueError("need finite values of plans and neighbours")
    worst, best = neighbours.min(axis=-1), neighbours.max(axis=-1)
    return np.asarray((values - worst) / np.maximum(best - worst, FLAT))


def are_flat(values: FloatArray, neighbours: FloatArray) -> BoolArray:
    """Say for which plans [...] no edit matters: they are worth what all neighbours [..., K] are.

    Of such a plan no score says anything.
    """
    least = np.minimum(values, neighbours.min(axis=-1))
    return np.asarray(np.maximum(values, neighbours.max(axis=-1)) - least <= FLAT)


def bounded(scores: FloatArray) -> FloatArray:
    """Return scores as if each plan were among its neighbours: in [0, 1], and 1 for the best."""
    return np.clip(scores, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanScore:
    """What a plan is worth beside its neighbours.

    ``value`` is its return, the mean over rollouts, and ``neighbours`` [K] the same of each
    neighbour, fewer than were asked for where there are no more; ``plans`` are these, and ``edits``
    say what is changed in each. The interval is of the score; None where there is one rollout, or
    where rollouts do not tell the worst neighbour from the best.
    """

    value: float
    neighbours: FloatArray
    plans: tuple[tuple[Any, ...], ...]
    edits: tuple[str, ...]
    rollouts: int
    interval: Interval | None = None

    def __repr__(self) -> str:
        better = self.better or f"none of {len(self.neighbours)}"
        ends = f" [{self.interval.low:.3f}, {self.interval.high:.3f}]" if self.interval else ""
        return f"PlanScore(better: {better}, regret {self.regret:g}, score {self.score:.3f}{ends})"

    @property
    def score(self) -> float:
        """The score; see `cfsim`."""
        return float(cfsim(np.array(self.value), self.neighbours))

    @property
    def bounded(self) -> float:
        """The score in [0, 1], as if the plan were among its neighbours."""
        return float(bounded(np.array(self.score)))

    @property
    def beats_all(self) -> bool:
        """Whether the plan is worth more than each neighbour."""
        return bool((self.value > self.neighbours).all())

    @property
    def is_flat(self) -> bool:
        """Whether no edit matters, so that the score says nothing."""
        return bool(are_flat(np.array(self.value), self.neighbours))

    @property
    def regret(self) -> float:
        """What the best neighbour is worth more than the plan, at least 0, in units of reward."""
        return max(0.0, float(self.neighbours.max()) - self.value)

    @property
    def better(self) -> str | None:
        """The edit that gains most; None where none gains anything."""
        return self.edits[int(self.neighbours.argmax())] if self.regret else None


Search: TypeAlias = Literal["random", "adversarial"]

# Of an adversary: what it finds in one it edits further in the next.
_ROUNDS = 4


def explore(
    plans: npt.NDArray[Any],
    values: FloatArray,
    *,
    draw: Callable[[npt.NDArray[Any], int], npt.NDArray[Any]],
    evaluate: Callable[[npt.NDArray[Any]], FloatArray],
    k: int,
    search: Search = "random",
) -> FloatArray:
    """Return the values of neighbours [N, K] of plans [N, ...] that are worth ``values`` [N].

    ``draw`` maps plans to ``C`` neighbours of each [N, C, ...], or fewer if there are no more, and
    ``evaluate`` these to values [N, C]; higher is better. An adversary spends as many simulations:
    in four rounds it edits the best that it has found, the plan itself at first, so that edits add
    up where they pay.
    """
    best, most, rounds = plans, values, []
    for part in np.array_split(np.arange(k), min(k, _ROUNDS) if search == "adversarial" else 1):
        tried = draw(best, len(part))
        if not tried.shape[1]:
            break
        rated = evaluate(tried)
        rows, top = np.arange(len(plans)), rated.argmax(axis=1)
        gains = rated[rows, top] > most
        best = best.copy()
        best[gains] = tried[rows, top][gains]
        most = np.maximum(most, rated[rows, top])
        rounds.append(rated)
    if not rounds:
        raise ValueError("a plan has no neighbours: its edits leave it as it is")
    return np.concatenate(rounds, axis=1)

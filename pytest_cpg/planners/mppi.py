"""MPPI: model predictive path integral control, a softly weighted mean of noisy plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, PlanningModel, Plans
from pytest_cpg.planners.candidates import check_counts, is_number, score_plans
from pytest_cpg.planners.distributions import Spread, check_spread, plan_distribution
from pytest_cpg.planners.noise import check_noise
from pytest_cpg.planners.objective import Choice, Objective, rate


@dataclass(frozen=True, slots=True, kw_only=True)
class MPPI:
    """Model predictive path integral control (Williams et al., ICRA 2017, equation 22).

    Plans are drawn around the last mean, shifted by what was executed of it, and their mean by
    ``exp(-cost / temperature)`` is executed. Over a finite set the weights are those of actions,
    step by step, and the most likely ones are executed.

    Attributes
    ----------
    iterations, samples : int
        Rounds, and plans in each of them.
    temperature : float
        Above 0, in standard deviations of the candidates' costs: no task has to be known to choose
        it. Small ones follow the best plan, large ones the mean of all.
    deviation : float
        Of a box's noise, in halves of the box's width.
    correlation : float
        Of the noise of neighbouring steps, in (-1, 1).
    smoothing : float
        As in `CEM`.
    objective, execute
        See `rate`. Without ``execute``, the mean is imagined too, to be cut at its best step.
    """

    iterations: int = 2
    samples: int = 50
    horizon: int = 15
    temperature: float = 0.3
    deviation: float = 0.5
    correlation: float = 0.0
    smoothing: float = 0.0
    objective: Objective = "sum"
    execute: int | None = 1
    name: ClassVar[str] = "mppi"
    is_warm_started: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts(iterations=self.iterations, samples=self.samples)
        Choice.of(self).check(self.horizon)
        check_spread(smoothing=self.smoothing, deviation=self.deviation)
        check_noise(correlation=self.correlation)
        if not is_number(self.temperature) or not 0 < self.temperature < np.inf:
            raise ValueError(f"temperature must be a number above 0, got {self.temperature!r}")

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
        memory: FloatArray | None = None,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        spread = Spread(
            horizon=self.horizon,
            smoothing=self.smoothing,
            initial=self.deviation,
            correlation=self.correlation,
        )
        distribution = plan_distribution(world_model.actions, spread, len(latents), memory)
        for _ in range(self.iterations):
            plans = distribution.draw(rngs, self.samples)
            costs, _ = Choice.of(self).rate_plans(world_model, latents, plans, remaining)
            distribution.weigh(plans, path_weights(costs, self.temperature))
        mean = distribution.mode
        if self.execute is None:
            scores = score_plans(world_model, latents, mean[:, None])
            lengths = rate(scores, remaining)[1][:, 0]
        else:
            lengths = np.minimum(remaining, self.execute)
        return Plans(mean, lengths, memory=distribution.shifted(lengths))


def path_weights(costs: FloatArray, temperature: float) -> FloatArray:
    """Return the weight of each candidate [N, K], of sum 1, from its cost [N, K].

    A plan of infinite cost has none, unless all of them have.

    >>> path_weights(np.array([[0.0, 1.0, np.inf]]), 0.5).round(3)
    array([[0.982, 0.018, 0.   ]])
    """
    is_known = np.isfinite(costs)
    known = np.where(is_known, costs, 0.0)
    count = np.maximum(1, is_known.sum(axis=1, keepdims=True))
    mean = known.sum(axis=1, keepdims=True) / count
    squares = np.where(is_known, (known - mean) ** 2, 0.0).sum(axis=1, keepdims=True)
    deviation = np.sqrt(squares / count)
    least = np.where(is_known, costs, np.inf).min(axis=1, keepdims=True)
    above = np.where(is_known, known - np.where(np.isfinite(least), least, 0.0), 0.0)
    # Equal costs have equal weights, whatever the temperature.
    exponent = above / np.where(deviation > 0, temperature * deviation, 1.0)
    weights = np.where(is_known | ~is_known.any(axis=1, keepdims=True), np.exp(-exponent), 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))

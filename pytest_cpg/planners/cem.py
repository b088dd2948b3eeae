"""Cross-entropy method: sample plans, refit the sampling distribution to the best, repeat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from pytest_cpg.contracts import (
    ActionSpace,
    BoxActions,
    FiniteActions,
    FloatArray,
    IntArray,
    PlanningModel,
    Plans,
)
from pytest_cpg.planners.candidates import (
    Ties,
    check_counts,
    check_ties,
    cut_at_best,
    score_plans,
)

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CEM:
    """Cross-entropy method (Rubinstein 1999) over plans, the best plan seen is executed.

    Finite action sets get an independent categorical distribution per step, boxes an independent
    Gaussian. Defaults are those of the published acrobot-swingup experiment.

    Attributes
    ----------
    iterations, samples, elites : int
        Rounds of sampling, plans per round ``K``, and how many of them the next round is fitted to.
    horizon : int
        Steps per plan, ``H``.
    smoothing : float
        Weight in [0, 1) that keeps the fit from collapsing: of the uniform distribution for a
        finite set, of the previous mean and deviation for a box.
    ties : "earliest" or "published"
        See `cut_at_best`.
    """

    iterations: int = 3
    samples: int = 24
    elites: int = 6
    horizon: int = 15
    smoothing: float = 0.1
    ties: Ties = "earliest"
    name: ClassVar[str] = "cem"

    def __post_init__(self) -> None:
        check_counts(
            iterations=self.iterations,
            samples=self.samples,
            elites=self.elites,
            horizon=self.horizon,
        )
        check_ties(self.ties)
        if self.elites > self.samples:
            raise ValueError(f"elites must not exceed samples {self.samples}, got {self.elites}")
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing must lie in [0, 1), got {self.smoothing!r}")

    def plan(
        self,
        world_model: PlanningModel,
        latents: FloatArray,
        rngs: Sequence[np.random.Generator],
        remaining: IntArray,
    ) -> Plans:
        """Plan for ``N`` episodes; see `Planner.plan`."""
        sampler = _sampler(world_model.actions, self, len(latents))
        episodes = np.arange(len(latents))
        actions = np.empty((len(latents), self.horizon, world_model.actions.size))
        lengths = np.ones(len(latents), dtype=np.intp)
        lowest = np.full(len(latents), np.inf)
        for iteration in range(self.iterations):
            plans = sampler.draw(rngs)
            best, cuts = cut_at_best(
                score_plans(world_model, latents, plans), remaining, ties=self.ties
            )
            ranking = np.argsort(best, axis=1, kind="stable")
            top = ranking[:, 0]
            better = (best[episodes, top] < lowest) | (iteration == 0)
            lowest = np.where(better, best[episodes, top], lowest)
            lengths = np.where(better, cuts[episodes, top], lengths)
            actions[better] = plans[episodes, top][better]
            sampler.fit(ranking[:, : self.elites])
        return Plans(actions, lengths)


class _Sampler(Protocol):
    """A distribution over plans, one for each of ``N`` episodes."""

    def draw(self, rngs: Sequence[np.random.Generator]) -> FloatArray:
        """Sample plans [N, K, H, A]."""
        ...

    def fit(self, elites: IntArray) -> None:
        """Refit to the last draw's candidates of these indices [N, elites]."""
        ...


def _sampler(actions: ActionSpace, cem: CEM, episodes: int) -> _Sampler:
    """Return the sampler that suits the action space."""
    if isinstance(actions, FiniteActions):
        return _Categorical(actions, cem, episodes)
    return _Gaussian(actions, cem, episodes)


class _Categorical:
    """Independent categorical distributions over a finite action set, [N, H, M]."""

    def __init__(self, actions: FiniteActions, cem: CEM, episodes: int) -> None:
        count = len(actions.values)
        self._actions = actions
        self._cem = cem
        self._probabilities = np.full((episodes, cem.horizon, count), 1 / count)
        self._drawn = np.empty((episodes, cem.samples, cem.horizon), dtype=np.intp)

    def draw(self, rngs: Sequence[np.random.Generator]) -> FloatArray:
        unit = np.stack([rng.random((self._cem.samples, self._cem.horizon)) for rng in rngs])
        # Inverse distribution function; its last value is 1 and would only add rounding.
        upper = np.cumsum(self._probabilities, axis=-1)[:, None, :, :-1]
        self._drawn = (unit[..., None] >= upper).sum(axis=-1)
        return self._actions.values[self._drawn]

    def fit(self, elites: IntArray) -> None:
        chosen = np.take_along_axis(self._drawn, elites[:, :, None], axis=1)
        count = self._probabilities.shape[-1]
        frequency = (chosen[..., None] == np.arange(count)).mean(axis=1)
        smoothing = self._cem.smoothing
        self._probabilities = (1 - smoothing) * frequency + smoothing / count


class _Gaussian:
    """Independent Gaussians clipped to a box: means and deviations [N, H, A]."""

    def __init__(self, actions: BoxActions, cem: CEM, episodes: int) -> None:
        shape = (episodes, cem.horizon, actions.size)
        self._actions = actions
        self._cem = cem
        # Half the width: one deviation reaches both bounds.
        self._means = np.broadcast_to((actions.low + actions.high) / 2, shape).copy()
        self._deviations = np.broadcast_to((actions.high - actions.low) / 2, shape).copy()
        self._drawn = np.empty((episodes, cem.samples, *shape[1:]))

    def draw(self, rngs: Sequence[np.random.Generator]) -> FloatArray:
        shape = self._drawn.shape[1:]
        noise = np.stack([rng.standard_normal(shape) for rng in rngs])
        plans = self._means[:, None] + self._deviations[:, None] * noise
        self._drawn = np.clip(plans, self._actions.low, self._actions.high)
        return self._drawn

    def fit(self, elites: IntArray) -> None:
        chosen = np.take_along_axis(self._drawn, elites[:, :, None, None], axis=1)
        smoothing = self._cem.smoothing
        self._means = (1 - smoothing) * chosen.mean(axis=1) + smoothing * self._means
        self._deviations = (1 - smoothing) * chosen.std(axis=1) + smoothing * self._deviations

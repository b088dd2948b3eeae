"""Candidate plans: imagining them, cutting each at its best step, and keeping the best."""

from __future__ import annotations

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, PlanningModel, Plans
from pytest_cpg.planners.settings import Ties


def score_plans(world_model: PlanningModel, latents: FloatArray, plans: FloatArray) -> FloatArray:
    """Imagine every candidate: latents [N, Z], plans [N, K, H, A] to scores [N, K, H]."""
    episodes, candidates, horizon, size = plans.shape
    imagined = world_model.rollout(
        np.repeat(latents, candidates, axis=0),
        plans.reshape(episodes * candidates, horizon, size),
    )
    return world_model.score(imagined).reshape(episodes, candidates, horizon)


def cut_at_best(
    scores: FloatArray, remaining: IntArray, *, ties: Ties = "earliest"
) -> tuple[FloatArray, IntArray]:
    """Return the best score of each candidate [N, K] and the steps that lead there [N, K].

    Parameters
    ----------
    scores : array [N, K, H]
        Lower is better.
    remaining : array [N], int
        Steps past an episode's budget do not count.
    ties : "earliest" or "published"
        Of several best steps, the earliest is taken. The published rule starts from the last
        step's score and looks for a strictly better one, so the last step wins its ties.
    """
    horizon = scores.shape[-1]
    cap = np.minimum(remaining, horizon)
    if (cap < horizon).any():
        scores = np.where(np.arange(horizon) < cap[:, None, None], scores, np.inf)
    step = scores.argmin(axis=-1)
    best = np.take_along_axis(scores, step[..., None], axis=-1)[..., 0]
    lengths = step + 1
    if ties == "published":
        last = np.broadcast_to((cap - 1)[:, None, None], (*scores.shape[:2], 1))
        wins = np.take_along_axis(scores, last, axis=-1)[..., 0] == best
        lengths = np.where(wins, cap[:, None], lengths)
    return best, lengths


class BestPlans:
    """The best plan of each of ``N`` episodes that a search has seen.

    Attributes
    ----------
    actions : array [N, H, A]
    lengths : array [N], int
    """

    def __init__(self, episodes: int, horizon: int, size: int) -> None:
        self.actions = np.empty((episodes, horizon, size))
        self.lengths = np.ones(episodes, dtype=np.intp)
        self._lowest: FloatArray | None = None

    def offer(self, plans: FloatArray, costs: FloatArray, lengths: IntArray) -> IntArray:
        """Look at plans [N, K, H, A]; return the candidates from the best to the worst [N, K]."""
        ranking = np.argsort(costs, axis=1, kind="stable")
        episodes, top = np.arange(len(plans)), ranking[:, 0]
        cost = costs[episodes, top]
        better = np.ones(len(plans), dtype=bool) if self._lowest is None else cost < self._lowest
        self._lowest = np.where(better, cost, cost if self._lowest is None else self._lowest)
        self.lengths = np.where(better, lengths[episodes, top], self.lengths)
        self.actions[better] = plans[episodes, top][better]
        return ranking


def take(plans: FloatArray, candidates: IntArray) -> FloatArray:
    """Return some candidates [N, E] of plans [N, K, H, A]: [N, E, H, A]."""
    return np.take_along_axis(plans, candidates[:, :, None, None], axis=1)


def cheapest(plans: FloatArray, costs: FloatArray, lengths: IntArray) -> Plans:
    """Return the cheapest of candidates [N, K, H, A] for each episode, of equal ones the first."""
    episodes, best = np.arange(len(plans)), costs.argmin(axis=1)
    return Plans(plans[episodes, best], lengths[episodes, best])

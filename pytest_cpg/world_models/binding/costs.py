"""Costs: whole plans rated by a model's own cost, asked once for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Cost
from pytest_cpg.world_models.binding.bound import by_rows
from pytest_cpg.world_models.binding.callables import agree
from pytest_cpg.world_models.binding.conventions import ArrayFunction
from pytest_cpg.world_models.binding.rating import Rating
from pytest_cpg.world_models.binding.tile_sizes import together
from pytest_cpg.world_models.binding.tiling import method_of


class EpisodeCosts(Protocol):
    """An adapter of our own that is asked for the plans of an episode at once."""

    def episode_costs(self, latents: FloatArray, plans: FloatArray) -> FloatArray:
        """Map latents [N, Z] and plans [N, K, H, A] to costs [N, K]."""
        ...


def cost_of(
    learned: Any, latents: FloatArray, plans: FloatArray, *noise: FloatArray
) -> ArrayFunction | None:
    """Return what maps latents [N, Z], plans [N, K, H, A], lengths [N] and noise to costs [N, K].

    Checked on latents [P, Z] and plans [P, H, A]. None for a model that has no cost.
    """
    if has(learned, EpisodeCosts):
        whole = together(learned.episode_costs, (latents, plans[:, None]))
        return _of_lengths(lambda latents, plans, _: whole(latents, plans))
    if not has(learned, Cost):
        return None
    names = f", noise [B, H, {noise[0].shape[-1]}]" if noise else ""
    method = method_of(
        learned,
        "cost",
        latents,
        plans,
        *noise,
        shape=lambda latents, *_: latents.shape[:1],
        promise=f"cost(latents [B, Z], plans [B, H, A]{names}) -> costs [B]",
    )
    rows = by_rows(lambda latents, plans, _, *noise: method(latents, plans, *noise))
    return _of_lengths(rows)


def differs(
    cost: ArrayFunction,
    rating: Rating,
    latents: FloatArray,
    plans: FloatArray,
    imagined: FloatArray,
    *noise: FloatArray,
) -> bool:
    """Say whether a cost is another one than the score of a plan's last step."""
    if not rating.rates_steps:
        return True
    lengths = np.full(len(plans), plans.shape[1])
    drawn = (part[:, None] for part in noise)
    own = cost(latents, plans[:, None], lengths, *drawn)
    return not agree(own, rating.costs(rating.begun(latents), plans, imagined, lengths)[:, None])


def is_blind(
    cost: ArrayFunction, latents: FloatArray, plans: FloatArray, *noise: FloatArray
) -> bool:
    """Say whether a cost is one and the same for all of these plans [P, H, A], from any latent."""
    lengths, shape = np.full(len(latents), plans.shape[1]), (len(latents), len(plans))
    every = np.broadcast_to(plans, (len(latents), *plans.shape))
    drawn = (np.broadcast_to(part[:, None], (*shape, *part.shape[1:])) for part in noise)
    found = cost(latents, np.ascontiguousarray(every), lengths, *drawn)
    return bool((found == found[:, :1]).all())


def _of_lengths(cost: Callable[..., FloatArray]) -> ArrayFunction:
    """Return a cost of plans that end after some of their actions."""

    def costs(
        latents: FloatArray, plans: FloatArray, lengths: IntArray, *noise: FloatArray
    ) -> FloatArray:
        found = np.empty(plans.shape[:2])
        for length in np.unique(lengths):
            own = lengths == length
            ended, *drawn = (part[own][:, :, :length] for part in (plans, *noise))
            found[own] = cost(latents[own], ended, lengths[own], *drawn)
        return found

    return costs

"""Observer: what a model's latents look like from outside, for a policy that acts on it."""

from __future__ import annotations

from typing import Any

from pytest_cpg.contracts import FloatArray, Task, WorldModelError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Decoder
from pytest_cpg.world_models.binding.callables import adapt
from pytest_cpg.world_models.binding.conventions import ArrayFunction
from pytest_cpg.world_models.binding.rating import Rating
from pytest_cpg.world_models.binding.tiling import tiled


def observer_of(
    learned: Any, task: Task, rating: Rating, imagined: FloatArray
) -> ArrayFunction | None:
    """Return what maps a planner's latents [..., Z] to observations [..., O]; None without one.

    ``imagined`` [P, H, Z] are latents of the model's own to check with. A decoder that gives
    something else, such as pictures, is none: only what rates plans has to be usable.
    """
    # Latents that the task itself rates are observations.
    if not rating.swapped:
        return unchanged
    if not has(learned, Decoder):
        return None
    try:
        decode = adapt(
            learned.decode,
            imagined,
            shape=lambda latents: (*latents.shape[:-1], task.observation_size),
            promise=f"decode(latents [..., Z]) -> observations [..., {task.observation_size}]",
        )
    except WorldModelError:
        return None
    seen = tiled(decode, probe=(imagined,))
    return lambda latents: seen(rating.own(latents))


def unchanged(latents: FloatArray) -> FloatArray:
    """Return observations as they are."""
    return latents

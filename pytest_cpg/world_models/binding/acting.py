"""Acting: what a model's own policy would do, step by step in the world that it is asked in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pytest_cpg.contracts import ActionSpace, FloatArray, Task
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Policy
from pytest_cpg.world_models.binding.conventions import ArrayFunction, binds
from pytest_cpg.world_models.binding.tiling import method_of, tile_of
from pytest_cpg.world_models.binding.torch_state import is_elsewhere

# Rows per call on a processor: a planner asks for a few plans of each episode, and step by step.
_TILE = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Acting:
    """A model's policy, and one step of its dynamics to follow it by.

    Both are checked when they are first asked: most planners ask neither.

    Attributes
    ----------
    actions : ActionSpace
        What is possible; the nearest such action is taken.
    is_noisy : bool
        Whether the policy reads noise.
    act : callable
        Maps the model's own latents [B, Z] and noise [B, A] to actions [B, A].
    step : callable
        Maps the model's own latents [B, Z] and actions [B, A] to those after them [B, Z].
    """

    actions: ActionSpace
    is_noisy: bool
    act: ArrayFunction
    step: ArrayFunction

    def chosen(self, own: FloatArray, noise: FloatArray) -> FloatArray:
        """Return the possible actions [B, A] that the policy takes in latents [B, Z]."""
        return self.actions.nearest(self.act(own, noise))

    def followed(self, own: FloatArray, noise: FloatArray) -> FloatArray:
        """Return what the policy does from latents [B, Z] on, with noise [B, H, A]: [B, H, A]."""
        plans = np.empty(noise.shape)
        for step in range(noise.shape[1]):
            if step:
                own = self.step(own, plans[:, step - 1])
            plans[:, step] = self.chosen(own, noise[:, step])
        return plans


def acting_of(
    learned: Any, task: Task, latents: FloatArray, actions: FloatArray, noise_size: int
) -> Acting | None:
    """Return how a model's policy is followed, checked on these rows; None of one without."""
    if not has(learned, Policy):
        return None
    size, is_noisy = task.actions.size, binds(learned.policy, 1) is False
    drawn = [np.random.default_rng(0).standard_normal(actions.shape)] if is_noisy else []
    names = f", noise [B, {size}]" if is_noisy else ""
    rows = tile_of(learned) if is_elsewhere(learned) else _TILE
    act = _once(
        lambda: method_of(
            learned,
            "policy",
            latents,
            *drawn,
            shape=lambda given, *_: (len(given), size),
            promise=f"policy(latents [B, Z]{names}) -> actions [B, {size}]",
            rows=rows,
        )
    )
    # What is most likely is what a stochastic model imagines of the noise 0.
    still = [np.zeros((len(latents), 1, noise_size))] if noise_size else []
    rollout = _once(
        lambda: method_of(
            learned,
            "rollout",
            latents,
            actions[:, None],
            *still,
            shape=lambda given, *_: (len(given), 1, given.shape[1]),
            promise="rollout(latents [B, Z], actions [B, 1, A]) -> latents [B, 1, Z]",
            rows=rows,
        )
    )

    def step(own: FloatArray, actions: FloatArray) -> FloatArray:
        silent = [np.zeros((len(own), 1, noise_size))] if noise_size else []
        return rollout(own, actions[:, None], *silent)[:, 0]

    return Acting(
        actions=task.actions,
        is_noisy=is_noisy,
        act=act if is_noisy else lambda own, _: act(own),
        step=step,
    )


def _once(make: Callable[[], ArrayFunction]) -> ArrayFunction:
    """Return a function that is made when it is first called."""
    made = cache(make)
    return lambda *arrays: made()(*arrays)

"""Members: several dynamics of a user's own, each stepping its own rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Reward
from pytest_cpg.world_models.binding.callables import adapt, adapt_dynamics
from pytest_cpg.world_models.binding.conventions import ArrayFunction, describe
from pytest_cpg.world_models.binding.ensemble import Ensemble
from pytest_cpg.world_models.binding.rating import reads_both_ends
from pytest_cpg.world_models.ensembles.rollout import Step, Stepped


def dynamics_step(ensemble: Ensemble, observations: FloatArray, actions: FloatArray) -> Step:
    """Return the step of several dynamics, each for its own rows, and their rewards.

    Raises WorldModelError, naming the member that is not usable, or has no reward.

    Parameters
    ----------
    observations, actions : array [P, O], array [P, A]
        Rows to verify each member with.
    """
    steps, rewards = [], []
    for number, member in enumerate(ensemble.members):
        try:
            dynamics = adapt_dynamics(member, observations, actions)
            rewards.append(_reward_of(ensemble, number, dynamics.step, observations, actions))
        except WorldModelError as error:
            raise WorldModelError(f"member {number} of the Ensemble: {error}") from error.__cause__
        steps.append(dynamics.step)

    def step(before: FloatArray, taken: FloatArray) -> Stepped:
        after = np.stack([one(*row) for one, *row in zip(steps, before, taken, strict=True)])
        rows = zip(rewards, before, taken, after, strict=True)
        return Stepped(after, np.stack([reward(*row) for reward, *row in rows]))

    return step


def _reward_of(
    ensemble: Ensemble,
    number: int,
    step: ArrayFunction,
    observations: FloatArray,
    actions: FloatArray,
) -> ArrayFunction:
    """Return the rewards of a member's steps: the ensemble's function, or its own."""
    member = ensemble.members[number]
    if ensemble.reward is None and not has(member, Reward):
        raise WorldModelError(
            f"{describe(member)} predicts no rewards, and returns are sums of rewards. Write "
            f"Ensemble([...], reward=function), called with observations [B, O], actions [B, A] "
            f"and next observations [B, O], or give each member a reward."
        )
    own: Callable[..., Any] = member.reward if ensemble.reward is None else ensemble.reward
    takes_all = reads_both_ends(own)
    probe = (observations, actions, step(observations, actions))
    head = adapt(
        own,
        *probe[: 3 if takes_all else 2],
        shape=lambda before, *_: before.shape[:1],
        promise="reward(observations [B, O], actions [B, A], next observations [B, O]) -> [B]",
    )
    return head if takes_all else lambda before, taken, _: head(before, taken)

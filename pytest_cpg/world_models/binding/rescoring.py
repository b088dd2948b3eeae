"""Rescoring: the true dynamics, with plans rated as a learned model rates its own.

What is lost with it against the oracle is lost by the model's encoder and score; what the model
loses beyond that, by its dynamics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray, Task, WorldModelError
from pytest_cpg.world_models.binding.bound import BoundModel, LatentModel
from pytest_cpg.world_models.binding.rating import by_rows


@dataclass(frozen=True, slots=True)
class Rescored:
    """Stands for the true dynamics, rated as a learned model rates: `bind` makes them of it."""

    learned: Any


def learned_of(model: Any) -> Any:
    """Return the learned model behind a `Rescored`, or the model itself."""
    return model.learned if isinstance(model, Rescored) else model


def witness(model: LatentModel, task: Task, state_size: int) -> BoundModel:
    """Return the true dynamics of a task, seen and rated as a model does what it imagines.

    Latents are simulator states with the model's own behind them. The model encodes every true
    observation on the way; one with memory carries it along. A diverged state rates as infinity.
    """
    rating = model.rating

    def joined(states: FloatArray, own: FloatArray) -> FloatArray:
        return np.concatenate([states, rating.begun(own)], axis=1)

    def update(latents: FloatArray, actions: FloatArray, states: FloatArray) -> FloatArray:
        own = rating.own(latents[:, state_size:])
        return joined(states, model.update(own, actions, states))  # type: ignore[misc]

    def imagined(
        latents: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return states [B, H, S], those that a model can be asked about, and which cannot."""
        states = np.ascontiguousarray(latents[:, :state_size])
        reached = task.rollout(states, actions)
        finite = np.isfinite(task.observe(reached)).all(axis=-1)
        lost = ~np.logical_and.accumulate(finite, axis=1)
        return reached, np.where(lost[..., None], states[:, None], reached), lost

    def followed(own: FloatArray, actions: FloatArray, states: FloatArray) -> FloatArray:
        """Return the model's latents [B, H, Z] along true states [B, H, S], from its own [B, Z]."""
        if model.update is None:
            flat = model.encode(states.reshape(-1, states.shape[-1]))
            reached = flat.reshape(*states.shape[:2], -1)
        else:
            reached = np.empty((*states.shape[:2], own.shape[1]))
            for step in range(states.shape[1]):
                own = model.update(own, actions[:, step], np.ascontiguousarray(states[:, step]))
                reached[:, step] = own
        _check(reached, "the model's encode" if model.update is None else "the model's update")
        return reached

    def rollout(latents: FloatArray, actions: FloatArray) -> FloatArray:
        reached, askable, lost = imagined(latents, actions)
        rated = latents[:, state_size:]
        own = followed(rating.own(rated), actions, askable)
        along = np.where(lost[..., None], np.nan, rating.along(rated, actions, own))
        return np.concatenate([reached, along], axis=2)

    def costs(latents: FloatArray, actions: FloatArray, lengths: IntArray) -> FloatArray:
        _, askable, lost = imagined(latents, actions)
        rows, rated = np.arange(len(lengths)), latents[:, state_size:]
        own, is_lost = rating.own(rated), lost[rows, lengths - 1]
        if model.update is None and rating.reward is None:
            # Nothing on the way is seen or rated.
            askable, lengths = askable[rows, lengths - 1][:, None], np.ones_like(lengths)
        scores = rating.costs(rated, actions, followed(own, actions, askable), lengths)
        _check(np.where(is_lost, 0.0, scores), "the model's rating")
        return np.where(is_lost, np.inf, scores)

    def policy_plans(latents: FloatArray, noise: FloatArray) -> FloatArray:
        begun, plans = rating.own(latents[:, state_size:]), np.empty(noise.shape)
        own = begun
        for step in range(noise.shape[1]):
            if step:
                # From the start each time: see `Task.rollout` on what can be gone on from.
                _, askable, _ = imagined(latents, plans[:, :step])
                own = followed(begun, plans[:, :step], askable)[:, -1]
            plans[:, step] = model.acting.chosen(own, noise[:, step])  # type: ignore[union-attr]
        _check(plans, "the model's policy")
        return plans

    def score(latents: FloatArray) -> FloatArray:
        rated = latents[..., state_size:]
        lost = np.isnan(rated).any(axis=-1)
        scores = rating.scores(np.where(np.expand_dims(lost, -1), 0.0, rated))
        _check(np.where(lost, 0.0, scores), "the model's rating")
        return np.where(lost, np.inf, scores)

    return BoundModel(
        actions=task.actions,
        swapped=rating.swapped,
        may_diverge=True,
        encode=lambda states: joined(states, model.encode(states)),
        imagine=rollout,
        score=score,
        costs=by_rows(costs),
        update=update if model.update else None,
        policy_plans=policy_plans if model.acting else None,
        has_noisy_policy=model.acting is not None and model.acting.is_noisy,
        observe=lambda latents: task.observe(np.ascontiguousarray(latents[..., :state_size])),
        witness=witness(replace(model, update=None), task, state_size) if model.update else None,
    )


def _check(values: FloatArray, what: str) -> None:
    """Raise WorldModelError for numbers that a model made of true states and that are none."""
    broken = ~np.isfinite(values)
    if broken.any():
        raise WorldModelError(
            f"{what} gave {values[broken][0]} for observations of the true dynamics. A model that "
            f"gives NaN or infinity cannot be planned with: look for diverged training or a "
            f"missing normalisation."
        )

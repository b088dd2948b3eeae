"""Plan gradients: how a plan's scores change with its actions, through a torch model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, Task
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Rollout
from pytest_cpg.world_models.binding.callables import agree
from pytest_cpg.world_models.binding.conventions import ArrayFunction, Failure, attempt, probe_plans
from pytest_cpg.world_models.binding.rating import behind, discount_of, reads_both_ends
from pytest_cpg.world_models.binding.tiling import tiled
from pytest_cpg.world_models.binding.torch_state import inference, place_of

# Of a task's score, which is numpy: relative to a coordinate, and absolute below 1.
_DIFFERENCE = 1e-5


class PlanGradient:
    """The gradient of a learned model's plans, once it is asked for.

    Torch differentiates the dynamics and the model's own score, decoder or rewards; the task's
    score is differentiated by central differences in what is observed. Whether that can be done is
    found out by doing it: a model that leaves torch, detaches its tensors or predicts otherwise
    than it does in its arm has no gradient. ``rate`` maps latents [B, Z] and actions [B, H, A] to
    the scores of the arm [B, H]; latents [P, Z] and actions [P, A] are rows to find out with.
    """

    def __init__(
        self,
        learned: Any,
        task: Task,
        rate: ArrayFunction,
        latents: FloatArray,
        actions: FloatArray,
        *,
        swapped: tuple[str, ...],
    ) -> None:
        self._learned, self._task, self._rate, self._swapped = learned, task, rate, swapped
        self._is_own = "score" in swapped or "reward" in swapped
        self._probe = latents, probe_plans(actions)

    @cached_property
    def function(self) -> ArrayFunction | None:
        """What maps latents [B, Z], actions [B, H, A] and weights [B, H] to gradients [B, H, A].

        They are those of the scores' sum by weights. None where the model has none.
        """
        if "torch" not in sys.modules:
            return None
        ways: list[Callable[..., Any]] = []
        if has(self._learned, Rollout):
            ways.append(self._learned.rollout)
        if callable(self._learned):
            ways.append(self._step_by_step)
        with inference(self._learned):
            expected = self._rate(*self._probe)
            for imagine in ways:
                scores = attempt(partial(self._scores, imagine), *self._probe)
                if isinstance(scores, Failure) or scores.shape != expected.shape:
                    continue
                if not agree(scores.reshape(-1, 1), expected.reshape(-1, 1), tolerance=1e-4):
                    continue
                gradients = partial(self._gradients, imagine)
                weights = np.ones(expected.shape)
                if not isinstance(attempt(gradients, *self._probe, weights), Failure):
                    return tiled(gradients)
        return None

    def _step_by_step(self, latents: Any, plans: Any) -> Any:
        reached = []
        for actions in plans.unbind(1):
            latents = self._learned(latents, actions)
            reached.append(latents)
        return sys.modules["torch"].stack(reached, 1)

    def _scores(
        self, imagine: Callable[..., Any], latents: FloatArray, actions: FloatArray
    ) -> FloatArray:
        """Rate plans as the arm does, [B, H]."""
        _, reached = self._forward(imagine, latents, actions)
        values = np.asarray(reached.detach().cpu().double().numpy())
        return values if self._is_own else self._task_scores(values)

    def _gradients(
        self,
        imagine: Callable[..., Any],
        latents: FloatArray,
        actions: FloatArray,
        weights: FloatArray,
    ) -> FloatArray:
        torch = sys.modules["torch"]
        plans, reached = self._forward(imagine, latents, actions)
        if not self._is_own:
            observed = np.asarray(reached.detach().cpu().double().numpy())
            weights = weights[..., None] * self._score_slopes(observed)
        with torch.inference_mode(mode=False), torch.enable_grad():
            upstream = torch.tensor(weights, dtype=reached.dtype, device=reached.device)
            # Given beside it, torch would import sympy to compare two shapes: a second.
            (gradient,) = torch.autograd.grad((reached * upstream).sum(), plans)
        # A kink where nothing is differentiable, such as a root at 0, says nothing of the way.
        slopes = np.asarray(gradient.cpu().double().numpy())
        return np.where(np.isfinite(slopes), slopes, 0.0)

    def _forward(
        self, imagine: Callable[..., Any], latents: FloatArray, actions: FloatArray
    ) -> tuple[Any, Any]:
        """Return the plans as a tensor and, from them, scores [B, H] or observations [B, H, O]."""
        torch, learned = sys.modules["torch"], self._learned
        with torch.inference_mode(mode=False), torch.enable_grad():
            place = place_of(learned)
            plans = torch.tensor(actions, **place, requires_grad=True)
            begun = torch.tensor(latents, **place)
            end = begun.shape[1] - behind(self._swapped)
            reached = imagine(begun[:, :end], plans)
            if "reward" in self._swapped:
                return plans, self._by_rewards(begun, plans, reached)
            if "score" in self._swapped:
                return plans, learned.score(reached)
            return plans, learned.decode(reached) if "decoder" in self._swapped else reached

    def _by_rewards(self, begun: Any, plans: Any, reached: Any) -> Any:
        """Return scores [B, H] as `Rating.scores` has them."""
        torch, learned = sys.modules["torch"], self._learned
        end = reached.shape[-1]
        earned, weight = begun[:, end : end + 1], begun[:, end + 1 : end + 2]
        before = torch.cat([begun[:, None, :end], reached[:, :-1]], 1)
        rewards = learned.reward(before, plans, *[reached] * reads_both_ends(learned.reward))
        steps = torch.arange(plans.shape[1] + 1, dtype=begun.dtype, device=begun.device)
        weights = weight * discount_of(learned) ** steps
        own_rewards = weights[:, :-1] * rewards
        if "value" not in self._swapped:
            return -own_rewards
        total = earned + torch.cumsum(own_rewards, 1)
        value = learned.terminal_value(reached.reshape(-1, end))
        return -(total + weights[:, 1:] * value.reshape(total.shape))

    def _task_scores(self, observations: FloatArray) -> FloatArray:
        return np.asarray(self._task.score(observations), dtype=np.float64)

    def _score_slopes(self, observations: FloatArray) -> FloatArray:
        """Return the task's score differentiated by each number observed, [B, H, O]."""
        slopes = np.empty(observations.shape)
        for number in range(observations.shape[-1]):
            step = _DIFFERENCE * np.maximum(1.0, np.abs(observations[..., number]))
            above, below = observations.copy(), observations.copy()
            above[..., number] += step
            below[..., number] -= step
            width = above[..., number] - below[..., number]
            slopes[..., number] = (self._task_scores(above) - self._task_scores(below)) / width
        return slopes

"""stable-worldmodel: models that rate whole plans, made into ones that imagine them step by step.

Such a model has ``get_cost(info, candidates [B, K, H, A]) -> [B, K]``, or ``rollout(info,
candidates)`` that adds what it predicts [B, K, T, D] to ``info``. The library is not imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.world_models.binding.tensors import Tensor, torch

# Maps observations [B, O] to what the model reads of them, [B, ...] each.
Info: TypeAlias = Callable[[Tensor], Mapping[str, Tensor]]


class StableWorldModel:
    """A model that gives the cost of a plan, or predicts what it leads to.

    A cost rates each step of a plan: up to there. A prediction is decoded, and the task rates it.
    Neither is of a state that no plan led to, so there is no third arm, which rates true ones.
    A latent [Z] is the observation [O] that a plan began with, how many actions were taken, and
    room for ``longest`` of them [A].

    Parameters
    ----------
    model : object with ``get_cost``, or with ``rollout``
    action_size : int
        Numbers in one action, ``A``.
    info : callable or str
        Maps observations [B, O] to what the model reads, goals included; or the key it reads the
        observation itself under.
    longest : int
        The longest plan, in actions.
    predicted : str, optional
        Rate plans by what `rollout` writes here [B, K, T, D], its last one, and not by their cost.
    decode : callable, optional
        Maps predictions [B, D] to observations [B, O]; without it, they are observations.
    """

    rates_states = False

    def __init__(
        self,
        model: Any,
        *,
        action_size: int,
        info: Info | str = "state",
        longest: int = 32,
        predicted: str | None = None,
        decode: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        needed = "get_cost" if predicted is None else "rollout"
        if not callable(getattr(model, needed, None)):
            cure = " Name what its rollout predicts: predicted=." if predicted is None else ""
            raise WorldModelError(
                f"{type(model).__name__!r} has no {needed}(info, candidates).{cure}"
            )
        self._model, self._action_size, self._longest = model, action_size, longest
        self._info, self._predicted, self._decoder = info, predicted, decode
        if predicted is None:
            self.score = self._cost
        else:
            self.decode = self._ends

    def encode(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O] to latents [B, Z]."""
        given = np.asarray(observations, dtype=np.float64)
        room = 1 + self._longest * self._action_size
        return np.concatenate([given, np.zeros((len(given), room))], axis=1)

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        current, imagined = np.array(latents, dtype=np.float64), []
        first = current.shape[1] - self._longest * self._action_size
        rows = np.arange(len(current))[:, None]
        for action in np.moveaxis(np.asarray(actions, dtype=np.float64), 1, 0):
            taken = current[:, first - 1].astype(int)
            if (taken >= self._longest).any():
                raise WorldModelError(
                    f"a plan has more than {self._longest} actions. Give longest= as much as the "
                    f"horizon of the planner."
                )
            columns = first + taken[:, None] * self._action_size + np.arange(self._action_size)
            current[rows, columns] = action
            current[:, first - 1] += 1
            imagined.append(current.copy())
        return np.stack(imagined, axis=1)

    def _cost(self, latents: FloatArray) -> FloatArray:
        """Rate latents [..., Z] by the cost of the plans that led there [...]."""
        return self._asked(latents, self._model.get_cost)[..., 0]

    def _ends(self, latents: FloatArray) -> FloatArray:
        """Map latents [..., Z] to the observations [..., O] that plans are predicted to end in."""
        return self._asked(latents, self._last)

    def _last(self, info: dict[str, Tensor], plans: Tensor) -> Tensor:
        said = self._model.rollout(info, plans)
        if self._predicted not in said:
            raise WorldModelError(
                f"rollout gave {', '.join(said)} and no {self._predicted!r}. Name what it "
                f"predicts: predicted=."
            )
        ends: Tensor = said[self._predicted][:, 0, -1]
        return self._decoder(ends) if self._decoder else ends

    def _asked(
        self, latents: FloatArray, ask: Callable[[dict[str, Tensor], Tensor], Tensor]
    ) -> FloatArray:
        """Ask the model about the plan behind each latent [..., Z]; its answers [..., D].

        Every call has all rows of one place in the plan, so that none depends on other plans.
        """
        given = np.asarray(latents, dtype=np.float64)
        places = np.moveaxis(given.reshape(len(given), -1, given.shape[-1]), 1, 0)
        answers = np.stack([self._at_one_place(rows, ask) for rows in places], axis=1)
        return answers.reshape(*given.shape[:-1], -1)

    def _at_one_place(
        self, rows: FloatArray, ask: Callable[[dict[str, Tensor], Tensor], Tensor]
    ) -> FloatArray:
        first = rows.shape[1] - self._longest * self._action_size
        taken = rows[:, first - 1].astype(int)
        if not taken.all():
            raise WorldModelError("a plan without actions cannot be rated by this model")
        own = next(iter(getattr(self._model, "parameters", list)()), torch.zeros(0))
        there = torch.tensor(rows, dtype=own.dtype, device=own.device)
        plans = there[:, first:].reshape(len(rows), 1, self._longest, self._action_size)
        answers: FloatArray = np.empty(0)
        for count in np.unique(taken):
            # The model may write to it.
            info = {k: v[:, None].clone() for k, v in self._read(there[:, : first - 1]).items()}
            with torch.inference_mode():
                found = ask(info, plans[:, :, :count].clone()).double().cpu().numpy()
            found = found.reshape(len(rows), -1)
            is_here = (taken == count)[:, None]
            answers = np.where(is_here, found, answers if answers.size else found)
        return answers

    def _read(self, observations: Tensor) -> Mapping[str, Tensor]:
        if callable(self._info):
            return self._info(observations)
        return {self._info: observations}

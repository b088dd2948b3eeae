"""Sampled ensemble: Gaussian dynamics of several members, of which a plan takes one at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.binding.conventions import describe
from pytest_cpg.world_models.binding.ensemble import equal_parts

Propagation: TypeAlias = Literal["TS1", "TSinf"]


class SampledEnsemble:
    """A vectorised ensemble with means and variances, as one stochastic world model.

    A row goes on from a draw of one member's Gaussian (Chua et al. 2018, section 5). All that is
    random is noise from the episode's own stream.

    Parameters
    ----------
    predict : callable
        Maps observations [B, O] and actions [B, A] to means and variances of the next observations,
        [E, B, O] each, for ``E`` members; numpy arrays or torch tensors.
    members : int
        How many there are.
    observation_size : int
        Numbers in one observation, ``O``.
    propagation : "TS1" or "TSinf"
        Draw the member anew at every step, or once for a whole plan.
    """

    def __init__(
        self,
        predict: Callable[[Any, Any], tuple[Any, Any]],
        *,
        members: int,
        observation_size: int,
        propagation: Propagation = "TSinf",
    ) -> None:
        if propagation not in get_args(Propagation):
            raise ValueError(
                f"propagation must be one of {get_args(Propagation)}, got {propagation!r}"
            )
        if not callable(predict):
            raise ValueError(
                f"predict must map observations and actions to means and variances, got {predict!r}"
            )
        for name, count in (("members", members), ("observation_size", observation_size)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {count!r}")
        self.predict, self.members, self.propagation = predict, members, propagation
        self.observation_size = observation_size
        self._bounds = np.array(equal_parts(members))

    def __repr__(self) -> str:
        return f"SampledEnsemble({self.members} members, {self.propagation})"

    @property
    def noise_size(self) -> int:
        """Numbers that it reads in each step: one for the member, the others for its Gaussian."""
        return 1 + self.observation_size

    def rollout(self, latents: Any, actions: Any, noise: Any) -> Any:
        """Map observations [B, O], actions [B, H, A] and noise to those after each action."""
        torch = sys.modules.get("torch")
        is_tensor = torch is not None and isinstance(latents, torch.Tensor)
        # A tensor's numbers are found by numpy on a processor alone.
        drawn = np.asarray(noise[..., 0].cpu() if is_tensor else noise[..., 0])
        if self.propagation == "TSinf":
            drawn = np.repeat(drawn[:, :1], drawn.shape[1], axis=1)
        chosen, rows = np.searchsorted(self._bounds, drawn), np.arange(len(drawn))
        reached = []
        for step in range(drawn.shape[1]):
            means, variances = self._predicted(latents, actions[:, step])
            own = (chosen[:, step], rows)
            latents = means[own] + variances[own] ** 0.5 * noise[:, step, 1:]
            reached.append(latents)
        return torch.stack(reached, 1) if torch and is_tensor else np.stack(reached, axis=1)

    def _predicted(self, observations: Any, actions: Any) -> tuple[Any, Any]:
        """Return means and variances [E, B, O], or raise WorldModelError."""
        found = self.predict(observations, actions)
        expected = (self.members, *observations.shape)
        is_pair = isinstance(found, tuple | list) and len(found) == 2
        came = [tuple(np.shape(part)) for part in found] if is_pair else type(found).__name__
        if came != [expected, expected]:
            raise WorldModelError(
                f"{describe(self.predict)} gave {came}: return means and variances, {expected} each"
            )
        return found[0], found[1]

"""TorchRL: world models and their environments, driven through the keys of their tensordicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.contracts.errors import needs_extra
from pytest_cpg.world_models.binding.tensors import Tensor, on_arrays, torch

with needs_extra("torchrl", "tensordict", what="models of TorchRL need tensordict"):
    from tensordict import TensorDict


class TorchRLModel(torch.nn.Module):
    """A `WorldModel` or `WorldModelWrapper` of TorchRL, or an environment around one.

    It plans with the reward that the model writes, where there is a key for it; without, latents
    are decoded where there is a decoder, and else are observations.

    Parameters
    ----------
    model : module on tensordicts, or an environment with a ``world_model``
        It may have ``encode``; its ``step``, or it itself, is one step.
    latents : mapping or str
        Key to size of each part of the state that a step reads and writes, [B, size]; a single one
        needs no size.
    observation, action, reward : str
        Further keys; ``reward=None`` for a model without one.
    decoded : str, optional
        Key of what the model's ``decode`` writes.
    """

    def __init__(
        self,
        model: Any,
        *,
        latents: Mapping[str, int] | str = "latent",
        observation: str = "observation",
        action: str = "action",
        reward: str | None = "reward",
        decoded: str | None = None,
        discount: float = 1.0,
    ) -> None:
        super().__init__()
        # WorldModelEnv keeps the whole model under a name of its own, and its step as world_model.
        inner = getattr(model, "_world_model", None) or getattr(model, "world_model", model)
        self._model = inner
        self._sizes = {latents: None} if isinstance(latents, str) else dict(latents)
        self._observation, self._action = observation, action
        self._reward, self._decoded = reward, decoded
        self.discount = discount
        if reward is not None:
            self.reward = self._rewarded
        elif decoded is not None:
            self.decode = self._decode

    @on_arrays
    def encode(self, observations: Tensor) -> Tensor:
        """Map observations [B, O] to latents [B, Z]."""
        if not hasattr(self._model, "encode"):
            return observations
        inputs = TensorDict({self._observation: observations}, batch_size=observations.shape[:1])
        return self._joined(self._model.encode(inputs))

    @on_arrays
    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        imagined = []
        for action in actions.unbind(dim=1):
            latents = self._joined(self._stepped(latents, action))
            imagined.append(latents)
        return torch.stack(imagined, dim=1)

    @on_arrays
    def _rewarded(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Predict the reward [...] of actions [..., A] taken in latents [..., Z]."""
        after = self._stepped(latents.flatten(0, -2), actions.flatten(0, -2))
        return _written(after, str(self._reward)).reshape(latents.shape[:-1])

    @on_arrays
    def _decode(self, latents: Tensor) -> Tensor:
        """Map latents [..., Z] to observations [..., O]."""
        rows = latents.flatten(0, -2)
        inputs = TensorDict(self._parts(rows), batch_size=rows.shape[:1])
        decoded = _written(self._model.decode(inputs), str(self._decoded))
        return decoded.reshape(*latents.shape[:-1], -1)

    def _stepped(self, latents: Tensor, actions: Tensor) -> Any:
        inputs = {**self._parts(latents), self._action: actions}
        step = getattr(self._model, "step", self._model)
        return step(TensorDict(inputs, batch_size=latents.shape[:1]))

    def _parts(self, latents: Tensor) -> dict[str, Tensor]:
        if len(self._sizes) == 1:
            return dict.fromkeys(self._sizes, latents)
        sizes = [size or 0 for size in self._sizes.values()]
        return dict(zip(self._sizes, torch.split(latents, sizes, dim=-1), strict=True))

    def _joined(self, output: Any) -> Tensor:
        return torch.cat([_written(output, key) for key in self._sizes], dim=-1)


def _written(output: Any, key: str) -> Tensor:
    """Return what a model wrote: of the next step where it says so."""
    for place in (("next", key), key):
        value = output.get(place, None)
        if value is not None:
            return value  # type: ignore[no-any-return]  # a tensor, of a library without types
    raise WorldModelError(
        f"the model wrote no {key!r}, only {sorted(map(str, output.keys(include_nested=True)))}. "
        f"Name its keys: TorchRLModel(model, latents=..., reward=...)."
    )

"""Decoded: a latent model whose plans the task rates, by observations that are decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import Memory
from pytest_cpg.world_models.binding.tensors import Tensor, on_arrays, torch
from pytest_cpg.world_models.binding.tiling import is_thread_safe
from pytest_cpg.world_models.binding.torch_state import one_torch_thread, place_of

_ROWS, _RATE, _STILL = 256, 2e-3, 1e-6
_RATED = (
    "plans are rated by what a network reads from the model's latents: it leaves {:.0f} % of the "
    "variance of observations that it was not fitted on"
)


class Decoded(torch.nn.Module):
    """A model in its own latents, without the rewards and values that it may have.

    So the dynamics and the decoder are swapped, and nothing else.

    Parameters
    ----------
    model : torch module with ``encode`` and ``rollout``, and ``update`` if it has a memory
    decoder : callable, optional
        Maps latents [..., Z] to observations [..., O]; by default the model's own ``decode``.
    """

    def __init__(self, model: Any, decoder: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.model = model
        left = getattr(decoder, "unread", None)
        #: What a reader of the result has to know.
        self.note = _RATED.format(100 * left) if left is not None else ""
        self.decoder = model.decode if decoder is None else decoder
        self._has_own_decoder = decoder is None
        if has(model, Memory):
            self.update = model.update

    @property
    def thread_safe(self) -> bool:
        """Whether several threads may ask at once; nothing is known of another's decoder."""
        return self._has_own_decoder and is_thread_safe(self.model)

    def encode(self, observations: Any) -> Any:
        """Map observations [B, O] to latents [B, Z]."""
        return self.model.encode(observations)

    def rollout(self, latents: Any, actions: Any) -> Any:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        return self.model.rollout(latents, actions)

    @on_arrays
    def decode(self, latents: Tensor) -> Tensor:
        """Map latents [..., Z] to observations [..., O]."""
        return self.decoder(latents)


def fit_decoder(
    model: Any,
    observations: FloatArray,
    *,
    seed: int,
    frames: npt.NDArray[np.uint8] | None = None,
    hidden: int = 256,
    steps: int = 1000,
) -> torch.nn.Sequential:
    """Return a network that maps latents to the observations [T, O] they were encoded from.

    For models that are stored without a decoder: two hidden layers, by Adam on the squared error
    in units of each column's deviation. Of a model that sees pictures, latents are those of the
    ``frames`` [T, F, H, W, C], and ``unread`` of the network is the share of the variance that it
    leaves of every tenth observation, which it is then not fitted on.
    """
    generator = torch.Generator().manual_seed(seed)
    seen = observations if frames is None else frames
    parts = [model.encode(seen[row : row + _ROWS]) for row in range(0, len(seen), _ROWS)]
    latents = torch.cat([torch.as_tensor(part, dtype=torch.float32) for part in parts])
    targets = torch.tensor(np.asarray(observations), dtype=torch.float32)
    is_held = torch.arange(len(latents)) % 10 == (9 if frames is not None else -1)
    held, answers = latents[is_held], targets[is_held]
    latents, targets = latents[~is_held], targets[~is_held]
    mean, scale = targets.mean(dim=0), targets.std(dim=0).clamp(min=_STILL)
    network = torch.nn.Sequential(
        _linear(latents.shape[1], hidden, generator),
        torch.nn.SiLU(),
        _linear(hidden, hidden, generator),
        torch.nn.SiLU(),
        _linear(hidden, targets.shape[1], generator),
    )
    with one_torch_thread(), torch.inference_mode(mode=False), torch.enable_grad():
        optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(steps):
            rows = torch.randint(len(latents), (_ROWS,), generator=generator)
            error = network(latents[rows]) - (targets[rows] - mean) / scale
            optimiser.zero_grad()
            torch.autograd.backward(error.square().mean())
            optimiser.step()
            schedule.step()
    last: Any = network[-1]
    with torch.no_grad():
        last.weight.mul_(scale[:, None])
        last.bias.mul_(scale).add_(mean)
    fitted: Any = network
    if len(held):
        moves = answers.std(dim=0) > _STILL
        with torch.no_grad():
            off = (network(held) - answers)[:, moves] / answers.std(dim=0)[moves]
        fitted.unread = float(off.square().mean())
    # Latents are of the model's precision.
    return network.to(place_of(model)["dtype"]).eval().requires_grad_(requires_grad=False)


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> torch.nn.Linear:
    linear = torch.nn.Linear(inputs, outputs)
    bound = inputs**-0.5
    with torch.no_grad():
        linear.weight.uniform_(-bound, bound, generator=generator)
        linear.bias.uniform_(-bound, bound, generator=generator)
    return linear

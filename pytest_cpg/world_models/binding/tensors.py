"""Tensors: torch itself, and how arrays reach a network's own device and come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray
from pytest_cpg.contracts.errors import needs_extra
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import TerminalValue
from pytest_cpg.world_models.binding.conventions import ArrayFunction
from pytest_cpg.world_models.binding.rating import reads_both_ends
from pytest_cpg.world_models.binding.tiling import tile_of
from pytest_cpg.world_models.binding.torch_state import place_of

with needs_extra("torch", "torch", what="this world model needs torch"):
    import torch as torch  # exported: other modules take torch from here, and this message

Tensor: TypeAlias = torch.Tensor


def on_arrays(method: Callable[..., Tensor]) -> Callable[..., Any]:
    """Return a module's method on tensors [B, ...] as one that takes numpy arrays as well.

    Tensors give a tensor, as they are. Arrays travel once to the module's own device and number
    type, are worked on in tiles of `tile_of` rows, and come back once, as float64.
    """

    @wraps(method)
    def call(module: torch.nn.Module, *values: Any) -> Any:
        if all(isinstance(value, Tensor) for value in values):
            return method(module, *values)
        place = place_of(module)
        with torch.inference_mode():
            # Copied: torch's own memory is aligned, and kernels round by alignment.
            there = [torch.tensor(np.asarray(value), **place) for value in values]
            rows = tile_of(module)
            result = _in_tiles(lambda *tile: method(module, *tile), there, rows=rows)
            # numpy has no bfloat16; double holds each of its numbers exactly.
            return result.double().cpu().numpy()

    return call


def plans_there(learned: Any) -> ArrayFunction | None:
    """Return what imagines and rates plans on a torch module's own device, in tiles of its own.

    It maps latents [N, Z], plans [N, K, H, A] and noise to the latents, rewards and, if it has
    them, values of every step [N * K, H, Z + 1 or 2]. With ``lengths`` [N] it gives the rewards of
    each plan and the value of the last of so many steps behind them, [N * K, H or H + 1]: NaN of
    plans that led anywhere infinite. None for what is no module with weights of its own.
    """
    weight = _own_of(learned)
    if weight is None:
        return None
    has_value = has(learned, TerminalValue)

    def value_of(reached: Tensor) -> list[Tensor]:
        if not has_value:
            return []
        values: Tensor = learned.terminal_value(reached.reshape(-1, reached.shape[-1]))
        return [values.reshape(reached.shape[:-1])]

    def there(
        latents: FloatArray,
        plans: FloatArray,
        *noise: FloatArray,
        lengths: IntArray | None = None,
    ) -> FloatArray:
        flat = (part.reshape(-1, *part.shape[2:]) for part in (plans, *noise))
        begun, whole, *drawn = (
            torch.tensor(v, dtype=weight.dtype, device=weight.device) for v in (latents, *flat)
        )
        last = None if lengths is None else torch.tensor(lengths - 1, device=weight.device)

        def rated(rows: Tensor) -> Tensor:
            # Latents travel once for all plans of an episode.
            episodes = rows // plans.shape[1]
            first, actions = begun[episodes], whole[rows]
            reached = learned.rollout(first, actions, *(part[rows] for part in drawn))
            before = torch.cat([first[:, None], reached[:, :-1]], dim=1)
            after = [reached] * reads_both_ends(learned.reward)
            rewards: Tensor = learned.reward(before, actions, *after).reshape(reached.shape[:2])
            if last is None:
                columns = [column[..., None] for column in (rewards, *value_of(reached))]
                return torch.cat([reached, *columns], dim=2).detach()
            final = reached[torch.arange(len(rows), device=weight.device), last[episodes]]
            values = [value[:, None] for value in value_of(final)]
            is_lost = ~reached.isfinite().flatten(1).all(dim=1, keepdim=True)
            return torch.cat([rewards, *values], dim=1).detach().masked_fill(is_lost, torch.nan)

        rows = torch.arange(len(whole), device=weight.device)
        columns: FloatArray = _in_tiles(rated, [rows], rows=tile_of(learned)).cpu().double().numpy()
        return columns

    return there


def _own_of(learned: Any) -> Tensor | None:
    """Return a weight of a torch module, for its type and device; None where there is none."""
    weights = learned.parameters() if isinstance(learned, torch.nn.Module) else ()
    return next((value for value in weights if value.is_floating_point()), None)


def symexp(values: Tensor) -> Tensor:
    """Return ``sign(x) (exp|x| - 1)``, the inverse of `symlog` (Hafner et al. 2023, eq. 9)."""
    return torch.sign(values) * torch.expm1(values.abs())


def symlog(values: Tensor) -> Tensor:
    """Return ``sign(x) log(1 + |x|)`` (Hafner et al. 2023, eq. 9)."""
    return torch.sign(values) * torch.log1p(values.abs())


def expected(logits: Tensor, bins: Tensor) -> Tensor:
    """Return the mean [...] of softmax(logits [..., K]) over bins [K] on the symlog scale."""
    return symexp((logits.softmax(dim=-1) * bins).sum(dim=-1))


def _in_tiles(function: Callable[..., Tensor], tensors: Sequence[Tensor], *, rows: int) -> Tensor:
    """Call a function with exactly so many rows at a time; the last row fills a short tile."""
    count = len(tensors[0])
    results = []
    for first in range(0, count, rows):
        tile = torch.arange(first, first + rows, device=tensors[0].device).clamp_(max=count - 1)
        results.append(function(*(tensor[tile] for tensor in tensors))[: count - first])
    return torch.cat(results)

"""TD-MPC2's layouts: what the official checkpoints call their tensors, now and before.

Read in the official sources. Layers are linear, most of them followed by a layer norm (`ln`); the
tensors of the Q ensemble carry its members on a first axis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.checkpoints.weights import (
    Shape,
    Weights,
    check,
    prefix_of,
    refuse_prefix,
    size,
)

_MODEL = "a single-task TD-MPC2 on state observations"
_NAMES = ("weight", "bias", "ln.weight", "ln.bias")
# Copies of the ensemble, the policy's buffers, and the head of episodic tasks.
_UNUSED = (
    "_detach_Qs",
    "_target_Qs",
    "_Qs.module.",
    "log_std_min",
    "log_std_dif",
    "_termination.",
    "_action_masks",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of one TD-MPC2 network."""

    observation: int
    encoder: tuple[int, ...]
    latent: int
    action: int
    hidden: int
    members: int
    bins: int


def canonical(weights: Weights) -> tuple[Weights, Sizes]:
    """Return the weights in use, named as in the current layout, and the sizes they imply.

    Raises WorldModelError, naming the keys and shapes that are not as they should be.
    """
    _check_supported(weights)
    version = _version(weights)
    named = {_current_name(name): value for name, value in weights.items()}

    names = _names(named)
    refuse_prefix(prefix_of(named, names), model=_MODEL)

    def size_of(name: str, axis: int) -> int:
        return size(named, name, axis, names=names, model=_MODEL, version=version, ignored=_UNUSED)

    sizes = Sizes(
        observation=size_of("_encoder.state.0.weight", -1),
        encoder=tuple(
            size_of(f"_encoder.state.{i}.weight", -2) for i in range(_encoder_layers(named))
        ),
        latent=size_of("_dynamics.2.weight", -2),
        action=size_of("_pi.2.weight", -2) // 2,
        hidden=size_of("_dynamics.0.weight", -2),
        members=size_of("_Qs.params.0.weight", -3),
        bins=size_of("_reward.2.weight", -2),
    )
    layout = dict(_layout(sizes))
    check(named, layout, model=_MODEL, version=version, ignored=_UNUSED)
    return {name: named[name] for name in layout}, sizes


def is_tdmpc2(weights: Weights) -> bool:
    """Say whether most weights of a TD-MPC2 are there, be it below a prefix."""
    named = {_current_name(name): value for name, value in weights.items()}
    return prefix_of(named, _names(named)) is not None


def _check_supported(weights: Weights) -> None:
    if "_task_emb.weight" in weights:
        shape = list(weights["_task_emb.weight"].shape)
        raise WorldModelError(
            f"this TD-MPC2 was trained on {shape[0]} tasks (_task_emb.weight has shape {shape}). "
            f"Only checkpoints of a single task are read."
        )
    pixels = [name for name in weights if name.startswith("_encoder.rgb.")]
    if pixels:
        raise WorldModelError(
            f"this TD-MPC2 reads pixels ({pixels[0]} has shape {list(weights[pixels[0]].shape)}). "
            f"Only checkpoints on state observations are read."
        )


def _names(named: Weights) -> list[str]:
    """Return every name in use; only the encoder's depth differs from file to file."""
    sizes = Sizes(
        observation=0,
        encoder=(0,) * _encoder_layers(named),
        latent=0,
        action=0,
        hidden=0,
        members=0,
        bins=0,
    )
    return [name for name, _ in _layout(sizes)]


def _encoder_layers(named: Weights) -> int:
    found = (re.match(r"_encoder\.state\.(\d+)\.", name) for name in named)
    return 1 + max((int(layer[1]) for layer in found if layer), default=0)


def _version(weights: Weights) -> str:
    if any(re.fullmatch(r"_Qs\.params\.\d+", name) for name in weights):
        return "the layout of before October 2024, whose Q ensemble is numbered (functorch)"
    if any(name.startswith("_detach_Qs.") for name in weights):
        return "the layout of December 2024, with copies of the Q ensemble's modules (tensordict)"
    if any(re.match(r"_Qs\.params\.\d+\.", name) for name in weights):
        return "the current layout (tensordict)"
    return "no known layout of the Q ensemble"


def _current_name(name: str) -> str:
    """Return the present name of a tensor of the ensemble that used to be numbered."""
    numbered = re.fullmatch(r"_Qs\.params\.(\d+)", name)
    if not numbered:
        return name
    layer, tensor = divmod(int(numbered[1]), len(_NAMES))
    return f"_Qs.params.{layer}.{_NAMES[tensor]}"


def _layout(sizes: Sizes) -> Iterator[tuple[str, Shape]]:
    """Yield every name in use with its shape."""
    hidden, joint = sizes.hidden, sizes.latent + sizes.action
    chain = (sizes.observation, *sizes.encoder[:-1], sizes.latent)
    yield from _layers("_encoder.state", chain)
    yield from _layers("_dynamics", (joint, hidden, hidden, sizes.latent))
    for name, first, last in (
        ("_reward", joint, sizes.bins),
        ("_pi", sizes.latent, 2 * sizes.action),
    ):
        yield from _layers(name, (first, hidden, hidden, last), ends_plain=True)
    ensemble = _layers("_Qs.params", (joint, hidden, hidden, sizes.bins), ends_plain=True)
    for name, shape in ensemble:
        yield name, (sizes.members, *shape)


def _layers(
    prefix: str, widths: tuple[int, ...], *, ends_plain: bool = False
) -> Iterator[tuple[str, Shape]]:
    for layer, (before, after) in enumerate(pairwise(widths)):
        names = _NAMES[:2] if ends_plain and layer == len(widths) - 2 else _NAMES
        for name in names:
            yield f"{prefix}.{layer}.{name}", (after, before) if name == "weight" else (after,)

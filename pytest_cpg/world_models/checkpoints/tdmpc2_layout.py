"""TD-MPC2's layouts: what the official checkpoints call their tensors, now and before.

Read in the official sources. Layers are linear, most of them followed by a layer norm (`ln`); the
tensors of the Q ensemble carry its members on a first axis.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.binding.tensors import torch
from pytest_cpg.world_models.weights import (
    Shape,
    Weights,
    check,
    prefix_of,
    refuse_prefix,
    size,
)

_MODEL = "a TD-MPC2 on state observations"
_TASKS = "_task_emb.weight"
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
    """Sizes of one TD-MPC2 network.

    One of many tasks (``tasks``) reads observations and actions padded to the largest ones, with an
    embedding of its ``task`` numbers; of a single task these are 0.
    """

    observation: int
    encoder: tuple[int, ...]
    latent: int
    action: int
    hidden: int
    members: int
    bins: int
    tasks: int = 0
    task: int = 0


def canonical(weights: Weights, task_index: int | None = None) -> tuple[Weights, Sizes]:
    """Return the weights in use, named as in the current layout, and the sizes they imply.

    Those of many tasks become the weights of the one at ``task_index``, still padded. Raises
    WorldModelError, naming the keys and shapes that are not as they should be.
    """
    _check_supported(weights)
    version = _version(weights)
    renamed = {_current_name(name): value for name, value in weights.items()}

    names = _names(renamed)
    refuse_prefix(prefix_of(renamed, names), model=_MODEL)

    def size_of(name: str, axis: int) -> int:
        return size(
            renamed, name, axis, names=names, model=_MODEL, version=version, ignored=_UNUSED
        )

    is_multitask = _TASKS in renamed
    task = size_of(_TASKS, -1) if is_multitask else 0
    sizes = Sizes(
        observation=size_of("_encoder.state.0.weight", -1) - task,
        encoder=tuple(
            size_of(f"_encoder.state.{i}.weight", -2) for i in range(_encoder_layers(renamed))
        ),
        latent=size_of("_dynamics.2.weight", -2),
        action=size_of("_pi.2.weight", -2) // 2,
        hidden=size_of("_dynamics.0.weight", -2),
        members=size_of("_Qs.params.0.weight", -3),
        bins=size_of("_reward.2.weight", -2),
        tasks=size_of(_TASKS, -2) if is_multitask else 0,
        task=task,
    )
    layout = dict(_layout(sizes))
    check(renamed, layout, model=_MODEL, version=version, ignored=_UNUSED)
    used = {name: renamed[name] for name in layout}
    _check_index(task_index, sizes.tasks)
    if task_index is None:
        return used, sizes
    masks = renamed.get("_action_masks")
    # Files of before October 2024 lack them: a task's actions are the first ones.
    actions = sizes.action if masks is None else int(masks[task_index].sum())
    single = _of_one_task(used, sizes, task_index)
    return narrowed(single, sizes, observation=sizes.observation, action=actions)


def narrowed(
    weights: Weights, sizes: Sizes, *, observation: int, action: int
) -> tuple[Weights, Sizes]:
    """Return a task's weights without inputs and actions that are padding, and their sizes."""
    latent, tensors = sizes.latent, dict(weights)
    tensors["_encoder.state.0.weight"] = tensors["_encoder.state.0.weight"][:, :observation]
    for name in ("_dynamics.0.weight", "_reward.0.weight", "_Qs.params.0.weight"):
        tensors[name] = tensors[name][..., : latent + action]
    for name in ("_pi.2.weight", "_pi.2.bias"):
        columns = [*range(action), *range(sizes.action, sizes.action + action)]
        tensors[name] = tensors[name][columns]
    return tensors, replace(sizes, observation=observation, action=action)


def _of_one_task(weights: Weights, sizes: Sizes, index: int) -> Weights:
    """Return weights whose first layers know the embedding of their task, as a part of the bias."""
    tensors = dict(weights)
    row = tensors.pop(_TASKS)[index]
    # As torch's embedding with max_norm=1 does.
    row = row / max(1.0, float(row.norm()))
    for name, before in (
        ("_encoder.state.0", sizes.observation),
        *(
            (f"{network}.0", sizes.latent)
            for network in ("_dynamics", "_reward", "_pi", "_Qs.params")
        ),
    ):
        weight = tensors[f"{name}.weight"]
        after = before + sizes.task
        embedded = weight[..., before:after]
        tensors[f"{name}.bias"] = tensors[f"{name}.bias"] + embedded @ row
        tensors[f"{name}.weight"] = torch.cat([weight[..., :before], weight[..., after:]], dim=-1)
    return tensors


def _check_index(index: int | None, tasks: int) -> None:
    """Raise WorldModelError unless one task of several is named, and none of a single one."""
    if not tasks and index is not None:
        raise WorldModelError(
            f"task_index = {index!r}: this TD-MPC2 was trained on a single task. Leave it out."
        )
    if tasks and (index is None or not 0 <= index < tasks):
        got = "" if index is None else f", got {index!r}"
        raise WorldModelError(
            f"this TD-MPC2 was trained on {tasks} tasks. Write task_index = 4 for the fifth of "
            f"them{got}: 0 to {tasks - 1}, in the order of training. In the official mt30 and mt80 "
            f"cheetah-run is 3, reacher-easy 4, acrobot-swingup 6, pendulum-swingup 7, "
            f"cartpole-swingup 10 and cup-catch 12."
        )


def is_tdmpc2(weights: Weights) -> bool:
    """Say whether most weights of a TD-MPC2 are there, be it below a prefix."""
    renamed = {_current_name(name): value for name, value in weights.items()}
    return prefix_of(renamed, _names(renamed)) is not None


def _check_supported(weights: Weights) -> None:
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
        tasks=int(_TASKS in named),
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
    hidden, joint = sizes.hidden, sizes.latent + sizes.task + sizes.action
    if sizes.tasks:
        yield _TASKS, (sizes.tasks, sizes.task)
    chain = (sizes.observation + sizes.task, *sizes.encoder[:-1], sizes.latent)
    yield from _layers("_encoder.state", chain)
    yield from _layers("_dynamics", (joint, hidden, hidden, sizes.latent))
    for name, first, last in (
        ("_reward", joint, sizes.bins),
        ("_pi", sizes.latent + sizes.task, 2 * sizes.action),
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

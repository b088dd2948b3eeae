"""DreamerV3's layout: what the PyTorch port calls its tensors.

Read in the sources of NM512/dreamerv3-torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.weights import (
    Shape,
    Weights,
    check,
    part,
    prefix_of,
    refuse_prefix,
    size,
)

_MODEL = "a DreamerV3 on state observations"
_VERSION = "NM512/dreamerv3-torch"
DECODED = "heads.decoder._mlp.mean_layer."
# Whether an episode goes on, which plans are not rated by.
_UNUSED = ("heads.cont.",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Sizes of one DreamerV3 world model; ``groups`` of ``classes`` make up the stochastic part.

    Where it is Gaussian, each group is one number, and ``classes`` is 0.
    """

    observation: int
    action: int
    hidden: int
    recurrent: int
    groups: int
    classes: int

    @property
    def stochastic(self) -> int:
        """Numbers that the stochastic part is read as."""
        return self.groups * max(1, self.classes)

    @property
    def statistics(self) -> int:
        """Numbers that say how it is distributed: logits, or means and deviations."""
        return self.groups * (self.classes or 2)


def is_dreamer(weights: Weights) -> bool:
    """Say whether most weights of the port's world model are there, be it below a prefix."""
    return prefix_of(weights, _names(world_model(weights))) is not None


def actor(weights: Weights) -> Weights:
    """Return the weights of an actor of continuous actions; none where the file has no such."""
    tensors = part(weights, "_task_behavior.actor.")
    return tensors if {"mean_layer.weight", "std_layer.weight"} <= tensors.keys() else {}


def world_model(weights: Weights) -> Weights:
    """Return the world model's weights; the copies that behaviours hold of it are left out."""
    return part(weights, "_wm.") or weights


def checked(own: Weights, classes: int) -> tuple[Sizes, dict[str, int]]:
    """Return the sizes of a network, and those of its observations, once all tensors are right."""
    if any(name.startswith("encoder._cnn.") for name in own):
        raise WorldModelError("this DreamerV3 reads pixels. Only state observations are read.")

    names = _names(own)
    refuse_prefix(prefix_of(own, names), model=_MODEL)

    def size_of(name: str, axis: int) -> int:
        return size(own, name, axis, names=names, model=_MODEL, version=_VERSION, ignored=_UNUSED)

    statistics = size_of("dynamics._obs_stat_layer.weight", -2)
    recurrent = size_of("dynamics.W", -1)
    stochastic = size_of("heads.reward.layers.Reward_linear0.weight", -1) - recurrent
    # A Gaussian has a mean and a deviation for each number that is read of it.
    is_gaussian = statistics == 2 * stochastic
    if not is_gaussian and (classes < 1 or statistics % classes):
        raise WorldModelError(
            f"classes={classes!r} does not divide the {statistics} logits of the stochastic part. "
            f"The port's setting is 32."
        )
    classes = 0 if is_gaussian else classes
    groups = stochastic if is_gaussian else statistics // classes
    read = groups * max(1, classes)
    sizes = Sizes(
        observation=size_of("encoder._mlp.layers.Encoder_linear0.weight", -1),
        action=size_of("dynamics._img_in_layers.0.weight", -1) - read,
        hidden=size_of("dynamics._img_in_layers.0.weight", -2),
        recurrent=recurrent,
        groups=groups,
        classes=classes,
    )
    observed = {key: size_of(f"{DECODED}{key}.weight", -2) for key in _decoded_keys(own)}
    layout = dict(_layout(own, sizes, observed, size_of))
    check(own, layout, model=_MODEL, version=_VERSION, ignored=_UNUSED)
    if sum(observed.values()) != sizes.observation:
        raise WorldModelError(
            f"the encoder reads {sizes.observation} numbers, and the decoder gives {observed}: "
            f"only models that decode all they read can be told what they read."
        )
    return sizes, observed


def _names(own: Weights) -> list[str]:
    """Return every name in use; depths and what is decoded differ from file to file."""
    none = Sizes(observation=0, action=0, hidden=0, recurrent=0, groups=0, classes=0)
    observed = dict.fromkeys(_decoded_keys(own), 0)
    return [name for name, _ in _layout(own, none, observed, lambda *_: 0)]


def _decoded_keys(own: Weights) -> list[str]:
    """Return the observations by name, in the file's order, in which the encoder joins them."""
    return [
        name.removeprefix(DECODED).removesuffix(".weight")
        for name in own
        if name.startswith(DECODED) and name.endswith(".weight")
    ]


def _layout(
    own: Weights, sizes: Sizes, observed: dict[str, int], size_of: Callable[[str, int], int]
) -> Iterator[tuple[str, Shape]]:
    """Yield every name in use with its shape."""
    stochastic, hidden, recurrent = sizes.stochastic, sizes.hidden, sizes.recurrent
    features = stochastic + recurrent
    widths = {}
    for name, prefix, first in (
        ("Encoder", "encoder._mlp.layers.", sizes.observation),
        ("Decoder", "heads.decoder._mlp.layers.", features),
        ("Reward", "heads.reward.layers.", features),
    ):
        pattern = rf"{re.escape(prefix)}{name}_(?:linear|norm)(\d+)\."
        found = (re.match(pattern, key) for key in own)
        last = max((int(layer[1]) for layer in found if layer), default=0)
        width = widths[name] = size_of(f"{prefix}{name}_linear0.weight", -2)
        for layer in range(last + 1):
            yield f"{prefix}{name}_linear{layer}.weight", (width, width if layer else first)
            yield from _norm(f"{prefix}{name}_norm{layer}", width)
    yield "dynamics.W", (1, recurrent)
    for name, width, inputs in (
        ("_img_in_layers", hidden, stochastic + sizes.action),
        ("_img_out_layers", hidden, recurrent),
        ("_obs_out_layers", hidden, recurrent + widths["Encoder"]),
    ):
        yield f"dynamics.{name}.0.weight", (width, inputs)
        yield from _norm(f"dynamics.{name}.1", width)
    yield "dynamics._cell.layers.GRU_linear.weight", (3 * recurrent, hidden + recurrent)
    yield from _norm("dynamics._cell.layers.GRU_norm", 3 * recurrent)
    bins = size_of("heads.reward.mean_layer.weight", -2)
    for name, inputs, outputs in (
        ("dynamics._imgs_stat_layer", hidden, sizes.statistics),
        ("dynamics._obs_stat_layer", hidden, sizes.statistics),
        ("heads.reward.mean_layer", widths["Reward"], bins),
        *((f"{DECODED}{key}", widths["Decoder"], count) for key, count in observed.items()),
    ):
        yield f"{name}.weight", (outputs, inputs)
        yield f"{name}.bias", (outputs,)


def _norm(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)

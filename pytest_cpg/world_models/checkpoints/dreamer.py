"""DreamerV3: a recurrent latent world model (Hafner et al. 2023), as its PyTorch port stores it.

The world model of NM512/dreamerv3-torch on state observations or on pictures, and its actor of
continuous actions where the file has one, in torch alone; the critic is not used, nor are pictures
decoded. Compared with an independent forward pass on weights made for the purpose, and of pictures
with the port's own code on an agent that it saved; not tested on published weights.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.binding.tensors import (
    Tensor,
    expected,
    on_arrays,
    symexp,
    symlog,
    torch,
)
from pytest_cpg.world_models.checkpoints.readers import Checkpoint
from pytest_cpg.world_models.checkpoints.training_conditions import (
    ACTION_BOUNDS,
    Official,
    keys_of,
    linear_of,
)
from pytest_cpg.world_models.weights import (
    Shape,
    Weights,
    check,
    in_one_type,
    part,
    prefix_of,
    size_of,
)

# Of every layer norm in the port.
_EPSILON = 1e-3
# The outermost bins of the reward, on the symlog scale.
_LIMIT = 20.0
# Added before the update gate's sigmoid, so that the state changes slowly at first.
_UPDATE_BIAS = -1.0
# Of the actor: least and largest deviation, and what its sigmoid begins from.
_DEVIATIONS, _DEVIATION_BIAS = (0.1, 1.0), 2.0
_DECODED = "heads.decoder._mlp.mean_layer."
# Whether an episode goes on, and pictures that are imagined, which plans are not rated by.
_UNUSED = ("heads.cont.", "heads.decoder._cnn.")
# Three layers for each halving of a picture, down to so many pixels of a side.
_PIXELS, _LEAST = "encoder._cnn.layers.", 4


def read(checkpoint: Checkpoint) -> DreamerV3 | None:
    """Return the network of a file that has most of its weights; None of another file."""
    own = _world_model(checkpoint.weights)
    if prefix_of(checkpoint.weights, _layout(own)) is None:
        return None
    return DreamerV3.of(checkpoint.weights, task=checkpoint.task, **checkpoint.settings)


class DreamerV3(Official):
    """A recurrent state-space model that plans are imagined in.

    A latent [Z] is the recurrent state and the class of each stochastic group, always the most
    likely one; the mean where that part is Gaussian (``dyn_discrete: 0``, ``dyn_mean_act: none``).

    Parameters
    ----------
    weights : mapping
        As the port names them, from the whole agent or the world model alone.
    classes : int
        Classes of each stochastic group; the port has as many groups as classes, 32.
    """

    NEEDED: ClassVar = {
        "action_repeat": "2  # control steps per action; dmc_proprio of the port: 2",
        "discount": "0.997  # the port's default",
    }
    OTHERS: ClassVar = {
        **ACTION_BOUNDS,
        "obs_keys": '["orientations", "velocity"]  # which the file says itself',
        "classes": "32  # of each stochastic group; the port's default",
    }
    bins: Tensor
    # See `is_thread_safe`.
    thread_safe = True

    def __init__(
        self,
        weights: Weights,
        *,
        action_repeat: int,
        discount: float,
        obs_keys: Sequence[str] | str | None = None,
        classes: int = 32,
        action_low: float = -1.0,
        action_high: float = 1.0,
    ) -> None:
        tensors = in_one_type(_checked(_world_model(weights)))
        observed = _decoded_keys(tensors)
        if obs_keys is not None and list(keys_of(obs_keys)) != observed:
            raise WorldModelError(
                f"obs_keys={list(keys_of(obs_keys))}, and the checkpoint reads {observed} in this "
                f"order. Leave obs_keys out: this file says it."
            )
        super().__init__(
            obs_keys=observed,
            action_repeat=action_repeat,
            action_low=action_low,
            action_high=action_high,
        )
        self.discount = discount
        features = tensors["heads.reward.layers.Reward_linear0.weight"].shape[1]
        statistics = len(tensors["dynamics._obs_stat_layer.bias"])
        self._recurrent = tensors["dynamics.W"].shape[1]
        stochastic = features - self._recurrent
        # A Gaussian has a mean and a deviation for each number that is read of it.
        is_gaussian = statistics == 2 * stochastic
        if not is_gaussian and (classes < 1 or statistics % classes):
            raise WorldModelError(
                f"classes={classes!r} does not divide the {statistics} logits of the stochastic "
                f"part. The port's setting is 32."
            )
        self._classes = 0 if is_gaussian else classes
        self._groups = stochastic // max(1, self._classes)
        self._encoder: torch.nn.Module
        if convolutions := part(tensors, _PIXELS):
            halvings = _halvings(tensors)
            self.picture, self.observation_size = (1, _LEAST << halvings), 0
            stages = (_Halving(convolutions, 3 * stage) for stage in range(halvings))
            self._encoder = torch.nn.Sequential(*stages, torch.nn.Flatten())
            # A picture that is decoded is no observation.
            self.__dict__["decode"] = None
        else:
            self.observation_size = tensors["encoder._mlp.layers.Encoder_linear0.weight"].shape[1]
            self._encoder = _stack(tensors, "encoder._mlp.layers.Encoder")
            self._decoder = _stack(tensors, "heads.decoder._mlp.layers.Decoder")
        self.action_size = tensors["dynamics._img_in_layers.0.weight"].shape[1] - stochastic
        self._start = torch.nn.Parameter(tensors["dynamics.W"])
        self._joint = _Normed(tensors, "dynamics._img_in_layers.0", "dynamics._img_in_layers.1")
        cell = "dynamics._cell.layers.GRU_"
        self._cell = _Normed(tensors, f"{cell}linear", f"{cell}norm", is_active=False)
        self._prior, self._posterior = (
            torch.nn.Sequential(
                _Normed(
                    tensors, f"dynamics._{name}_out_layers.0", f"dynamics._{name}_out_layers.1"
                ),
                linear_of(part(tensors, f"dynamics._{statistic}_stat_layer.")),
            )
            for name, statistic in (("img", "imgs"), ("obs", "obs"))
        )
        self._reward = torch.nn.Sequential(
            _stack(tensors, "heads.reward.layers.Reward"),
            linear_of(part(tensors, "heads.reward.mean_layer.")),
        )
        self._decoded = torch.nn.ModuleList(
            linear_of(part(tensors, f"{_DECODED}{key}.")) for key in observed
        )
        acting = in_one_type(part(weights, "_task_behavior.actor."))
        # An actor of other than continuous actions has no deviation.
        if {"mean_layer.weight", "std_layer.weight"} <= acting.keys():
            heads = (linear_of(part(acting, f"{name}_layer.")) for name in ("mean", "std"))
            self._actor = torch.nn.ModuleList((_stack(acting, "layers.Actor"), *heads))
        else:
            # What a model does not have is None.
            self.__dict__["policy"] = None
        bins = tensors["heads.reward.mean_layer.bias"]
        self.register_buffer("bins", torch.linspace(-_LIMIT, _LIMIT, len(bins), dtype=bins.dtype))
        self.register_buffer("columns", torch.arange(self.observation_size))
        self.eval().requires_grad_(requires_grad=False)

    @on_arrays
    def encode(self, observations: Tensor) -> Tensor:
        """Map an episode's first observations [B, O], or pictures of 8 bits, to latents [B, Z]."""
        recurrent = torch.tanh(self._start).expand(len(observations), -1)
        classes = self._likeliest(self._prior(recurrent))
        still = recurrent.new_zeros(len(observations), self.action_size)
        return self._observed(recurrent, classes, still, observations)

    @on_arrays
    def update(self, latents: Tensor, actions: Tensor, observations: Tensor) -> Tensor:
        """Map latents [B, Z], actions [B, A] and the observations after them [B, O] to latents."""
        recurrent, classes = self._split(latents)
        return self._observed(recurrent, classes, self.scaled(actions), observations)

    @on_arrays
    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        recurrent, classes = self._split(latents)
        imagined = []
        for action in self.scaled(actions).unbind(dim=1):
            recurrent = self._next(recurrent, classes, action)
            classes = self._likeliest(self._prior(recurrent))
            imagined.append(self._packed(recurrent, classes))
        return torch.stack(imagined, dim=1)

    @on_arrays
    def reward(self, latents: Tensor, actions: Tensor, reached: Tensor) -> Tensor:  # noqa: ARG002
        """Predict the reward [...] of steps that reached these latents [..., Z]."""
        return expected(self._reward(self._features(*self._split(reached))), self.bins)

    @on_arrays
    def policy(self, latents: Tensor, noise: Tensor) -> Tensor:
        """Map latents [B, Z] and standard normal noise [B, A] to what the actor does [B, A]."""
        hidden, mean, spread = self._actor
        inner = hidden(self._features(*self._split(latents)))
        low, high = _DEVIATIONS
        deviation = low + (high - low) * torch.sigmoid(spread(inner) + _DEVIATION_BIAS)
        acted = torch.tanh(mean(inner)) + deviation * noise
        return self.unscaled(acted.clamp(-1, 1))

    @on_arrays
    def decode(self, latents: Tensor) -> Tensor:
        """Map latents [..., Z] to observations [..., O], in the order of the task."""
        hidden = self._decoder(self._features(*self._split(latents)))
        decoded = symexp(torch.cat([network(hidden) for network in self._decoded], dim=-1))
        return decoded[..., torch.argsort(self.columns)]

    def _observed(
        self, recurrent: Tensor, classes: Tensor, actions: Tensor, observations: Tensor
    ) -> Tensor:
        """Take one step, and see what came of it."""
        after = self._next(recurrent, classes, actions)
        if self.picture:
            # The latest frame alone: others are remembered.
            frames = observations[:, -1].permute(0, 3, 1, 2).to(after.dtype)
            embedded = self._encoder(frames / 255 - 0.5)
        else:
            embedded = self._encoder(symlog(observations[:, self.columns]))
        seen = self._posterior(torch.cat([after, embedded], dim=-1))
        return self._packed(after, self._likeliest(seen))

    def _next(self, recurrent: Tensor, classes: Tensor, actions: Tensor) -> Tensor:
        inputs = self._joint(torch.cat([self._one_hot(classes), actions], dim=-1))
        parts = self._cell(torch.cat([inputs, recurrent], dim=-1))
        reset, candidate, update = parts.chunk(3, dim=-1)
        fresh = torch.tanh(torch.sigmoid(reset) * candidate)
        share = torch.sigmoid(update + _UPDATE_BIAS)
        return share * fresh + (1 - share) * recurrent

    def _packed(self, recurrent: Tensor, classes: Tensor) -> Tensor:
        return torch.cat([recurrent, classes.to(recurrent.dtype)], dim=-1)

    def _split(self, latents: Tensor) -> tuple[Tensor, Tensor]:
        recurrent = latents[..., : self._recurrent]
        drawn = latents[..., self._recurrent :]
        return recurrent, drawn.round().long() if self._classes else drawn

    def _features(self, recurrent: Tensor, classes: Tensor) -> Tensor:
        return torch.cat([self._one_hot(classes), recurrent], dim=-1)

    def _one_hot(self, classes: Tensor) -> Tensor:
        if not self._classes:
            return classes
        hot = torch.nn.functional.one_hot(classes, self._classes)
        return hot.flatten(-2).to(self._start.dtype)

    def _likeliest(self, logits: Tensor) -> Tensor:
        """Return the most likely class of each group [..., G], or a Gaussian's means."""
        if not self._classes:
            return logits[..., : self._groups]
        shape = (*logits.shape[:-1], self._groups, self._classes)
        return logits.reshape(shape).argmax(dim=-1)


class _Halving(torch.nn.Module):
    """A convolution that halves a picture, a layer norm over its channels, and SiLU."""

    def __init__(self, weights: Weights, place: int) -> None:
        super().__init__()
        named = (f"{place}.weight", f"{place + 1}.norm.weight", f"{place + 1}.norm.bias")
        self.weight, self.gain, self.shift = (torch.nn.Parameter(weights[name]) for name in named)

    def forward(self, inputs: Tensor) -> Tensor:
        functional = torch.nn.functional
        channels = functional.conv2d(inputs, self.weight, stride=2, padding=1).movedim(1, -1)
        normed = functional.layer_norm(channels, self.gain.shape, self.gain, self.shift, _EPSILON)
        return functional.silu(normed).movedim(-1, 1)


class _Normed(torch.nn.Module):
    """A linear layer without bias, a layer norm, and SiLU where it is active."""

    def __init__(self, weights: Weights, linear: str, norm: str, *, is_active: bool = True) -> None:
        super().__init__()
        named = (f"{linear}.weight", f"{norm}.weight", f"{norm}.bias")
        self.weight, self.gain, self.shift = (torch.nn.Parameter(weights[name]) for name in named)
        self._is_active = is_active

    def forward(self, inputs: Tensor) -> Tensor:
        functional = torch.nn.functional
        outputs = functional.linear(inputs, self.weight)
        normed = functional.layer_norm(outputs, self.gain.shape, self.gain, self.shift, _EPSILON)
        return functional.silu(normed) if self._is_active else normed


def _stack(weights: Weights, name: str) -> torch.nn.Sequential:
    count = sum(key.startswith(f"{name}_linear") and key.endswith(".weight") for key in weights)
    layers = (_Normed(weights, f"{name}_linear{i}", f"{name}_norm{i}") for i in range(count))
    return torch.nn.Sequential(*layers)


def _world_model(weights: Weights) -> Weights:
    """Return the world model's weights; the copies that behaviours hold of it are left out."""
    return part(weights, "_wm.") or weights


def _halvings(weights: Weights) -> int:
    """Return how many times a picture is halved."""
    return sum(name.endswith(".norm.weight") for name in part(weights, _PIXELS))


def _decoded_keys(weights: Weights) -> list[str]:
    """Return the observations by name, in the file's order, in which the encoder joins them."""
    names = part(weights, _DECODED)
    return [name.removesuffix(".weight") for name in names if name.endswith(".weight")]


def _layout(weights: Weights) -> dict[str, Shape]:
    """Return every name in use with its shape, as the sizes follow from the weights."""
    size = partial(size_of, weights)
    recurrent, statistics = size("dynamics.W", -1), size("dynamics._obs_stat_layer.weight", -2)
    stochastic = size("heads.reward.layers.Reward_linear0.weight", -1) - recurrent
    if not math.isnan(stochastic) and statistics != 2 * stochastic:
        stochastic = statistics
    features, inputs = stochastic + recurrent, size("dynamics._img_in_layers.0.weight", -1)
    hidden = size("dynamics._img_in_layers.0.weight", -2)
    normed, widths = [], {}
    halvings = _halvings(weights)
    encoder, decoder, reward = (
        "encoder._mlp.layers.Encoder",
        "heads.decoder._mlp.layers.Decoder",
        "heads.reward.layers.Reward",
    )
    stacks = {encoder: size(f"{encoder}_linear0.weight", -1), decoder: features, reward: features}
    for name in (encoder, decoder) if halvings else ():
        del stacks[name]
    for name, first in stacks.items():
        pattern = rf"{re.escape(name)}_(?:linear|norm)(\d+)\."
        numbers = [int(match[1]) for key in weights if (match := re.match(pattern, key))]
        width = widths[name] = size(f"{name}_linear0.weight", -2)
        normed += [
            (f"{name}_linear{i}", f"{name}_norm{i}", width if i else first, width)
            for i in range(max(numbers, default=0) + 1)
        ]
    encoded, decoded, rewarded = (widths.get(name, math.nan) for name in (encoder, decoder, reward))
    cell = "dynamics._cell.layers.GRU_"
    normed.append((f"{cell}linear", f"{cell}norm", hidden + recurrent, 3 * recurrent))
    for name, before in (
        ("img_in", inputs),
        ("img_out", recurrent),
        ("obs_out", recurrent + encoded),
    ):
        layers = f"dynamics._{name}_layers"
        normed.append((f"{layers}.0", f"{layers}.1", before, hidden))
    layout: dict[str, Shape] = {"dynamics.W": (1, recurrent)}
    channels = 3
    for place in range(0, 3 * halvings, 3):
        after = size(f"{_PIXELS}{place}.weight", -4)
        layout[f"{_PIXELS}{place}.weight"] = (after, channels, 4, 4)
        layout |= {f"{_PIXELS}{place + 1}.norm.{name}": (after,) for name in ("weight", "bias")}
        channels, encoded = after, after * _LEAST**2
    for linear, norm, before, after in normed:
        layout |= {f"{linear}.weight": (after, before)}
        layout |= {f"{norm}.{name}": (after,) for name in ("weight", "bias")}
    for name, before, after in (
        ("dynamics._imgs_stat_layer", hidden, statistics),
        ("dynamics._obs_stat_layer", hidden, statistics),
        ("heads.reward.mean_layer", rewarded, size("heads.reward.mean_layer.weight", -2)),
        *(
            (f"{_DECODED}{key}", decoded, size(f"{_DECODED}{key}.weight", -2))
            for key in _decoded_keys(weights)
        ),
    ):
        layout |= {f"{name}.weight": (after, before), f"{name}.bias": (after,)}
    return layout


def _checked(weights: Weights) -> Weights:
    """Return the weights in use, once all are right."""
    reads = "pictures" if part(weights, _PIXELS) else "state observations"
    layout, model = _layout(weights), f"a DreamerV3 on {reads}"
    check(weights, layout, model=model, version="NM512/dreamerv3-torch", ignored=_UNUSED)
    first = weights.get("encoder._mlp.layers.Encoder_linear0.weight")
    read = 0 if first is None else first.shape[1]
    observed = {key: len(weights[f"{_DECODED}{key}.bias"]) for key in _decoded_keys(weights)}
    if sum(observed.values()) != read:
        raise WorldModelError(
            f"the encoder reads {read} numbers, and the decoder gives {observed}: only models that "
            f"decode all they read can be told what they read."
        )
    return {name: weights[name] for name in layout}

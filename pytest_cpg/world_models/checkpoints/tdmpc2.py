"""TD-MPC2: a latent world model with its own reward and value (Hansen et al., ICLR 2024).

The networks of the official checkpoints on state observations or on pictures, in torch alone.
Compared with an independent forward pass on weights made for the purpose, and of pictures with the
official code on weights that it saved; not tested on published weights.
Layers are linear, most of them followed by a layer norm (`ln`); the tensors of the Q ensemble carry
its members on a first axis.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import ClassVar, Self

from pytest_cpg.contracts import Task, WorldModelError
from pytest_cpg.world_models.binding.mish import mish
from pytest_cpg.world_models.binding.tensors import Tensor, expected, on_arrays, symexp, torch
from pytest_cpg.world_models.checkpoints.readers import Checkpoint
from pytest_cpg.world_models.checkpoints.training_conditions import (
    ACTION_BOUNDS,
    Official,
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

_MANY_ACTIONS = 20
# The outermost bins of reward and value, on the symlog scale.
_LIMIT = 10.0
_TASKS, _MASKS = "_task_emb.weight", "_action_masks"
_NAMES = ("weight", "bias", "ln.weight", "ln.bias")
# Their last layer is linear alone.
_HEADS = ("_reward", "_pi", "_Qs.params")
# Of the convolutions, by their place among the encoder's layers: pixels of a side, and the stride.
# Random shifts stand before them in training, and in the official planner, too; here none does.
_CONVOLUTIONS = {2: (7, 2), 4: (5, 2), 6: (3, 2), 8: (3, 1)}
_PIXELS, _SIZE = "_encoder.rgb.", 64
# Copies of the ensemble, the policy's buffers, and the head of episodic tasks.
_UNUSED = (
    "_detach_Qs",
    "_target_Qs",
    "_Qs.module.",
    "log_std_min",
    "log_std_dif",
    "_termination.",
    _MASKS,
)


def read(checkpoint: Checkpoint) -> TDMPC2 | None:
    """Return the network of a file that has most of its weights; None of another file."""
    renamed = _renamed(checkpoint.weights)
    if prefix_of(renamed, _layout(renamed)) is None:
        return None
    return TDMPC2.of(checkpoint.weights, task=checkpoint.task, **checkpoint.settings)


class TDMPC2(Official):
    """A TD-MPC2 network that plans are imagined in.

    Parameters
    ----------
    weights : mapping
        As the official code names them, now or before.
    obs_keys : sequence of str, or str
        Names of the observations, in the order of training; none of a network that reads pictures.
    action_repeat : int
        Control steps per action in training.
    simnorm_dim : int
        How many numbers of the latent sum to one.
    discount : float
        In (0, 1].
    action_low, action_high : float
        Least and largest of every action, in the units of training.
    task_index : int, optional
        Of weights of many tasks, which one.
    """

    NEEDED: ClassVar = {
        "obs_keys": '["orientations", "velocity"]  # in the order of training',
        "action_repeat": "2  # control steps per action; official training on DeepMind Control: 2",
        "simnorm_dim": "8  # width of a simplex; the official setting is 8",
        "discount": "0.99  # official: 0.99 for episodes of 500 actions",
    }
    OTHERS: ClassVar = {
        **ACTION_BOUNDS,
        "task_index": "4  # the task's place among those of a multi-task training, from 0",
    }
    bins: Tensor
    # See `is_thread_safe`.
    thread_safe = True

    def __init__(
        self,
        weights: Weights,
        *,
        action_repeat: int,
        simnorm_dim: int,
        discount: float,
        obs_keys: Sequence[str] | str = (),
        action_low: float = -1.0,
        action_high: float = 1.0,
        task_index: int | None = None,
    ) -> None:
        super().__init__(
            obs_keys=obs_keys,
            action_repeat=action_repeat,
            action_low=action_low,
            action_high=action_high,
        )
        tensors = in_one_type(_of_task(_checked(weights), task_index))
        latent = len(tensors["_dynamics.2.bias"])
        if simnorm_dim < 1 or latent % simnorm_dim:
            raise WorldModelError(
                f"simnorm_dim={simnorm_dim!r} does not divide the latent's {latent} numbers. The "
                f"official setting is 8."
            )
        self.discount, self._simplex = discount, simnorm_dim
        # Files of before October 2024 lack masks: a task's actions are the first ones.
        self._knows_actions = task_index is None or _MASKS in weights
        if task_index is not None and self._knows_actions:
            tensors = _narrowed(tensors, action=int(weights[_MASKS][task_index].sum()))
        self._padded = {} if task_index is None else tensors
        self._build(tensors)
        # As the official code does for large action spaces.
        more = {"iterations": 8} if self.action_size >= _MANY_ACTIONS else {}
        self.trained_planner = {"name": "tdmpc2", **more}
        # Of the policy's deviation, on the log scale; files of before October 2024 lack them.
        self.log_low, self.log_range = (
            float(weights.get(name, official))
            for name, official in (("log_std_min", -10.0), ("log_std_dif", 12.0))
        )
        head = tensors["_reward.2.bias"]
        self.register_buffer("bins", torch.linspace(-_LIMIT, _LIMIT, len(head), dtype=head.dtype))

    @classmethod
    def needed(cls, weights: Weights) -> Mapping[str, str]:
        """Return what to type for each setting that these weights need."""
        if not part(weights, _PIXELS):
            return cls.NEEDED
        return {name: example for name, example in cls.NEEDED.items() if name != "obs_keys"}

    def _build(self, tensors: Weights) -> None:
        self.action_size = len(tensors["_pi.2.bias"]) // 2
        if convolutions := part(tensors, _PIXELS):
            self.picture = (convolutions["2.weight"].shape[1] // 3, _SIZE)
            self.observation_size = 0
            self._encoder = _convolutional(convolutions, simplex=self._simplex)
        else:
            self.observation_size = tensors["_encoder.state.0.weight"].shape[1]
            self._encoder = _network(part(tensors, "_encoder.state."), simplex=self._simplex)
        self._dynamics = _network(part(tensors, "_dynamics."), simplex=self._simplex)
        self._reward = _network(part(tensors, "_reward."))
        self._policy = _network(part(tensors, "_pi."))
        ensemble = part(tensors, "_Qs.params.")
        self._values = torch.nn.ModuleList(
            _network({name: value[member] for name, value in ensemble.items()})
            for member in range(len(ensemble["0.weight"]))
        )
        self.register_buffer("columns", torch.arange(self.observation_size))
        self.eval().requires_grad_(requires_grad=False)

    def for_task(self, task: Task) -> Self:
        """Return this model, reading the task's observations in its own order.

        Of several tasks a smaller one has neither the inputs nor the actions that are padding.
        """
        if self._padded:
            actions = self.action_size if self._knows_actions else task.actions.size
            tensors = _narrowed(self._padded, task.observation_size, actions)
            self._padded = {}
            self._build(tensors)
        return super().for_task(task)

    @on_arrays
    def encode(self, observations: Tensor) -> Tensor:
        """Map observations [B, O], or pictures [B, F, H, W, 3] of 8 bits, to latents [B, Z]."""
        if self.picture:
            channels = observations.permute(0, 1, 4, 2, 3).flatten(1, 2)
            observations = channels.to(self.bins.dtype) / 255 - 0.5
        else:
            observations = observations[:, self.columns]
        latents: Tensor = self._encoder(observations)
        return latents

    @on_arrays
    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        imagined = []
        for action in self.scaled(actions).unbind(dim=1):
            latents = self._dynamics(torch.cat([latents, action], dim=-1))
            imagined.append(latents)
        return torch.stack(imagined, dim=1)

    @on_arrays
    def reward(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Predict the reward [...] of actions [..., A] taken in latents [..., Z]."""
        joint = torch.cat([latents, self.scaled(actions)], dim=-1)
        if joint.ndim == 3 and joint.device.type == "cpu":
            # What one step computes stays in the processor's cache; all steps at once do not.
            steps = [self._scalar(self._reward(rows)) for rows in joint.unbind(dim=1)]
            return torch.stack(steps, dim=1)
        return self._scalar(self._reward(joint))

    @on_arrays
    def policy(self, latents: Tensor, noise: Tensor) -> Tensor:
        """Map latents [B, Z] and standard normal noise [B, A] to the policy's actions [B, A]."""
        mean, spread = self._policy(latents).chunk(2, dim=-1)
        deviation = torch.exp(self.log_low + self.log_range * (torch.tanh(spread) + 1) / 2)
        return self.unscaled(torch.tanh(mean + deviation * noise))

    @on_arrays
    def terminal_value(self, latents: Tensor) -> Tensor:
        """Give the value [B] of going on from latents [B, Z] as the policy's mean would.

        The mean of the whole ensemble; the official planner averages two members drawn at random.
        """
        mean, _ = self._policy(latents).chunk(2, dim=-1)
        joint = torch.cat([latents, torch.tanh(mean)], dim=-1)
        return torch.stack([self._scalar(network(joint)) for network in self._values]).mean(dim=0)

    def _scalar(self, logits: Tensor) -> Tensor:
        """Return what a head [B, bins] predicts [B]."""
        return expected(logits, self.bins) if len(self.bins) > 1 else symexp(logits[..., 0])


class _Layer(torch.nn.Module):
    """A linear layer, a layer norm, and Mish or one softmax for each simplex."""

    def __init__(self, weights: Weights, *, simplex: int) -> None:
        super().__init__()
        tensors = [weights[name] for name in _NAMES]
        if simplex:
            # First members of all simplices first: softmax is 10 times faster across than along
            # such short axes.
            order = torch.arange(len(tensors[0])).reshape(-1, simplex).t().reshape(-1)
            tensors = [tensor[order] for tensor in tensors]
        self.weight, self.bias, self.gain, self.shift = map(torch.nn.Parameter, tensors)
        self._simplex = simplex

    def forward(self, inputs: Tensor) -> Tensor:
        functional = torch.nn.functional
        outputs = functional.linear(inputs, self.weight, self.bias)
        normed = functional.layer_norm(outputs, self.gain.shape, self.gain, self.shift)
        if not self._simplex:
            # Nothing reads them again, unless gradients are asked for.
            return mish(normed, spare=None if normed.requires_grad else outputs)
        groups = normed.reshape(*normed.shape[:-1], self._simplex, -1)
        return groups.softmax(dim=-2).transpose(-1, -2).reshape(normed.shape)


def _convolutional(weights: Weights, *, simplex: int) -> torch.nn.Sequential:
    """Return the layers that read frames, with a rectifier between convolutions."""
    layers: list[torch.nn.Module] = []
    for place, (side, stride) in _CONVOLUTIONS.items():
        own = part(weights, f"{place}.")
        after, before = own["weight"].shape[:2]
        layer = torch.nn.Conv2d(before, after, side, stride, dtype=own["weight"].dtype)
        layer.load_state_dict(own)
        layers += [layer, torch.nn.ReLU()]
    simplices = (torch.nn.Unflatten(1, (-1, simplex)), torch.nn.Softmax(dim=-1))
    return torch.nn.Sequential(*layers[:-1], torch.nn.Flatten(), *simplices, torch.nn.Flatten())


def _network(weights: Weights, *, simplex: int = 0) -> torch.nn.Sequential:
    """Return the layers that weights are numbered by; a layer without a norm is linear alone."""
    count = _depth(weights)
    layers: list[torch.nn.Module] = []
    for index in range(count):
        tensors = part(weights, f"{index}.")
        if "ln.weight" in tensors:
            layers.append(_Layer(tensors, simplex=simplex if index == count - 1 else 0))
        else:
            layers.append(linear_of(tensors))
    return torch.nn.Sequential(*layers)


def _depth(weights: Weights) -> int:
    """Return how many layers there are, of weights numbered by them; 1 of none."""
    numbers = (name.partition(".")[0] for name in weights)
    return 1 + max((int(number) for number in numbers if number.isdecimal()), default=0)


def _renamed(weights: Weights) -> Weights:
    """Return weights by their present names; those of the ensemble used to be numbered."""
    renamed = {}
    for name, value in weights.items():
        if numbered := re.fullmatch(r"_Qs\.params\.(\d+)", name):
            layer, tensor = divmod(int(numbered[1]), len(_NAMES))
            name = f"_Qs.params.{layer}.{_NAMES[tensor]}"
        renamed[name] = value
    return renamed


def _layout(weights: Weights) -> dict[str, Shape]:
    """Return every name in use with its shape, as the sizes follow from the weights."""
    size, reads_pictures = partial(size_of, weights), bool(part(weights, _PIXELS))
    is_multitask = _TASKS in weights and not reads_pictures
    task = size(_TASKS, -1) if is_multitask else 0
    latent, hidden = size("_dynamics.2.weight", -2), size("_dynamics.0.weight", -2)
    bins, action = size("_reward.2.weight", -2), size("_pi.2.weight", -2) // 2
    joint = latent + task + action
    inner = range(_depth(part(weights, "_encoder.state.")) - 1)
    encoder = [size(f"_encoder.state.{layer}.weight", -2) for layer in inner]
    widths = {
        "_encoder.state": (size("_encoder.state.0.weight", -1), *encoder, latent),
        "_dynamics": (joint, hidden, hidden, latent),
        "_reward": (joint, hidden, hidden, bins),
        "_pi": (latent + task, hidden, hidden, 2 * action),
        "_Qs.params": (joint, hidden, hidden, bins),
    }
    layout: dict[str, Shape] = {_TASKS: (size(_TASKS, -2), task)} if is_multitask else {}
    if reads_pictures:
        del widths["_encoder.state"]
        before, channels = size(f"{_PIXELS}2.weight", -3), size(f"{_PIXELS}2.weight", -4)
        for place, (side, _) in _CONVOLUTIONS.items():
            layout[f"{_PIXELS}{place}.weight"] = (channels, before, side, side)
            layout[f"{_PIXELS}{place}.bias"] = (channels,)
            before = channels
    for network, sizes in widths.items():
        members = [size("_Qs.params.0.weight", -3)] * (network == "_Qs.params")
        for layer, (before, after) in enumerate(pairwise(sizes)):
            is_plain = network in _HEADS and layer == len(sizes) - 2
            for name in _NAMES[:2] if is_plain else _NAMES:
                shape = (after, before) if name == "weight" else (after,)
                layout[f"{network}.{layer}.{name}"] = (*members, *shape)
    return layout


def _checked(weights: Weights) -> Weights:
    """Return the weights in use by their present names, or raise WorldModelError."""
    version = "no known layout of the Q ensemble"
    if any(re.fullmatch(r"_Qs\.params\.\d+", name) for name in weights):
        version = "the layout of before October 2024, whose Q ensemble is numbered (functorch)"
    elif any(name.startswith("_detach_Qs.") for name in weights):
        version = (
            "the layout of December 2024, with copies of the Q ensemble's modules (tensordict)"
        )
    elif any(re.match(r"_Qs\.params\.\d+\.", name) for name in weights):
        version = "the current layout (tensordict)"
    renamed = _renamed(weights)
    reads = "pictures" if part(renamed, _PIXELS) else "state observations"
    layout, model = _layout(renamed), f"a TD-MPC2 on {reads}"
    check(renamed, layout, model=model, version=version, ignored=_UNUSED)
    return {name: renamed[name] for name in layout}


def _of_task(weights: Weights, index: int | None) -> Weights:
    """Return the weights of one task of several, still padded: its embedding is part of biases."""
    embeddings = weights.get(_TASKS)
    if embeddings is None:
        if index is not None:
            raise WorldModelError(
                f"task_index = {index!r}: this TD-MPC2 was trained on a single task. Leave it out."
            )
        return weights
    if index is None or not 0 <= index < len(embeddings):
        got = "" if index is None else f", got {index!r}"
        raise WorldModelError(
            f"this TD-MPC2 was trained on {len(embeddings)} tasks. Write task_index = 4 for the "
            f"fifth of them{got}: 0 to {len(embeddings) - 1}, in the order of training. In the "
            f"official mt30 and mt80 cheetah-run is 3, reacher-easy 4, acrobot-swingup 6, "
            f"pendulum-swingup 7, cartpole-swingup 10 and cup-catch 12."
        )
    # As torch's embedding with max_norm=1 does.
    row = embeddings[index] / max(1.0, float(embeddings[index].norm()))
    tensors = {name: value for name, value in weights.items() if name != _TASKS}
    latent = len(tensors["_dynamics.2.bias"])
    for network in ("_encoder.state", "_dynamics", "_reward", "_pi", "_Qs.params"):
        weight, bias = tensors[f"{network}.0.weight"], tensors[f"{network}.0.bias"]
        before = weight.shape[-1] - len(row) if network == "_encoder.state" else latent
        after = before + len(row)
        tensors[f"{network}.0.bias"] = bias + weight[..., before:after] @ row
        tensors[f"{network}.0.weight"] = torch.cat(
            [weight[..., :before], weight[..., after:]], dim=-1
        )
    return tensors


def _narrowed(weights: Weights, observation: int | None = None, action: int = 0) -> Weights:
    """Return weights for so many observations and actions at most, the first ones."""
    latent, tensors = len(weights["_dynamics.2.bias"]), dict(weights)
    most = len(weights["_pi.2.bias"]) // 2
    action = min(action, most)
    tensors["_encoder.state.0.weight"] = tensors["_encoder.state.0.weight"][:, :observation]
    for name in ("_dynamics.0.weight", "_reward.0.weight", "_Qs.params.0.weight"):
        tensors[name] = tensors[name][..., : latent + action]
    for name in ("_pi.2.weight", "_pi.2.bias"):
        tensors[name] = tensors[name][[*range(action), *range(most, most + action)]]
    return tensors

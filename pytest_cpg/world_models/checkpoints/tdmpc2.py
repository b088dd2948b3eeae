"""TD-MPC2: a latent world model with its own reward and value (Hansen et al., ICLR 2024).

The networks of the official checkpoints on state observations, in torch alone. Compared
with an independent forward pass on weights made for the purpose; not tested on published weights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pytest_cpg.contracts import Task, WorldModelError
from pytest_cpg.world_models.binding.mish import mish
from pytest_cpg.world_models.binding.tensors import Tensor, expected, on_arrays, symexp, torch
from pytest_cpg.world_models.checkpoint import Checkpoint
from pytest_cpg.world_models.checkpoints.tdmpc2_layout import canonical, is_tdmpc2, narrowed
from pytest_cpg.world_models.checkpoints.training_conditions import (
    Conditions,
    keys_of,
    official,
    require,
)
from pytest_cpg.world_models.weights import Weights, in_one_type, part, read_weights

NEEDED = {
    "obs_keys": '["orientations", "velocity"]  # in the order of training',
    "action_repeat": "2  # control steps per action; official training on DeepMind Control: 2",
    "simnorm_dim": "8  # width of a simplex; the official setting is 8",
    "discount": "0.99  # official: 0.99 for episodes of 500 actions",
}
OTHERS = {
    "action_low": "-1.0  # least of every action, in the units of training",
    "action_high": "1.0  # largest of every action, in the units of training",
    "task_index": "4  # the task's place among those of a multi-task training, from 0",
}

_MANY_ACTIONS = 20
# The outermost bins of reward and value, on the symlog scale.
_LIMIT = 10.0


def read(checkpoint: Checkpoint) -> TDMPC2 | None:
    """Return the network of a file that has most of its weights; None of another file."""
    if not is_tdmpc2(checkpoint.weights):
        return None
    model: TDMPC2 = official(checkpoint, TDMPC2, NEEDED, OTHERS)
    return model


class TDMPC2(torch.nn.Module):
    """A TD-MPC2 network that plans are imagined in.

    Parameters
    ----------
    weights : mapping
        As the official code names them, now or before.
    obs_keys : sequence of str, or str
        Names of the observations, in the order of training.
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

    columns: Tensor
    bins: Tensor
    # See `is_thread_safe`.
    thread_safe = True

    def __init__(
        self,
        weights: Weights,
        *,
        obs_keys: Sequence[str] | str,
        action_repeat: int,
        simnorm_dim: int,
        discount: float,
        action_low: float = -1.0,
        action_high: float = 1.0,
        task_index: int | None = None,
    ) -> None:
        super().__init__()
        self.conditions = Conditions(
            obs_keys=keys_of(obs_keys),
            action_repeat=action_repeat,
            action_low=action_low,
            action_high=action_high,
        )
        found, self.sizes = canonical(weights, task_index)
        own = in_one_type(found)
        self._padded = own if self.sizes.tasks else {}
        self._knows_actions = "_action_masks" in weights
        if simnorm_dim < 1 or self.sizes.latent % simnorm_dim:
            raise WorldModelError(
                f"simnorm_dim={simnorm_dim!r} does not divide the latent's {self.sizes.latent} "
                f"numbers. The official setting is 8."
            )
        if not 0 < discount <= 1:
            raise WorldModelError(f"discount: need a number in (0, 1], got {discount!r}")
        self.discount, self._simplex = discount, simnorm_dim
        # As the official code does for large action spaces.
        more = {"iterations": 8} if self.sizes.action >= _MANY_ACTIONS else {}
        self.trained_planner = {"name": "tdmpc2", **more}
        self._build(own)
        kind = own["_reward.0.weight"].dtype
        # Of the policy's deviation, on the log scale; files of before October 2024 lack them.
        self.log_low, self.log_range = (
            float(weights.get(name, official))
            for name, official in (("log_std_min", -10.0), ("log_std_dif", 12.0))
        )
        self.register_buffer("bins", torch.linspace(-_LIMIT, _LIMIT, self.sizes.bins, dtype=kind))
        self.register_buffer("columns", torch.arange(self.sizes.observation))
        self.eval().requires_grad_(requires_grad=False)

    def _build(self, own: Weights) -> None:
        simplex = self._simplex
        self._encoder = _network(part(own, "_encoder.state."), simplex=simplex)
        self._dynamics = _network(part(own, "_dynamics."), simplex=simplex)
        self._reward = _network(part(own, "_reward."))
        self._policy = _network(part(own, "_pi."))
        ensemble = part(own, "_Qs.params.")
        self._values = torch.nn.ModuleList(
            _network({name: value[member] for name, value in ensemble.items()})
            for member in range(self.sizes.members)
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], **settings: Any) -> TDMPC2:
        """Read an official checkpoint; settings are the other parameters of the class.

        Raises WorldModelError, naming missing settings, and keys and shapes that are not TD-MPC2's.
        """
        return cls.of(read_weights(path), **settings)

    @classmethod
    def of(cls, weights: Weights, **settings: Any) -> TDMPC2:
        """Return a network of weights that are read already; settings as for `load`."""
        require(settings, NEEDED, OTHERS, model="TDMPC2")
        return cls(weights, **settings)

    def for_task(self, task: Task) -> TDMPC2:
        """Return this model, reading the task's observations in its own order.

        Raises WorldModelError when it was trained on something else than this task offers.
        """
        if self._padded:
            self._narrow(task)
        sizes = (self.sizes.observation, self.sizes.action)
        order = self.conditions.order(task, model="TDMPC2", sizes=sizes)
        self.columns.copy_(torch.tensor(order))
        return self

    def _narrow(self, task: Task) -> None:
        """Leave out the inputs and actions that a smaller task of several does not have."""
        tensors, self.sizes = narrowed(
            self._padded,
            self.sizes,
            observation=min(task.observation_size, self.sizes.observation),
            action=self.sizes.action
            if self._knows_actions
            else min(task.actions.size, self.sizes.action),
        )
        self._padded = {}
        self._build(tensors)
        self.columns = torch.arange(self.sizes.observation)
        self.eval().requires_grad_(requires_grad=False)

    @on_arrays
    def encode(self, observations: Tensor) -> Tensor:
        """Map observations [B, O] to latents [B, Z]."""
        latents: Tensor = self._encoder(observations[:, self.columns])
        return latents

    @on_arrays
    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        imagined = []
        for action in self.conditions.scaled(actions).unbind(dim=1):
            latents = self._dynamics(torch.cat([latents, action], dim=-1))
            imagined.append(latents)
        return torch.stack(imagined, dim=1)

    @on_arrays
    def reward(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Predict the reward [...] of actions [..., A] taken in latents [..., Z]."""
        joint = torch.cat([latents, self.conditions.scaled(actions)], dim=-1)
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
        return self.conditions.unscaled(torch.tanh(mean + deviation * noise))

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
        return expected(logits, self.bins) if self.sizes.bins > 1 else symexp(logits[..., 0])


class _Layer(torch.nn.Module):
    """A linear layer, a layer norm, and Mish or one softmax for each simplex."""

    def __init__(self, weights: Weights, *, simplex: int) -> None:
        super().__init__()
        tensors = [weights[name] for name in ("weight", "bias", "ln.weight", "ln.bias")]
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


def _network(weights: Weights, *, simplex: int = 0) -> torch.nn.Sequential:
    """Return the layers that weights are numbered by; a layer without a norm is linear alone."""
    count = 1 + max(int(name.partition(".")[0]) for name in weights)
    layers: list[torch.nn.Module] = []
    for index in range(count):
        tensors = part(weights, f"{index}.")
        if "ln.weight" in tensors:
            layers.append(_Layer(tensors, simplex=simplex if index == count - 1 else 0))
            continue
        weight = tensors["weight"]
        linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        linear.load_state_dict(tensors)
        layers.append(linear)
    return torch.nn.Sequential(*layers)

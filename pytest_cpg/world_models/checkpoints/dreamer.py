"""DreamerV3: a recurrent latent world model (Hafner et al. 2023), as its PyTorch port stores it.

The world model of NM512/dreamerv3-torch on state observations, and its actor of continuous actions
where the file has one, in torch alone; the critic is not used. Compared with an independent forward
pass on weights made for the purpose; not tested on published weights.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from pytest_cpg.contracts import Task, WorldModelError
from pytest_cpg.world_models.binding.tensors import (
    Tensor,
    expected,
    on_arrays,
    symexp,
    symlog,
    torch,
)
from pytest_cpg.world_models.checkpoint import Checkpoint
from pytest_cpg.world_models.checkpoints.dreamer_layout import (
    DECODED,
    actor,
    checked,
    is_dreamer,
    world_model,
)
from pytest_cpg.world_models.checkpoints.training_conditions import (
    Conditions,
    keys_of,
    official,
    require,
)
from pytest_cpg.world_models.weights import (
    Weights,
    in_one_type,
    part,
    read_weights,
)

# Of every layer norm in the port.
_EPSILON = 1e-3
# The outermost bins of the reward, on the symlog scale.
_LIMIT = 20.0
# Added before the update gate's sigmoid, so that the state changes slowly at first.
_UPDATE_BIAS = -1.0
# Of the actor: least and largest deviation, and what its sigmoid begins from.
_DEVIATIONS, _DEVIATION_BIAS = (0.1, 1.0), 2.0
NEEDED = {
    "action_repeat": "2  # control steps per action; dmc_proprio of the port: 2",
    "discount": "0.997  # the port's default",
}
OTHERS = {
    "obs_keys": '["orientations", "velocity"]  # which the file says itself',
    "classes": "32  # of each stochastic group; the port's default",
    "action_low": "-1.0  # least of every action, in the units of training",
    "action_high": "1.0  # largest of every action, in the units of training",
}


def read(checkpoint: Checkpoint) -> DreamerV3 | None:
    """Return the network of a file that has most of its weights; None of another file."""
    if not is_dreamer(checkpoint.weights):
        return None
    model: DreamerV3 = official(checkpoint, DreamerV3, NEEDED, OTHERS)
    return model


class DreamerV3(torch.nn.Module):
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

    columns: Tensor
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
        super().__init__()
        tensors = in_one_type(world_model(weights))
        self.sizes, observed = checked(tensors, classes)
        keys = tuple(observed) if obs_keys is None else keys_of(obs_keys)
        if keys != tuple(observed):
            raise WorldModelError(
                f"obs_keys={list(keys)}, and the checkpoint reads {list(observed)} in this order. "
                f"Leave obs_keys out: this file says it."
            )
        self.observed, self.discount = observed, discount
        self.conditions = Conditions(
            obs_keys=keys,
            action_repeat=action_repeat,
            action_low=action_low,
            action_high=action_high,
        )
        self._start = torch.nn.Parameter(tensors["dynamics.W"])
        self._encoder = _stack(part(tensors, "encoder._mlp.layers."), "Encoder")
        self._joint = _normed(tensors, "dynamics._img_in_layers.0", "dynamics._img_in_layers.1")
        cell = "dynamics._cell.layers.GRU_"
        self._cell = _normed(tensors, f"{cell}linear", f"{cell}norm", is_active=False)
        self._prior = torch.nn.Sequential(
            _normed(tensors, "dynamics._img_out_layers.0", "dynamics._img_out_layers.1"),
            _linear(tensors, "dynamics._imgs_stat_layer"),
        )
        self._posterior = torch.nn.Sequential(
            _normed(tensors, "dynamics._obs_out_layers.0", "dynamics._obs_out_layers.1"),
            _linear(tensors, "dynamics._obs_stat_layer"),
        )
        self._reward = torch.nn.Sequential(
            _stack(part(tensors, "heads.reward.layers."), "Reward"),
            _linear(tensors, "heads.reward.mean_layer"),
        )
        self._decoder = _stack(part(tensors, "heads.decoder._mlp.layers."), "Decoder")
        self._decoded = torch.nn.ModuleList(_linear(tensors, f"{DECODED}{key}") for key in observed)
        acting = in_one_type(actor(weights))
        if acting:
            self._actor = torch.nn.ModuleList(
                (
                    _stack(part(acting, "layers."), "Actor"),
                    _linear(acting, "mean_layer"),
                    _linear(acting, "std_layer"),
                )
            )
        else:
            # What a model does not have is None.
            self.__dict__["policy"] = None
        bins = tensors["heads.reward.mean_layer.bias"]
        self.register_buffer("bins", torch.linspace(-_LIMIT, _LIMIT, len(bins), dtype=bins.dtype))
        self.register_buffer("columns", torch.arange(self.sizes.observation))
        self.eval().requires_grad_(requires_grad=False)

    @classmethod
    def load(cls, path: str | os.PathLike[str], **settings: Any) -> DreamerV3:
        """Read a checkpoint of the port; ``action_repeat`` and ``discount`` must be given.

        Raises WorldModelError, naming missing settings, and keys and shapes that are not the
        port's.
        """
        return cls.of(read_weights(path), **settings)

    @classmethod
    def of(cls, weights: Weights, **settings: Any) -> DreamerV3:
        """Return a network of weights that are read already; settings as for `load`."""
        require(settings, NEEDED, OTHERS, model="DreamerV3")
        return cls(weights, **settings)

    def for_task(self, task: Task) -> DreamerV3:
        """Return this model, reading the task's observations in its own order.

        Raises WorldModelError when it was trained on something else than this task offers.
        """
        sizes = (self.sizes.observation, self.sizes.action)
        order = self.conditions.order(task, model="DreamerV3", sizes=sizes)
        self.columns.copy_(torch.tensor(order))
        return self

    @on_arrays
    def encode(self, observations: Tensor) -> Tensor:
        """Map an episode's first observations [B, O] to latents [B, Z]."""
        recurrent = torch.tanh(self._start).expand(len(observations), -1)
        classes = self._likeliest(self._prior(recurrent))
        still = observations.new_zeros(len(observations), self.sizes.action)
        return self._observed(recurrent, classes, still, observations)

    @on_arrays
    def update(self, latents: Tensor, actions: Tensor, observations: Tensor) -> Tensor:
        """Map latents [B, Z], actions [B, A] and the observations after them [B, O] to latents."""
        recurrent, classes = self._split(latents)
        return self._observed(recurrent, classes, self.conditions.scaled(actions), observations)

    @on_arrays
    def rollout(self, latents: Tensor, actions: Tensor) -> Tensor:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        recurrent, classes = self._split(latents)
        imagined = []
        for action in self.conditions.scaled(actions).unbind(dim=1):
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
        return self.conditions.unscaled(acted.clamp(-1, 1))

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
        recurrent = latents[..., : self.sizes.recurrent]
        drawn = latents[..., self.sizes.recurrent :]
        return recurrent, drawn.round().long() if self.sizes.classes else drawn

    def _features(self, recurrent: Tensor, classes: Tensor) -> Tensor:
        return torch.cat([self._one_hot(classes), recurrent], dim=-1)

    def _one_hot(self, classes: Tensor) -> Tensor:
        if not self.sizes.classes:
            return classes
        hot = torch.nn.functional.one_hot(classes, self.sizes.classes)
        return hot.flatten(-2).to(self._start.dtype)

    def _likeliest(self, logits: Tensor) -> Tensor:
        """Return the most likely class of each group [..., G], or a Gaussian's means."""
        if not self.sizes.classes:
            return logits[..., : self.sizes.groups]
        shape = (*logits.shape[:-1], self.sizes.groups, self.sizes.classes)
        return logits.reshape(shape).argmax(dim=-1)


class _Normed(torch.nn.Module):
    """A linear layer without bias, a layer norm, and SiLU where it is active."""

    def __init__(self, weight: Tensor, gain: Tensor, shift: Tensor, *, is_active: bool) -> None:
        super().__init__()
        self.weight, self.gain, self.shift = map(torch.nn.Parameter, (weight, gain, shift))
        self._is_active = is_active

    def forward(self, inputs: Tensor) -> Tensor:
        functional = torch.nn.functional
        outputs = functional.linear(inputs, self.weight)
        normed = functional.layer_norm(outputs, self.gain.shape, self.gain, self.shift, _EPSILON)
        return functional.silu(normed) if self._is_active else normed


def _linear(own: Weights, name: str) -> torch.nn.Linear:
    weight = own[f"{name}.weight"]
    linear = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
    linear.load_state_dict(part(own, f"{name}."))
    return linear


def _normed(own: Weights, linear: str, norm: str, *, is_active: bool = True) -> _Normed:
    tensors = (own[f"{linear}.weight"], own[f"{norm}.weight"], own[f"{norm}.bias"])
    return _Normed(*tensors, is_active=is_active)


def _stack(own: Weights, name: str) -> torch.nn.Sequential:
    count = sum(key.endswith(".weight") and f"{name}_linear" in key for key in own)
    layers = (_normed(own, f"{name}_linear{i}", f"{name}_norm{i}") for i in range(count))
    return torch.nn.Sequential(*layers)

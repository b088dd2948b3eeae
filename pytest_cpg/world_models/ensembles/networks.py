"""Networks: the layers of all members of an ensemble, computed at once.

Inputs are observation and action, targets the change of the observation, the reward and, where it
is learned, whether the episode ends, as the logit of that; both as `Scaling` normalises them.
``I = O + A`` inputs, ``D = O + 1`` targets, or one more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias, get_args

from pytest_cpg.world_models.binding.tensors import Tensor, torch

Kind: TypeAlias = Literal["feed-forward", "autoregressive"]
Output: TypeAlias = Literal["deterministic", "gaussian"]

# Where log variances begin to be held (Chua et al. 2018, appendix A.1); both are trained.
HIGHEST_LOG_VARIANCE, LOWEST_LOG_VARIANCE = 0.5, -10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What the networks of an ensemble are made of.

    ``feed-forward`` ones predict all targets at once (as Janner et al. 2019), ``autoregressive``
    ones one after the other, each from those before it (Zhang et al. 2021). ``gaussian`` ones
    predict a variance beside each mean. Where it ``ends``, the last target is the episode's end.
    """

    kind: Kind
    output: Output
    observation_size: int
    action_size: int
    members: int
    hidden: int
    layers: int
    prior_scale: float
    ends: bool = False

    def __post_init__(self) -> None:
        for name, choices in (("kind", get_args(Kind)), ("output", get_args(Output))):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name} must be one of {choices}, got {getattr(self, name)!r}")
        for name in ("observation_size", "action_size", "members", "hidden", "layers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        if not 0 <= self.prior_scale < float("inf"):
            raise ValueError(f"prior_scale must be 0 or more, got {self.prior_scale!r}")

    @property
    def inputs(self) -> int:
        """Numbers in one input, ``I``."""
        return self.observation_size + self.action_size

    @property
    def targets(self) -> int:
        """Numbers that are predicted, ``D``."""
        return self.observation_size + 1 + self.ends

    @property
    def sizes(self) -> tuple[int, ...]:
        """The width of every layer, from what it reads to what it gives."""
        # An autoregressive network reads the targets before the one it predicts, and which it is.
        read = self.inputs + 2 * self.targets * (self.kind == "autoregressive")
        outputs = self.means * (2 if self.output == "gaussian" else 1)
        return (read, *[self.hidden] * self.layers, outputs)

    @property
    def means(self) -> int:
        """The means among what a network gives, which is all that a prior does."""
        return 1 if self.kind == "autoregressive" else self.targets


class Layers(NamedTuple):
    """Weights [E, in, out] and biases [E, 1, out], one of each a layer."""

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]

    def above_first(self, x: Tensor) -> Tensor:
        """Return the output [E, B, out] for what the first layer gave [E, B, hidden]."""
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            x = torch.baddbmm(bias, torch.nn.functional.silu(x), weight)
        return x

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map inputs [E, B, in] to outputs [E, B, out]."""
        return self.above_first(torch.baddbmm(self.biases[0], inputs, self.weights[0]))


class Heads(NamedTuple):
    """Trained layers, the layers of their prior, and the bounds of log variances."""

    trained: Layers
    # Never trained: their mean, times ``prior_scale``, is added.
    prior: Layers | None = None
    # The lowest and highest of each target, [2, E, 1, D].
    log_variances: Tensor | None = None


class Predicted(NamedTuple):
    """Normalised targets: means [E, B, D] and, of a Gaussian, log variances [E, B, D]."""

    means: Tensor
    log_variances: Tensor | None


def drawn_layers(sizes: Sequence[int], members: int, generator: torch.Generator) -> Layers:
    """Draw weights and biases as `torch.nn.Linear` does, from a generator of one's own."""
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    for size_in, size_out in pairwise(sizes):
        bound = size_in**-0.5
        for parts, rows in ((weights, size_in), (biases, 1)):
            part = torch.empty(members, rows, size_out)
            parts.append(part.uniform_(-bound, bound, generator=generator))
    return Layers(weights, biases)


def fitted(architecture: Architecture, heads: Heads, inputs: Tensor, targets: Tensor) -> Predicted:
    """Return predictions for inputs [E, B, I] in training, where targets [E, B, D] are known."""
    if architecture.kind == "feed-forward":
        return _all_at_once(architecture, heads, inputs)
    members, rows, count = targets.shape
    before = torch.ones(count, count).tril(-1)
    seen = targets[:, :, None] * before
    which = torch.eye(count).expand(members, rows, count, count)
    repeated = inputs[:, :, None].expand(-1, -1, count, -1)
    read = torch.cat([repeated, seen, which], dim=-1).reshape(members, rows * count, -1)
    outputs = _with_prior(architecture, heads, read).reshape(members, rows, count, -1)
    return _bounded(heads, outputs[..., 0], outputs[..., -1])


def predicted(
    architecture: Architecture, heads: Heads, inputs: Tensor, noise: Tensor | None = None
) -> Predicted:
    """Return predictions for inputs [E, B, I], where noise [E, B, D] makes means samples."""
    if architecture.kind == "autoregressive":
        return _one_by_one(architecture, heads, inputs, noise)
    whole = _all_at_once(architecture, heads, inputs)
    return Predicted(_sampled(whole, noise), whole.log_variances)


def _all_at_once(architecture: Architecture, heads: Heads, inputs: Tensor) -> Predicted:
    outputs, count = _with_prior(architecture, heads, inputs), architecture.targets
    return _bounded(heads, outputs[..., :count], outputs[..., count:])


def _with_prior(architecture: Architecture, heads: Heads, inputs: Tensor) -> Tensor:
    """Return outputs with the prior's means on top of the trained ones."""
    outputs = heads.trained(inputs)
    if heads.prior is None:
        return outputs
    means = heads.prior.weights[-1].shape[-1]
    prior = architecture.prior_scale * heads.prior(inputs)
    return torch.cat([outputs[..., :means] + prior, outputs[..., means:]], dim=-1)


def _bounded(heads: Heads, means: Tensor, logs: Tensor) -> Predicted:
    """Hold log variances softly between their bounds, as Chua et al. 2018, appendix A.1, do."""
    if heads.log_variances is None:
        return Predicted(means, None)
    lowest, highest = heads.log_variances
    logs = highest - torch.nn.functional.softplus(highest - logs)
    return Predicted(means, lowest + torch.nn.functional.softplus(logs - lowest))


def _sampled(whole: Predicted, noise: Tensor | None) -> Tensor:
    if noise is None or whole.log_variances is None:
        return whole.means
    return whole.means + torch.exp(0.5 * whole.log_variances) * noise


def _one_by_one(
    architecture: Architecture, heads: Heads, inputs: Tensor, noise: Tensor | None
) -> Predicted:
    """Predict each target from those before it: the first layer's sum grows by one at a time."""
    count, begin = architecture.targets, architecture.inputs
    parts = [heads.trained, *([] if heads.prior is None else [heads.prior])]
    sums = [
        torch.baddbmm(layers.biases[0], inputs, layers.weights[0][:, :begin]) for layers in parts
    ]
    means, logs = [], []
    for target in range(count):
        row = begin + count + target
        outputs = [
            layers.above_first(total + layers.weights[0][:, row : row + 1])
            for layers, total in zip(parts, sums, strict=True)
        ]
        mean = outputs[0][..., :1]
        if len(outputs) > 1:
            mean = mean + architecture.prior_scale * outputs[1]
        own, column = slice(target, target + 1), begin + target
        bounds = heads.log_variances
        held = heads._replace(log_variances=None if bounds is None else bounds[..., own])
        single = _bounded(held, mean, outputs[0][..., 1:])
        value = _sampled(single, None if noise is None else noise[..., own])
        sums = [
            total + value * layers.weights[0][:, column : column + 1]
            for layers, total in zip(parts, sums, strict=True)
        ]
        means.append(value)
        logs += [] if single.log_variances is None else [single.log_variances]
    return Predicted(torch.cat(means, dim=-1), torch.cat(logs, dim=-1) if logs else None)

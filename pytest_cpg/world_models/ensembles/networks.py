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

Output: TypeAlias = Literal["deterministic", "gaussian"]

# Where log variances begin to be held (Chua et al. 2018, appendix A.1); both are trained.
HIGHEST_LOG_VARIANCE, LOWEST_LOG_VARIANCE = 0.5, -10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What the networks of an ensemble are made of.

    Attributes
    ----------
    output : "deterministic" or "gaussian"
        Whether a variance is predicted beside each mean.
    observation_size, action_size : int
    members : int
    hidden, layers : int
        Width and number of hidden layers.
    prior_scale : float
        Of the randomised prior; 0 for none.
    ends : bool
        Whether the last target is the end of an episode.
    """

    output: Output
    observation_size: int
    action_size: int
    members: int
    hidden: int
    layers: int
    prior_scale: float
    ends: bool = False

    def __post_init__(self) -> None:
        if self.output not in get_args(Output):
            raise ValueError(f"output must be one of {get_args(Output)}, got {self.output!r}")
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
        outputs = self.targets * (2 if self.output == "gaussian" else 1)
        return (self.inputs, *[self.hidden] * self.layers, outputs)


class Layers(NamedTuple):
    """Weights [E, in, out] and biases [E, 1, out], one of each a layer."""

    weights: Sequence[Tensor]
    biases: Sequence[Tensor]

    def __call__(self, inputs: Tensor) -> Tensor:
        """Map inputs [E, B, in] to outputs [E, B, out]."""
        x = torch.baddbmm(self.biases[0], inputs, self.weights[0])
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            x = torch.baddbmm(bias, torch.nn.functional.silu(x), weight)
        return x


class Heads(NamedTuple):
    """Trained layers, the layers of their prior, and the bounds of log variances.

    Attributes
    ----------
    trained : Layers
    prior : Layers or None
        Never trained: their mean, times ``prior_scale``, is added.
    log_variances : tensor [2, E, 1, D] or None
        The lowest and highest log variance of each target.
    """

    trained: Layers
    prior: Layers | None = None
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


def predicted(architecture: Architecture, heads: Heads, inputs: Tensor) -> Predicted:
    """Return predictions for inputs [E, B, I]."""
    outputs, count = heads.trained(inputs), architecture.targets
    means, logs = outputs[..., :count], outputs[..., count:]
    if heads.prior is not None:
        means = means + architecture.prior_scale * heads.prior(inputs)
    if heads.log_variances is None:
        return Predicted(means, None)
    # Held softly between their bounds, as Chua et al. 2018, appendix A.1, do.
    lowest, highest = heads.log_variances
    logs = highest - torch.nn.functional.softplus(highest - logs)
    return Predicted(means, lowest + torch.nn.functional.softplus(logs - lowest))

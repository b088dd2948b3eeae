"""MLP: a small feed-forward world model in observation space, and its file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.world_models.binding.tensors import Tensor, torch
from pytest_cpg.world_models.checkpoints.readers import Checkpoint
from pytest_cpg.world_models.weights import read_content

Variant: TypeAlias = Literal["normalised-delta", "plain"]
Activation: TypeAlias = Literal["relu", "silu"]

FORMAT = "pytest-cpg mlp 1"


# Weights. Of 64 x 64 an arm of the acrobot preset takes 2 s of one processor, and a worker 3 s to
# start.
_SMALL = 2**15
_ACTIVATIONS: Mapping[str, Callable[..., Tensor]] = {
    "relu": torch.nn.functional.relu,
    "silu": torch.nn.functional.silu,
}


class Scaling(NamedTuple):
    """How a network reads inputs [O + A] and predicts targets [O]: ``(value - mean) / scale``."""

    input_mean: Tensor
    input_scale: Tensor
    target_mean: Tensor
    target_scale: Tensor


def read(checkpoint: Checkpoint) -> MLP | None:
    """Return the model that `MLP.save` wrote; None of another file."""
    content = checkpoint.content
    if not (isinstance(content, dict) and content.get("format") == FORMAT):
        return None
    checkpoint.refuse_settings()
    return MLP.load(checkpoint.path)


class MLP:
    """A feed-forward network that predicts the next observation, in float32.

    It is called like any dynamics; its `rollout` computes the same with fewer, faster operations.

    Parameters
    ----------
    weights, biases : tensors [out, in], tensors [out]
        One pair a layer, float32; ``in`` of the first is ``O + A``, ``out`` of the last ``O``.
    variant : "normalised-delta" or "plain"
        Whether the target is the change of the observation, or the next observation itself.
    validation_error : float
        Mean squared error of the next observation on rows kept from training, in the task's units.
    activation : "relu" or "silu"
        What follows every layer but the last; the second is smooth.
    """

    def __init__(
        self,
        weights: Sequence[Tensor],
        biases: Sequence[Tensor],
        scaling: Scaling,
        *,
        variant: Variant,
        validation_error: float,
        activation: Activation = "relu",
    ) -> None:
        self.variant, self.activation = variant, activation
        self.validation_error = validation_error
        self.observation_size = len(biases[-1])
        self.action_size = weights[0].shape[1] - self.observation_size
        self._weights = [weight.detach().clone() for weight in weights]
        self._biases = [bias.detach().clone() for bias in biases]
        self._scaling = scaling
        self._folded = _fold(self._weights, self._biases, scaling)

    def __repr__(self) -> str:
        hidden = "x".join(str(len(bias)) for bias in self._biases[:-1])
        return f"MLP({hidden}, {self.variant}, validation error {self.validation_error:.3g})"

    def __call__(self, observations: Any, actions: Any) -> Any:
        """Map observations [B, O] and actions [B, A] to next observations [B, O].

        Tensors give a tensor, anything else a numpy array.
        """
        check_sizes("MLP", (self.observation_size, self.action_size), observations, actions)
        before = float32(observations)
        inputs = torch.cat([before, float32(actions)], dim=-1)
        scaled = (inputs - self._scaling.input_mean) / self._scaling.input_scale
        change = forward(self._weights, self._biases, scaled, self.activation)
        after = change * self._scaling.target_scale + self._scaling.target_mean
        if self.variant == "normalised-delta":
            after = before + after
        return after if isinstance(observations, Tensor) else after.numpy()

    @property
    def is_small(self) -> bool:
        """Whether a worker process takes longer to start than a usual arm to imagine."""
        return sum(weights.numel() for weights in self._weights) < _SMALL

    def rollout(self, observations: FloatArray, actions: FloatArray) -> FloatArray:
        """Map observations [B, O], actions [B, H, A] to those after each action [B, H, O]."""
        check_sizes("MLP", (self.observation_size, self.action_size), observations, actions)
        with torch.inference_mode():
            plans = float32(actions).permute(1, 2, 0)
            imagined = self._imagine(float32(observations).t(), plans)
            # Made flat and then turned, which takes a third of the time of both at once.
            horizon, size, rows = imagined.shape
            flat = imagined.reshape(horizon * size, rows).t().contiguous()
            return flat.reshape(rows, horizon, size).numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything the model needs to one file."""
        content = {
            "format": FORMAT,
            "variant": self.variant,
            "activation": self.activation,
            "validation_error": self.validation_error,
            "weights": self._weights,
            "biases": self._biases,
            "scaling": self._scaling._asdict(),
        }
        torch.save(content, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> MLP:
        """Read a model that `save` has written; nothing else in the file is ever executed.

        Raises WorldModelError when there is no such file, or it holds something else.
        """
        content = read_content(path)
        if not isinstance(content, dict):
            raise _foreign(path, f"it holds a {type(content).__name__}")
        try:
            # Files from before there was a choice have none.
            activation = content.get("activation", "relu")
            for name, value, choices in (
                ("format", content["format"], (FORMAT,)),
                ("variant", content["variant"], get_args(Variant)),
                ("activation", activation, get_args(Activation)),
            ):
                if value not in choices:
                    raise ValueError(f"its {name} is {value!r}, expected {' or '.join(choices)!r}")
            weights, biases = content["weights"], content["biases"]
            scaling = Scaling(**content["scaling"])
            _check_parts(weights, biases, scaling)
            return cls(
                weights,
                biases,
                scaling,
                variant=content["variant"],
                validation_error=float(content["validation_error"]),
                activation=activation,
            )
        except KeyError as error:
            raise _foreign(path, f"it has no entry {error}") from error
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise _foreign(path, str(error)) from error

    def _imagine(self, current: Tensor, plans: Tensor) -> Tensor:
        """Map observations [O, B] and plans [H, A, B] to observations [H, O, B]."""
        # Rows of the batch are columns here, because every product is then one large and flat
        # enough to be fast, and a last row of ones carries the biases. Written in place: memory
        # that stays in the cache is a third of the time.
        (size, rows), horizon = current.shape, len(plans)
        first, *middle, last = self._folded
        inputs = torch.ones(horizon + 1, first.shape[1], rows)
        inputs[:-1, size:-1] = plans
        inputs[0, :size] = current
        hidden = [torch.ones(matrix.shape[0] + 1, rows) for matrix in self._folded[:-1]]
        # Without the ones. A view takes as long as an activation of a few rows.
        free = [layer[:-1] for layer in hidden]
        layers = list(zip(middle, hidden, free[1:], strict=False))
        bend = _ACTIVATIONS[self.activation]
        for now, after in zip(inputs, inputs[1:, :size], strict=False):
            bend(torch.mm(first, now, out=free[0]), inplace=True)
            for matrix, below, above in layers:
                bend(torch.mm(matrix, below, out=above), inplace=True)
            if self.variant == "normalised-delta":
                torch.addmm(now[:size], last, hidden[-1], out=after)
            else:
                torch.mm(last, hidden[-1], out=after)
        return inputs[1:, :size]


def check_sizes(model: str, trained: tuple[int, int], observations: Any, actions: Any) -> None:
    """Raise WorldModelError unless rows are of the sizes that a model was trained on."""
    sizes = (np.shape(observations)[-1], np.shape(actions)[-1])
    if sizes != trained:
        raise WorldModelError(
            f"this {model} was trained on observations of size {trained[0]} and actions of size "
            f"{trained[1]}, and was given sizes {sizes[0]} and {sizes[1]}. Train it on transitions "
            f"of what it is asked about."
        )


def forward(
    weights: Sequence[Tensor], biases: Sequence[Tensor], inputs: Tensor, activation: Activation
) -> Tensor:
    """Return the network's output [..., O] for its own inputs [..., O + A]."""
    x = inputs
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        x = _ACTIVATIONS[activation](torch.nn.functional.linear(x, weight, bias))
    return torch.nn.functional.linear(x, weights[-1], biases[-1])


def _fold(weights: Sequence[Tensor], biases: Sequence[Tensor], scaling: Scaling) -> list[Tensor]:
    """Return layers [out, in + 1], biases last, that read and predict in the task's units."""
    # In double: a mean that is large beside its scale would cancel in single.
    wide = [weight.double() for weight in weights]
    shift = [bias.double() for bias in biases]
    wide[0] = wide[0] / scaling.input_scale.double()
    shift[0] = shift[0] - wide[0] @ scaling.input_mean.double()
    scale = scaling.target_scale.double()
    wide[-1] = wide[-1] * scale[:, None]
    shift[-1] = shift[-1] * scale + scaling.target_mean.double()
    pairs = zip(wide, shift, strict=True)
    return [torch.cat([weight, bias[:, None]], dim=1).float() for weight, bias in pairs]


def float32(values: Any) -> Tensor:
    """Return numbers as a float32 tensor; what is no tensor yet is copied."""
    if isinstance(values, Tensor):
        return values.float()
    return torch.tensor(values, dtype=torch.float32)


def _check_parts(weights: Any, biases: Any, scaling: Scaling) -> None:
    """Raise ValueError unless the shapes fit each other from layer to layer."""
    expected = (weights[0].shape[1], len(biases[-1]))
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        size_in = len(biases[layer - 1]) if layer else expected[0]
        if weight.shape != (len(bias), size_in) or bias.ndim != 1:
            raise ValueError(
                f"layer {layer} has weights {list(weight.shape)} and biases {list(bias.shape)}, "
                f"expected inputs of size {size_in}"
            )
    for name, tensor in scaling._asdict().items():
        size = expected[0] if name.startswith("input") else expected[1]
        if tensor.shape != (size,):
            raise ValueError(f"{name} has shape {list(tensor.shape)}, expected [{size}]")


def _foreign(path: str | os.PathLike[str], why: str) -> WorldModelError:
    return WorldModelError(
        f"{os.fspath(path)!r} is no model saved by MLP.save: {why}. Train the model again and save "
        f"it, or load a network of your own with torch and return that from the fixture."
    )

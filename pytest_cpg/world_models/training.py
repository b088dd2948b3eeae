"""Training: fitting the MLP world model to transitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias, get_args

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, WorldModelError
from pytest_cpg.world_models.binding.tensors import Tensor, torch
from pytest_cpg.world_models.binding.torch_state import one_torch_thread
from pytest_cpg.world_models.mlp import MLP, Activation, Scaling, Variant, float32, forward
from pytest_cpg.world_models.optimiser import Adam, one_cycle
from pytest_cpg.world_models.transitions import Transitions

# Relative spread below which a column counts as constant: rounding of float32.
_CONSTANT = 1e-7

Schedule: TypeAlias = Literal["constant", "one-cycle"]

# Inputs and targets.
_Rows: TypeAlias = tuple[Tensor, Tensor]
# Weights and biases, one of each a layer.
_Network: TypeAlias = tuple[list[Tensor], list[Tensor]]


def train_mlp(
    transitions: Transitions,
    *,
    seed: int,
    hidden: int = 64,
    layers: int = 2,
    epochs: int = 200,
    steps: int | None = None,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    schedule: Schedule = "constant",
    validation_share: float = 0.1,
    variant: Variant = "normalised-delta",
    activation: Activation = "relu",
) -> MLP:
    """Return an MLP fitted with Adam to the transitions; defaults are the published ones.

    The weights of the epoch with the lowest validation loss are kept, the earliest on a tie.

    Parameters
    ----------
    seed : int
        Decides initial weights, the validation rows and the order of training, all from a
        generator of its own.
    hidden, layers : int
        Width and number of hidden layers.
    epochs : int
        Passes over the training rows.
    steps : int, optional
        Most gradient steps, whatever ``epochs`` says.
    schedule : "constant" or "one-cycle"
        Keep the learning rate, or let it rise to ``learning_rate`` and fall to nearly zero over
        all steps (Smith and Topin 2019).
    validation_share : float
        Share of the rows in (0, 1) that is kept from training.
    variant : "normalised-delta" or "plain"
        Predict the change of the observation, inputs and targets normalised; or, as published,
        the next observation from what was observed, neither normalised.
    activation : "relu" or "silu"
        As published, or smooth: plans that reach far through few transitions go astray less.
    """
    for name, value, choices in (
        ("activation", activation, get_args(Activation)),
        ("variant", variant, get_args(Variant)),
        ("schedule", schedule, get_args(Schedule)),
    ):
        if value not in choices:
            raise ValueError(f"{name} must be one of {choices}, got {value!r}")
    if min(hidden, layers, epochs, batch_size) < 1 or (steps is not None and steps < 1):
        raise ValueError("hidden, layers, epochs, steps and batch_size must be at least 1")
    if not 0 < validation_share < 1 or len(transitions) < 2:
        raise ValueError(
            f"need validation_share in (0, 1) and at least 2 transitions, got "
            f"{validation_share!r} and {len(transitions)}"
        )
    generator = torch.Generator().manual_seed(seed)
    with one_torch_thread(), torch.inference_mode(mode=False), torch.enable_grad():
        (inputs, targets), held_out, scaling = _rows(
            transitions, validation_share, variant, generator
        )
        units = torch.where(scaling.target_scale > 0, scaling.target_scale, 1.0)
        sizes = [inputs.shape[1], *[hidden] * layers, targets.shape[1]]
        network = _initial(sizes, generator)
        left = epochs * math.ceil(len(inputs) / batch_size)
        left = left if steps is None else min(left, steps)
        lowest, best = float("inf"), network
        optimiser = Adam([*network[0], *network[1]])
        cycle = one_cycle(learning_rate, left)

        def held_errors() -> Tensor:
            """Return errors on rows that are kept from training, in the task's units."""
            with torch.no_grad():
                outputs = forward(*network, held_out[0], activation)
                return outputs * scaling.target_scale + scaling.target_mean - held_out[1]

        for _ in range(epochs):
            order = torch.randperm(len(inputs), generator=generator)
            batches = torch.split(order, batch_size)[:left]
            for batch in batches:
                outputs = forward(*network, inputs[batch], activation)
                loss = (outputs - targets[batch]).square().mean()
                if schedule == "one-cycle":
                    rate, momentum = next(cycle)
                    optimiser.step(loss, rate=rate, momentum=momentum)
                else:
                    optimiser.step(loss, rate=learning_rate)
            errors = held_errors()
            held_loss = float((errors / units).square().mean())
            if held_loss < lowest:
                lowest, validation_error = held_loss, float(errors.square().mean())
                weights, biases = ([p.detach().clone() for p in parts] for parts in network)
                best = weights, biases
            left -= len(batches)
            if not left:
                break
    if lowest == float("inf"):
        raise WorldModelError(
            f"training diverged: no epoch had a finite validation loss. Lower learning_rate, "
            f"{learning_rate!r}, or use variant='normalised-delta' on data of large numbers."
        )
    return MLP(
        *best,
        scaling,
        variant=variant,
        validation_error=validation_error,
        activation=activation,
    )


def _rows(
    transitions: Transitions, validation_share: float, variant: Variant, generator: torch.Generator
) -> tuple[_Rows, _Rows, Scaling]:
    """Return what to train on, what is held out, and a scaling that the former alone decide.

    Both are as a network reads and predicts them, but for targets held out: in the task's units.
    """
    inputs = np.concatenate([transitions.observations, transitions.actions], axis=1)
    targets, is_normalised = transitions.next_observations, variant == "normalised-delta"
    if is_normalised:
        targets = targets - transitions.observations
    order = torch.randperm(len(inputs), generator=generator).numpy()
    count = max(1, min(len(inputs) - 1, round(validation_share * len(inputs))))
    held_out, training = order[:count], order[count:]
    read, predicted, scaling = scaled(
        inputs,
        targets,
        of=training,
        normalise_inputs=is_normalised,
        normalise_targets=is_normalised,
    )
    return (
        (float32(read[training]), float32(predicted[training])),
        (float32(read[held_out]), float32(targets[held_out])),
        scaling,
    )


def scaled(
    inputs: FloatArray,
    targets: FloatArray,
    *,
    of: IntArray | slice,
    normalise_inputs: bool,
    normalise_targets: bool,
) -> tuple[FloatArray, FloatArray, Scaling]:
    """Return inputs [T, I] and targets [T, D] as a network reads and predicts them, and how.

    Rows ``of`` them decide.
    """
    input_mean, input_spread = _moments(inputs[of], is_normalised=normalise_inputs)
    target_mean, target_scale = _moments(targets[of], is_normalised=normalise_targets)
    # A constant input must not be blown up when it changes after all; a constant target keeps its
    # scale of zero and is predicted exactly, or the error of a fit would add up over a rollout.
    input_scale = np.where(input_spread > 0, input_spread, 1.0)
    scaling = Scaling(
        input_mean=float32(input_mean),
        input_scale=float32(input_scale),
        target_mean=float32(target_mean),
        target_scale=float32(target_scale),
    )
    read = (inputs - input_mean) / input_scale
    return read, (targets - target_mean) / np.where(target_scale > 0, target_scale, 1.0), scaling


def _moments(values: FloatArray, *, is_normalised: bool) -> tuple[FloatArray, FloatArray]:
    """Return each column's mean and deviation, the latter 0 where the column is constant."""
    if not is_normalised:
        return np.zeros(values.shape[1]), np.ones(values.shape[1])
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    is_constant = deviation <= _CONSTANT * np.maximum(1.0, np.abs(mean))
    return mean, np.where(is_constant, 0.0, deviation)


def _initial(sizes: Sequence[int], generator: torch.Generator) -> _Network:
    """Draw weights and biases as `torch.nn.Linear` does, but from our own generator."""
    weights: list[Tensor] = []
    biases: list[Tensor] = []
    for size_in, size_out in pairwise(sizes):
        bound = size_in**-0.5
        for parts, shape in ((weights, (size_out, size_in)), (biases, (size_out,))):
            part = torch.empty(shape).uniform_(-bound, bound, generator=generator)
            parts.append(part.requires_grad_())
    return weights, biases

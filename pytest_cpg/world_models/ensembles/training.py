"""Training: fitting an ensemble of networks to transitions, each member to its own resample."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.binding.tensors import Tensor, torch
from pytest_cpg.world_models.binding.torch_state import one_torch_thread
from pytest_cpg.world_models.ensembles.model import EnsembleNetwork
from pytest_cpg.world_models.ensembles.networks import (
    HIGHEST_LOG_VARIANCE,
    LOWEST_LOG_VARIANCE,
    Architecture,
    Heads,
    Kind,
    Output,
    Predicted,
    drawn_layers,
    fitted,
)
from pytest_cpg.world_models.ensembles.rollout import ClipBounds, Terminated
from pytest_cpg.world_models.mlp import Scaling, float32
from pytest_cpg.world_models.optimiser import Adam
from pytest_cpg.world_models.training import scaled
from pytest_cpg.world_models.transitions import Transitions

# Of the bounds of log variances in the loss (Chua et al. 2018, their released code).
_BOUNDS_WEIGHT = 0.01

# Called with the updates done, all of them, and the loss of the last one.
Progress: TypeAlias = Callable[[int, int, float], None]


def train_ensemble(
    transitions: Transitions,
    *,
    seed: int,
    members: int = 10,
    updates: int = 1000,
    kind: Kind = "feed-forward",
    output: Output = "deterministic",
    hidden: int = 200,
    layers: int = 3,
    prior_scale: float = 0.0,
    normalise_inputs: bool = True,
    normalise_targets: bool = True,
    clip: bool = True,
    batch_size: int = 256,
    learning_rate: float = 4e-3,
    terminated: Terminated | None = None,
    progress: Progress | None = None,
) -> EnsembleNetwork:
    """Return an ensemble fitted with Adam to transitions with rewards.

    Each member has initial weights of its own and a resample of the transitions, drawn with
    replacement. Where transitions have terminations, members learn when an episode ends. Raises
    ValueError for transitions without rewards, and WorldModelError when the loss is not finite.

    Parameters
    ----------
    seed : int
        Decides weights, priors, resamples and batches, all from a generator of its own.
    members, updates : int
        ``E``, 2 or more; gradient steps.
    kind, output, hidden, layers
        See `Architecture`.
    prior_scale : float
        Of a randomised prior for each member, 0 for none (Osband et al. 2018).
    normalise_inputs, normalise_targets : bool
        By mean and deviation of the transitions.
    clip : bool
        Keep imagined observations and rewards to what the transitions hold.
    learning_rate : float
        At a lower one, such as 1e-3, most of the error is common to all members after a thousand
        updates, and their spread says nothing of it (`examples/experiments/opcc`).
    terminated : callable, optional
        Maps observations [T, O] to whether an episode ends there, bool [T]: in place of the
        terminations of the transitions. Queries take the same rule, and then nobody learns it.
    progress : callable, optional
        Called after every update, such as `show_progress`; see `Progress`.
    """
    if transitions.rewards is None:
        raise ValueError(
            "these transitions have no rewards, and returns are sums of rewards. Give "
            "Transitions(rewards=...), or collect_transitions(..., with_rewards=True)."
        )
    if min(updates, batch_size) < 1 or members < 2 or not len(transitions):
        raise ValueError(
            f"need updates and batch_size of 1 or more, 2 or more members and 1 or more "
            f"transitions, got {updates!r}, {batch_size!r}, {members!r} and {len(transitions)}"
        )
    if terminated is not None:
        ends = np.asarray(terminated(transitions.next_observations))
        transitions = replace(transitions, terminations=ends)
    architecture = Architecture(
        kind=kind,
        output=output,
        observation_size=transitions.observations.shape[1],
        action_size=transitions.actions.shape[1],
        members=members,
        hidden=hidden,
        layers=layers,
        prior_scale=float(prior_scale),
        ends=transitions.terminations is not None,
    )
    with one_torch_thread(), torch.inference_mode(mode=False), torch.enable_grad():
        inputs, targets, scaling = _data(transitions, normalise_inputs, normalise_targets)
        generator = torch.Generator().manual_seed(seed)
        heads = _drawn_heads(architecture, generator)
        losses = _fitting(
            architecture, heads, inputs, targets, generator, updates, batch_size, learning_rate
        )
        for update, loss in enumerate(losses, start=1):
            if not math.isfinite(loss):
                raise WorldModelError(
                    f"training diverged: the loss of update {update} is {loss}. Lower "
                    f"learning_rate, or normalise inputs and targets."
                )
            if progress is not None:
                progress(update, updates, loss)
    return EnsembleNetwork(
        architecture=architecture,
        heads=heads,
        scaling=scaling,
        clip_bounds=ClipBounds.of(transitions) if clip else None,
        updates=updates,
    )


def _fitting(
    architecture: Architecture,
    heads: Heads,
    inputs: Tensor,
    targets: Tensor,
    generator: torch.Generator,
    updates: int,
    batch_size: int,
    learning_rate: float,
) -> Iterator[float]:
    """Fit networks to scaled inputs [T, I] and targets [T, D]; yield the loss of each update."""
    members = architecture.members
    # Half the memory of what torch draws: with a hundred members that is what counts.
    resamples = torch.randint(
        len(inputs), (members, len(inputs)), generator=generator, dtype=torch.int32
    )
    parameters = [*heads.trained.weights, *heads.trained.biases]
    bounds = heads.log_variances
    if bounds is not None:
        parameters.append(bounds)
    for parameter in parameters:
        parameter.requires_grad_()
    optimiser = Adam(parameters)
    for _ in range(updates):
        places = torch.randint(len(inputs), (members, batch_size), generator=generator)
        rows = resamples.gather(1, places)
        fit = fitted(architecture, heads, inputs[rows], targets[rows])
        loss = _loss(fit, targets[rows], ends=architecture.ends)
        total = loss if bounds is None else loss + _BOUNDS_WEIGHT * (bounds[1] - bounds[0]).sum()
        optimiser.step(total, rate=learning_rate)
        yield float(loss.detach()) / members
    for parameter in parameters:
        parameter.requires_grad = False


def _drawn_heads(architecture: Architecture, generator: torch.Generator) -> Heads:
    trained = drawn_layers(architecture.sizes, architecture.members, generator)
    # Drawn once and never trained, it keeps members apart where there are no data (Osband et al.
    # 2018, "Randomized Prior Functions for Deep Reinforcement Learning", algorithm 1).
    prior = None
    if architecture.prior_scale:
        sizes = (*architecture.sizes[:-1], architecture.means)
        prior = drawn_layers(sizes, architecture.members, generator)
    if architecture.output == "deterministic":
        return Heads(trained, prior)
    bounds = torch.tensor([LOWEST_LOG_VARIANCE, HIGHEST_LOG_VARIANCE])[:, None, None, None]
    shape = (2, architecture.members, 1, architecture.targets)
    return Heads(trained, prior, bounds.expand(shape).clone())


def _loss(fit: Predicted, targets: Tensor, *, ends: bool) -> Tensor:
    """Return the members' sum of squared or Gaussian losses, logistic for an episode's end."""
    errors = (fit.means - targets).square()
    if fit.log_variances is not None:
        errors = errors * torch.exp(-fit.log_variances) + fit.log_variances
    if ends:
        last = torch.nn.functional.binary_cross_entropy_with_logits(
            fit.means[..., -1:], targets[..., -1:], reduction="none"
        )
        errors = torch.cat([errors[..., :-1], last], dim=-1)
    return errors.mean(dim=(1, 2)).sum()


def _data(
    transitions: Transitions, normalise_inputs: bool, normalise_targets: bool
) -> tuple[Tensor, Tensor, Scaling]:
    """Return inputs [T, I] and targets [T, D] as networks read and predict them, and how."""
    before, after = transitions.observations, transitions.next_observations
    rewards = np.asarray(transitions.rewards)[:, None]
    read, predicted, scaling = scaled(
        np.concatenate([before, transitions.actions], axis=1),
        np.concatenate([after - before, rewards], axis=1),
        of=slice(None),
        normalise_inputs=normalise_inputs,
        normalise_targets=normalise_targets,
    )
    if transitions.terminations is None:
        return float32(read), float32(predicted), scaling
    ends = torch.tensor(transitions.terminations, dtype=torch.float32)
    one_more = torch.nn.functional.pad
    scaling = scaling._replace(
        target_mean=one_more(scaling.target_mean, (0, 1)),
        target_scale=one_more(scaling.target_scale, (0, 1), value=1.0),
    )
    return float32(read), torch.cat([float32(predicted), ends[:, None]], dim=1), scaling


def show_progress(done: int, updates: int, loss: float) -> None:
    """Write how far a training is to standard error, on one line; see `train_ensemble`."""
    if done % max(1, updates // 100) and done != updates:
        return
    end = "\n" if done == updates else ""
    sys.stderr.write(f"\rtraining: {done} of {updates} updates, loss {loss:.4g} {end}")
    sys.stderr.flush()

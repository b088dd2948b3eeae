"""Training: fitting an ensemble of networks to transitions, each member to its own resample."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

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
    Layers,
    Output,
    Predicted,
    drawn_layers,
    fitted,
)
from pytest_cpg.world_models.ensembles.rollout import ClipBounds, Terminated
from pytest_cpg.world_models.mlp import Scaling, float32
from pytest_cpg.world_models.training import scaled
from pytest_cpg.world_models.transitions import Transitions

# Updates after which what is done is copied: an interruption costs no more than these.
_KEPT_EVERY = 50
# Of the bounds of log variances in the loss (Chua et al. 2018, their released code).
_BOUNDS_WEIGHT = 0.01

# What Adam remembers of each parameter.
_MOMENTS = ("exp_avg", "exp_avg_sq")

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
    keep: str | os.PathLike[str] | None = None,
) -> EnsembleNetwork:
    """Return an ensemble fitted with Adam to transitions with rewards.

    Each member has initial weights of its own and a resample of the transitions, drawn with
    replacement. Where transitions have terminations, members learn when an episode ends. Raises
    ValueError for transitions without rewards, or when ``keep`` holds a training of something else.
    Raises WorldModelError when the loss is not finite.

    Parameters
    ----------
    transitions : Transitions
        With rewards.
    seed : int
        Decides weights, priors, resamples and batches, all from a generator of its own.
    members : int
        ``E``, 2 or more.
    updates : int
        Gradient steps.
    kind, output, hidden, layers
        See `Architecture`.
    prior_scale : float
        Of a randomised prior for each member, 0 for none (Osband et al. 2018).
    normalise_inputs, normalise_targets : bool
        By mean and deviation of the transitions.
    clip : bool
        Keep imagined observations and rewards to what the transitions hold, before and after steps.
    learning_rate : float
        Of Adam. After a thousand updates at a lower one, such as 1e-3, most of the error is common
        to all members, and their spread says nothing of it (`examples/experiments/opcc`).
    terminated : callable, optional
        Maps observations [T, O] to whether an episode ends there, bool [T]: in place of the
        terminations of the transitions. Queries take the same rule, and then nobody learns it.
    progress : callable, optional
        Called after every update with how many are done, how many there are, and the loss;
        `show_progress` writes a line.
    keep : path, optional
        A .safetensors file that is written at the end, and when training is interrupted. The same
        call goes on from there, to the same bits. A larger ``updates`` does, too. The model can be
        loaded from it meanwhile.
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
    said = f"{architecture} {seed} {normalise_inputs} {normalise_targets}"
    digest = _digest(transitions, f"{said} {batch_size} {learning_rate}")
    with one_torch_thread(), torch.inference_mode(mode=False), torch.enable_grad():
        training = _Training(
            architecture,
            *_data(transitions, normalise_inputs, normalise_targets),
            torch.Generator().manual_seed(seed),
            batch_size=batch_size,
            learning_rate=learning_rate,
        )
        if keep is not None and Path(keep).exists():
            training.go_on_from(keep, digest)
        bounds = ClipBounds.of(transitions) if clip else None
        try:
            training.run(updates, progress)
        finally:
            if keep is not None:
                state = {**training.kept.state, "of": digest}
                training.model(bounds).save_with(keep, state)
        return training.model(bounds)


class _Kept(NamedTuple):
    """What was done after so many updates: copies that no later update writes to."""

    updates: int
    parameters: list[Tensor]
    state: dict[str, Tensor]


class _Training:
    """An ensemble, its data, and how far it is.

    Parameters
    ----------
    inputs, targets : tensors [T, I], [T, D]
        Scaled.
    """

    def __init__(
        self,
        architecture: Architecture,
        inputs: Tensor,
        targets: Tensor,
        scaling: Scaling,
        generator: torch.Generator,
        *,
        batch_size: int,
        learning_rate: float,
    ) -> None:
        self.architecture, self.scaling = architecture, scaling
        self.inputs, self.targets, self.generator = inputs, targets, generator
        self.heads = _drawn_heads(architecture, generator)
        members = architecture.members
        # Half the memory of what torch draws: with a hundred members that is what counts.
        self.resamples = torch.randint(
            len(inputs), (members, len(inputs)), generator=generator, dtype=torch.int32
        )
        self.batch_size = batch_size
        self.parameters = [*self.heads.trained.weights, *self.heads.trained.biases]
        if self.heads.log_variances is not None:
            self.parameters.append(self.heads.log_variances)
        for parameter in self.parameters:
            parameter.requires_grad_()
        self.optimiser = torch.optim.Adam(self.parameters, lr=learning_rate, fused=True)
        self.kept = self._copied(0)

    def run(self, updates: int, progress: Progress | None) -> None:
        """Train until there have been so many updates."""
        if self.kept.updates > updates:
            raise ValueError(
                f"the kept training has {self.kept.updates} updates behind it, more than "
                f"{updates}. Ask for as many, or remove its file."
            )
        for done in range(self.kept.updates + 1, updates + 1):
            loss = self._update()
            if not math.isfinite(loss):
                raise WorldModelError(
                    f"training diverged: the loss of update {done} is {loss}. Lower learning_rate, "
                    f"or normalise inputs and targets."
                )
            if done == updates or not done % _KEPT_EVERY:
                self.kept = self._copied(done)
            if progress is not None:
                progress(done, updates, loss)

    def _update(self) -> float:
        """Take one gradient step, and return the members' mean loss before it."""
        members = self.architecture.members
        places = torch.randint(
            len(self.inputs), (members, self.batch_size), generator=self.generator
        )
        rows = self.resamples.gather(1, places)
        targets = self.targets[rows]
        self.optimiser.zero_grad()
        found = fitted(self.architecture, self.heads, self.inputs[rows], targets)
        loss = _loss(found, targets, ends=self.architecture.ends)
        held = self.heads.log_variances
        total = loss if held is None else loss + _BOUNDS_WEIGHT * (held[1] - held[0]).sum()
        torch.autograd.backward(total)
        self.optimiser.step()
        return float(loss.detach()) / members

    def _copied(self, updates: int) -> _Kept:
        state = {"generator": self.generator.get_state()}
        for name in _MOMENTS:
            for number, parameter in enumerate(self.parameters):
                of_one = self.optimiser.state.get(parameter, {})
                given = of_one[name] if name in of_one else torch.zeros_like(parameter)
                state[f"{name}.{number}"] = given.detach().clone()
        return _Kept(updates, [one.detach().clone() for one in self.parameters], state)

    def model(self, bounds: ClipBounds | None) -> EnsembleNetwork:
        """Return the ensemble as it was when it was last kept."""
        count = len(self.heads.trained.weights)
        parts = self.kept.parameters
        return EnsembleNetwork(
            architecture=self.architecture,
            heads=Heads(
                Layers(parts[:count], parts[count : 2 * count]),
                self.heads.prior,
                parts[-1] if self.heads.log_variances is not None else None,
            ),
            scaling=self.scaling,
            clip_bounds=bounds,
            updates=self.kept.updates,
        )

    def go_on_from(self, path: str | os.PathLike[str], digest: Tensor) -> None:
        """Take over what a file has kept.

        Raises ValueError when it is of other data or settings.
        """
        model, state = EnsembleNetwork.load_with(path)
        if model.architecture != self.architecture or not torch.equal(
            state.get("of", torch.empty(0)), digest
        ):
            raise ValueError(
                f"keep={os.fspath(path)!r} holds {model!r}, trained on other transitions or with "
                f"other settings. Remove the file, or name another."
            )
        own = [*model.heads.trained.weights, *model.heads.trained.biases]
        own += [] if model.heads.log_variances is None else [model.heads.log_variances]
        with torch.no_grad():
            for parameter, value in zip(self.parameters, own, strict=True):
                parameter.copy_(value)
        for number, parameter in enumerate(self.parameters):
            self.optimiser.state[parameter] = {
                "step": torch.tensor(float(model.updates)),
                **{name: state[f"{name}.{number}"] for name in _MOMENTS},
            }
        self.generator.set_state(state["generator"])
        self.kept = self._copied(model.updates)


def _drawn_heads(architecture: Architecture, generator: torch.Generator) -> Heads:
    trained = drawn_layers(architecture.sizes, architecture.members, generator)
    # Drawn once and never trained, it keeps members apart where there are no data to bring them
    # together (Osband et al. 2018, "Randomized Prior Functions for Deep Reinforcement Learning",
    # algorithm 1).
    prior = None
    if architecture.prior_scale:
        sizes = (*architecture.sizes[:-1], architecture.means)
        prior = drawn_layers(sizes, architecture.members, generator)
    if architecture.output == "deterministic":
        return Heads(trained, prior)
    bounds = torch.tensor([LOWEST_LOG_VARIANCE, HIGHEST_LOG_VARIANCE])[:, None, None, None]
    shape = (2, architecture.members, 1, architecture.targets)
    return Heads(trained, prior, bounds.expand(shape).clone())


def _loss(found: Predicted, targets: Tensor, *, ends: bool) -> Tensor:
    """Return the sum over members of each one's loss: squared error, or of a Gaussian.

    That of the end of an episode is the logistic one.
    """
    errors = (found.means - targets).square()
    if found.log_variances is not None:
        errors = errors * torch.exp(-found.log_variances) + found.log_variances
    if ends:
        last = torch.nn.functional.binary_cross_entropy_with_logits(
            found.means[..., -1:], targets[..., -1:], reduction="none"
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
    scaling = replace(
        scaling,
        target_mean=one_more(scaling.target_mean, (0, 1)),
        target_scale=one_more(scaling.target_scale, (0, 1), value=1.0),
    )
    return float32(read), torch.cat([float32(predicted), ends[:, None]], dim=1), scaling


def _digest(transitions: Transitions, said: str) -> Tensor:
    """Return the SHA-256 of transitions and settings, [32]."""
    digest = hashlib.sha256(said.encode())
    for name in ("observations", "actions", "next_observations", "rewards", "terminations"):
        if getattr(transitions, name) is not None:
            digest.update(np.ascontiguousarray(getattr(transitions, name)).tobytes())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8)


def show_progress(done: int, updates: int, loss: float) -> None:
    """Write how far a training is to standard error, on one line; see `train_ensemble`."""
    if done % max(1, updates // 100) and done != updates:
        return
    end = "\n" if done == updates else ""
    sys.stderr.write(f"\rtraining: {done} of {updates} updates, loss {loss:.4g} {end}")
    sys.stderr.flush()

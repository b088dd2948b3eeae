"""Model: an ensemble of networks as a world model, and its file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.contracts.codec import CodecError, decode, encode, loads
from pytest_cpg.world_models.binding.tensors import Tensor, torch
from pytest_cpg.world_models.checkpoints.readers import Checkpoint
from pytest_cpg.world_models.ensembles.networks import (
    Architecture,
    Heads,
    Layers,
    Predicted,
    predicted,
)
from pytest_cpg.world_models.ensembles.rollout import ClipBounds
from pytest_cpg.world_models.mlp import Scaling, check_sizes, float32
from pytest_cpg.world_models.weights import (
    check,
    part,
    read_metadata,
    read_safetensors,
    write_safetensors,
)

FORMAT = "pytest-cpg ensemble 1"
# What earlier versions went on training from.
_TRAINING = "training."
# Numbers in a layer of all members; 16 MB.
_AT_ONCE = 2**22


@dataclass(frozen=True, slots=True, kw_only=True)
class _About:
    """What a file says beside its tensors."""

    architecture: Architecture
    updates: int
    draws: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class EnsembleNetwork:
    """Several networks that predict change and reward, each trained on data of its own.

    It can be called as dynamics, too, with the mean of its members: the planning gap then gates
    the same file. `step` keeps to the ``clip_bounds`` and, where the model ``draws``, samples from
    the predicted variance in place of taking the mean. ``updates`` says how long it was trained.
    """

    architecture: Architecture
    heads: Heads
    scaling: Scaling
    clip_bounds: ClipBounds | None = None
    updates: int = 0
    draws: bool = False

    def __post_init__(self) -> None:
        if self.draws and self.heads.log_variances is None:
            raise ValueError("draws=True needs output='gaussian', which predicts a variance")

    def __repr__(self) -> str:
        a = self.architecture
        hidden = "x".join([str(a.hidden)] * a.layers)
        return (
            f"EnsembleNetwork({a.members} members, {a.kind}, {a.output}, {hidden}, "
            f"{self.updates} updates)"
        )

    @property
    def members(self) -> int:
        """How many members it has, ``E``."""
        return self.architecture.members

    @property
    def noise_size(self) -> int:
        """Normal numbers that `step` reads: one a target where it draws, else none."""
        return self.architecture.observation_size + 1 if self.draws else 0

    def step(self, observations: Any, actions: Any, noise: Any = None) -> tuple[Any, ...]:
        """Map observations [E, B, O], actions [E, B, A] to next ones [E, B, O], rewards [E, B].

        Third, where it is learned, whether the step ends the episode [E, B]. Tensors give tensors,
        anything else numpy arrays; numbers are float32. Noise [E, B, O + 1] makes the prediction of
        a Gaussian a sample.
        """
        targets = self._targets(observations, actions, noise)
        size, bounds = self.architecture.observation_size, self.clip_bounds
        after, rewards = float32(observations) + targets[..., :size], targets[..., size]
        if bounds is not None:
            # Here, and not only where it is imagined: a wrapper of this step needs no bounds.
            after = after.clamp(float32(bounds.low), float32(bounds.high))
            rewards = rewards.clamp(bounds.lowest_reward, bounds.highest_reward)
        ended = [targets[..., -1] > 0] if self.architecture.ends else []
        parts = (after, rewards, *ended)
        return parts if isinstance(observations, Tensor) else tuple(part.numpy() for part in parts)

    def variance(self, observations: Any, actions: Any) -> tuple[Any, Any]:
        """Return the predicted variances of next observations [E, B, O] and rewards [E, B].

        Raises WorldModelError for deterministic networks, which predict none.
        """
        logs = self._predicted(observations, actions, None).log_variances
        if logs is None:
            raise WorldModelError(
                f"{self!r} predicts no variance. Train it with output='gaussian'."
            )
        variances = torch.exp(logs) * self.scaling.target_scale**2
        size = self.architecture.observation_size
        parts = variances[..., :size], variances[..., size]
        return parts if isinstance(observations, Tensor) else (parts[0].numpy(), parts[1].numpy())

    def __call__(self, observations: Any, actions: Any) -> Any:
        """Map observations [B, O] and actions [B, A] to the members' mean next ones [B, O]."""
        shape = (self.members, -1, -1)
        before, taken = (float32(values).expand(shape) for values in (observations, actions))
        moves = self._targets(before, taken, None)[..., : self.architecture.observation_size]
        after = (before + moves).mean(dim=0)
        return after if isinstance(observations, Tensor) else after.numpy()

    def _targets(self, observations: Any, actions: Any, noise: Any) -> Tensor:
        """Return the predicted targets [E, B, D], no longer normalised."""
        means = self._predicted(observations, actions, noise).means
        return means * self.scaling.target_scale + self.scaling.target_mean

    def _predicted(self, observations: Any, actions: Any, noise: Any) -> Predicted:
        a = self.architecture
        check_sizes("ensemble", (a.observation_size, a.action_size), observations, actions)
        with torch.no_grad():
            inputs = torch.cat([float32(observations), float32(actions)], dim=-1)
            inputs = (inputs - self.scaling.input_mean) / self.scaling.input_scale
            # Of the end of an episode no variance is predicted.
            room = (0, int(a.ends))
            drawn = [] if noise is None else [torch.nn.functional.pad(float32(noise), room)]
            rows = max(1, _AT_ONCE // (self.members * a.hidden))
            tiles = zip(*(torch.split(part, rows, dim=1) for part in (inputs, *drawn)), strict=True)
            parts = [predicted(a, self.heads, *tile) for tile in tiles]
        logs = [part.log_variances for part in parts if part.log_variances is not None]
        means = torch.cat([part.means for part in parts], dim=1)
        return Predicted(means, torch.cat(logs, dim=1) if logs else None)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that the model needs to one .safetensors file."""
        tensors: dict[str, Tensor] = {}
        for name, layers in (("trained", self.heads.trained), ("prior", self.heads.prior)):
            if layers is not None:
                tensors |= {f"{name}.weights.{n}": value for n, value in enumerate(layers.weights)}
                tensors |= {f"{name}.biases.{n}": value for n, value in enumerate(layers.biases)}
        if self.heads.log_variances is not None:
            tensors["log_variances"] = self.heads.log_variances
        tensors |= {f"scaling.{name}": value for name, value in self.scaling._asdict().items()}
        if self.clip_bounds is not None:
            bounds = self.clip_bounds
            rewards = np.array([bounds.lowest_reward, bounds.highest_reward])
            for name, values in (("low", bounds.low), ("high", bounds.high), ("rewards", rewards)):
                tensors[f"clip_bounds.{name}"] = torch.tensor(values)
        about = _About(architecture=self.architecture, updates=self.updates, draws=self.draws)
        metadata = {"format": FORMAT, "about": json.dumps(encode(about))}
        detached = {name: value.detach() for name, value in tensors.items()}
        write_safetensors(path, detached, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> EnsembleNetwork:
        """Read a model that `save` has written; nothing in the file is ever executed.

        Raises WorldModelError when there is no such file, or it holds something else.
        """
        if not Path(path).is_file():
            raise WorldModelError(f"there is no model file {os.fspath(path)!r}.")
        metadata = read_metadata(path)
        if metadata.get("format") != FORMAT:
            raise _foreign(path, f"its format is {metadata.get('format')!r}, expected {FORMAT!r}")
        try:
            about = decode(_About, loads(metadata.get("about", "")), at="about")
        except (CodecError, ValueError) as error:
            raise _foreign(path, str(error)) from None
        tensors = _checked(read_safetensors(path), about.architecture, path)
        layers = {
            name: Layers(
                [*part(tensors, f"{name}.weights.").values()],
                [*part(tensors, f"{name}.biases.").values()],
            )
            for name in ("trained", "prior")
        }
        prior = layers["prior"] if about.architecture.prior_scale else None
        bounds = {name: value.numpy() for name, value in part(tensors, "clip_bounds.").items()}
        lowest, highest = bounds.pop("rewards", np.array([-np.inf, np.inf])).tolist()
        try:
            return cls(
                architecture=about.architecture,
                heads=Heads(layers["trained"], prior, tensors.get("log_variances")),
                scaling=Scaling(**part(tensors, "scaling.")),
                clip_bounds=ClipBounds(**bounds, lowest_reward=lowest, highest_reward=highest)
                if bounds
                else None,
                updates=about.updates,
                draws=about.draws,
            )
        except ValueError as error:
            raise _foreign(path, str(error)) from None


def read(checkpoint: Checkpoint) -> EnsembleNetwork | None:
    """Return the ensemble in a .safetensors file; None where it holds something else."""
    stated = read_metadata(checkpoint.path).get("format", "")
    if not stated.startswith(FORMAT.rpartition(" ")[0]):
        return None
    checkpoint.refuse_settings()
    return EnsembleNetwork.load(checkpoint.path)


def _checked(
    tensors: dict[str, Tensor], a: Architecture, path: str | os.PathLike[str]
) -> dict[str, Tensor]:
    """Return tensors in order once all are there, in the shapes of an architecture."""
    layout: dict[str, tuple[int, ...]] = {}
    for name in ("trained", "prior") if a.prior_scale else ("trained",):
        sizes = a.sizes if name == "trained" else (*a.sizes[:-1], a.means)
        for n, (rows, columns) in enumerate(pairwise(sizes)):
            layout[f"{name}.weights.{n}"] = (a.members, rows, columns)
            layout[f"{name}.biases.{n}"] = (a.members, 1, columns)
    if a.output == "gaussian":
        layout["log_variances"] = (2, a.members, 1, a.targets)
    for name in Scaling._fields:
        layout[f"scaling.{name}"] = (a.inputs if name.startswith("input") else a.targets,)
    if "clip_bounds.low" in tensors:
        for name in ("low", "high", "rewards"):
            layout[f"clip_bounds.{name}"] = (2 if name == "rewards" else a.observation_size,)
    check(
        tensors,
        layout,
        model=f"the ensemble that {os.fspath(path)!r} says it is",
        version="a file that something else wrote to",
        ignored=(_TRAINING,),
    )
    return {name: tensors[name] for name in layout}


def _foreign(path: str | os.PathLike[str], why: str) -> WorldModelError:
    return WorldModelError(
        f"{os.fspath(path)!r} is no ensemble saved by EnsembleNetwork.save: {why}. Train it again "
        f"and save it."
    )

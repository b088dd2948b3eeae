"""World models: the oracle, learned ones, and what binds either to a task.

The only room that imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_cpg.contracts import Task, WorldModelFactory
from pytest_cpg.world_models.binding.binding import BoundModel, bind
from pytest_cpg.world_models.binding.bound import OracleDynamics, Rescored, learned_of
from pytest_cpg.world_models.binding.ensemble import Ensemble, SampledEnsemble
from pytest_cpg.world_models.binding.torch_state import devices, inference, weights_digest
from pytest_cpg.world_models.transitions import Transitions, collect_transitions

if TYPE_CHECKING:
    from pytest_cpg.world_models.binding.decoded import Decoded, fit_decoder
    from pytest_cpg.world_models.checkpoints.dreamer import DreamerV3
    from pytest_cpg.world_models.checkpoints.exported import Program
    from pytest_cpg.world_models.checkpoints.onnx import OnnxDynamics
    from pytest_cpg.world_models.checkpoints.readers import Checkpoint, CheckpointReader
    from pytest_cpg.world_models.checkpoints.stable_worldmodel import StableWorldModel
    from pytest_cpg.world_models.checkpoints.tdmpc2 import TDMPC2
    from pytest_cpg.world_models.checkpoints.torchrl import TorchRLModel
    from pytest_cpg.world_models.ensembles.binding import bind_ensemble
    from pytest_cpg.world_models.ensembles.model import EnsembleNetwork
    from pytest_cpg.world_models.ensembles.rollout import ClipBounds
    from pytest_cpg.world_models.ensembles.training import show_progress, train_ensemble
    from pytest_cpg.world_models.mlp import MLP
    from pytest_cpg.world_models.training import train_mlp

__all__ = [
    "MLP",
    "TDMPC2",
    "WORLD_MODELS",
    "BoundModel",
    "Checkpoint",
    "CheckpointReader",
    "ClipBounds",
    "Decoded",
    "DreamerV3",
    "Ensemble",
    "EnsembleNetwork",
    "OnnxDynamics",
    "OracleDynamics",
    "Program",
    "Rescored",
    "SampledEnsemble",
    "StableWorldModel",
    "TorchRLModel",
    "Transitions",
    "bind",
    "bind_ensemble",
    "collect_transitions",
    "devices",
    "fit_decoder",
    "inference",
    "learned_of",
    "show_progress",
    "train_ensemble",
    "train_mlp",
    "weights_digest",
]


def _mlp(task: Task) -> MLP:
    """Train the default MLP on 2000 random transitions, the published experiment's middle rung."""
    from pytest_cpg.world_models.training import train_mlp

    return train_mlp(collect_transitions(task, count=2000, seed=0), seed=0)


# Of this name the oracle is the learned model, too: the A/A check of a gate.
AA_MODEL = "oracle"

WORLD_MODELS: Mapping[str, WorldModelFactory] = MappingProxyType(
    {AA_MODEL: OracleDynamics, "mlp": _mlp}
)


# What needs an extra, or few ask for, by the module it is in.
_OPTIONAL = {
    "binding.decoded": ("Decoded", "fit_decoder"),
    "checkpoints.readers": ("Checkpoint", "CheckpointReader"),
    "checkpoints.dreamer": ("DreamerV3",),
    "checkpoints.exported": ("Program",),
    "checkpoints.onnx": ("OnnxDynamics",),
    "checkpoints.stable_worldmodel": ("StableWorldModel",),
    "checkpoints.tdmpc2": ("TDMPC2",),
    "checkpoints.torchrl": ("TorchRLModel",),
    "ensembles.binding": ("bind_ensemble",),
    "ensembles.model": ("EnsembleNetwork",),
    "ensembles.rollout": ("ClipBounds",),
    "ensembles.training": ("show_progress", "train_ensemble"),
    "mlp": ("MLP",),
    "training": ("train_mlp",),
}


def __getattr__(name: str) -> Any:
    """Import what needs an extra when it is first asked for."""
    for module, names in _OPTIONAL.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

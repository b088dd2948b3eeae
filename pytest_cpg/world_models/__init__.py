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
from pytest_cpg.world_models.binding.bound import OracleDynamics
from pytest_cpg.world_models.binding.ensemble import Ensemble, SampledEnsemble
from pytest_cpg.world_models.binding.rescoring import Rescored, learned_of
from pytest_cpg.world_models.binding.torch_state import devices, inference, weights_digest
from pytest_cpg.world_models.transitions import Transitions, collect_transitions

if TYPE_CHECKING:
    from pytest_cpg.world_models.binding.decoded import Decoded, fit_decoder
    from pytest_cpg.world_models.checkpoint import Checkpoint, CheckpointReader
    from pytest_cpg.world_models.checkpoints.dreamer import DreamerV3
    from pytest_cpg.world_models.checkpoints.exported import Program
    from pytest_cpg.world_models.checkpoints.onnx import OnnxDynamics
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

# Transitions and seed of the model below; the published experiment's middle rung.
_COUNT, _SEED = 2000, 0


def _mlp(task: Task) -> MLP:
    """Train the default MLP on 2000 random transitions of the task."""
    from pytest_cpg.world_models.training import train_mlp

    return train_mlp(collect_transitions(task, count=_COUNT, seed=_SEED), seed=_SEED)


# Of this name the oracle is the learned model, too: the A/A check of a gate.
AA_MODEL = "oracle"

WORLD_MODELS: Mapping[str, WorldModelFactory] = MappingProxyType(
    {AA_MODEL: OracleDynamics, "mlp": _mlp}
)


# What needs an extra, or few ask for, and the module it is in.
_OPTIONAL = {
    "Checkpoint": "checkpoint",
    "CheckpointReader": "checkpoint",
    "ClipBounds": "ensembles.rollout",
    "EnsembleNetwork": "ensembles.model",
    "bind_ensemble": "ensembles.binding",
    "show_progress": "ensembles.training",
    "train_ensemble": "ensembles.training",
    "MLP": "mlp",
    "TDMPC2": "checkpoints.tdmpc2",
    "Decoded": "binding.decoded",
    "DreamerV3": "checkpoints.dreamer",
    "Program": "checkpoints.exported",
    "OnnxDynamics": "checkpoints.onnx",
    "StableWorldModel": "checkpoints.stable_worldmodel",
    "TorchRLModel": "checkpoints.torchrl",
    "fit_decoder": "binding.decoded",
    "train_mlp": "training",
}


def __getattr__(name: str) -> Any:
    """Import what needs an extra when it is first asked for."""
    if name in _OPTIONAL:
        return getattr(import_module(f"{__name__}.{_OPTIONAL[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""Contracts: protocols of tasks, planners and world models, action spaces, errors.

Everything is batched. Letters in array shapes: ``N`` episodes, ``K`` candidate plans, ``B`` any
batch, ``H`` planning horizon, ``S`` simulator state, ``O`` observation, ``Z`` latent, ``A`` action,
``M`` number of actions in a finite set, ``E`` members of an ensemble. ``...`` stands for any
leading shape.
"""

from __future__ import annotations

from pytest_cpg.contracts.actions import ActionSpace, BoxActions, FiniteActions
from pytest_cpg.contracts.arrays import BoolArray, FloatArray, IntArray
from pytest_cpg.contracts.errors import (
    BrokenModelError,
    ComponentError,
    CpgError,
    ImaginationError,
    IncompleteError,
    KindError,
    TaskError,
    WorldModelError,
)
from pytest_cpg.contracts.planner import Planner, PlannerFactory, PlanningModel, Plans
from pytest_cpg.contracts.task import Task, TaskFactory
from pytest_cpg.contracts.world_model import (
    Dynamics,
    EnsembleRollout,
    EnsembleStep,
    Imagined,
    WorldModel,
    WorldModelFactory,
)

__all__ = [
    "ActionSpace",
    "BoolArray",
    "BoxActions",
    "BrokenModelError",
    "ComponentError",
    "CpgError",
    "Dynamics",
    "EnsembleRollout",
    "EnsembleStep",
    "FiniteActions",
    "FloatArray",
    "ImaginationError",
    "Imagined",
    "IncompleteError",
    "IntArray",
    "KindError",
    "Planner",
    "PlannerFactory",
    "PlanningModel",
    "Plans",
    "Task",
    "TaskError",
    "TaskFactory",
    "WorldModel",
    "WorldModelError",
    "WorldModelFactory",
]

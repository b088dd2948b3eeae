"""Hook specs: how a conftest or a plugin contributes kinds of gate and components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_cpg.contracts import PlannerFactory, TaskFactory, WorldModelFactory
    from pytest_cpg.episodes.perturbation_names import PerturbationFactory
    from pytest_cpg.gates.kind import GateKind
    from pytest_cpg.world_models import CheckpointReader


@pytest.hookspec
def pytest_cpg_gates() -> Mapping[str, GateKind[Any, Any]] | None:
    """Return the kinds of gate you contribute, by their markers.

    Called when your plugin or conftest file is loaded; a kind is what `pytest_cpg.gates.kind` says.
    """


@pytest.hookspec
def pytest_cpg_tasks() -> Mapping[str, TaskFactory] | None:
    """Return the tasks you contribute, by the name used in markers.

    A factory is called with ``budget=`` (steps per episode) when the marker gives one, and
    returns a `Task`.
    """


@pytest.hookspec
def pytest_cpg_planners() -> Mapping[str, PlannerFactory] | None:
    """Return the planners you contribute, by the name used in markers.

    A factory is called with ``horizon=`` when the marker gives one, and returns a `Planner`.
    """


@pytest.hookspec
def pytest_cpg_world_models() -> Mapping[str, WorldModelFactory] | None:
    """Return the world models you contribute, by the name used in ``model=`` of a marker.

    A factory is called with the task, and returns what a `learned_dynamics` fixture may return.
    For a gate without a task it is called without, if it can be.
    """


@pytest.hookspec
def pytest_cpg_checkpoint_readers() -> Mapping[str, CheckpointReader] | None:
    """Return the readers of model files you contribute, by a name of yours.

    A reader is called with a `Checkpoint`, and returns the model in it, or None for a file that
    it does not read. Yours are asked before the built-in ones.
    """


@pytest.hookspec
def pytest_cpg_perturbations() -> Mapping[str, PerturbationFactory] | None:
    """Return the perturbations you contribute, by the name used in ``perturbation=`` of a marker.

    A factory is called with the number behind the name, if there is one (``"gust-0.5"``), and by
    name with those behind words (``"gust-0.5-at-20"``); it returns what
    `pytest_cpg.episodes.perturbations.Perturbation` says.
    """

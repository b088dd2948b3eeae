"""Plugin: the hooks, the marker and the fixtures; whatever knows pytest.

Nothing is computed here: rooms below measure, judge and render. A session without gates loads no
numpy, scipy, torch or mujoco. This module holds what pytest finds: first hooks and fixtures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.plugin import hookspecs
from pytest_cpg.plugin.hooks import SessionHooks

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pytest_cpg.world_models import OracleDynamics


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options and our hooks, and follow the session."""
    pluginmanager.add_hookspecs(hookspecs)
    pluginmanager.register(SessionHooks(parser, _measured), "cpg-hooks")


def _fixtures() -> Any:
    # They load numpy.
    return import_module("pytest_cpg.plugin.fixtures")


def _measured(request: pytest.FixtureRequest, marker: str, **values: Any) -> Any:
    return _fixtures().measured(request, marker, **values)


@pytest.fixture
def oracle_dynamics(request: pytest.FixtureRequest) -> OracleDynamics:
    """Give the true dynamics of the marker's task; override it to use a surrogate."""
    return _fixtures().true_dynamics(request)  # type: ignore[no-any-return]  # loaded by its name


@pytest.fixture
def learned_dynamics(request: pytest.FixtureRequest) -> Any:
    """Give the learned world model; override it, or name one with ``model=`` or --cpg-model."""
    return _fixtures().named_model(request)


@pytest.fixture(scope="session")
def cpg_executor(request: pytest.FixtureRequest) -> Executor | None:
    """Give the executor of blocks of episodes; override it with any of concurrent.futures."""
    return _fixtures().executor(request)  # type: ignore[no-any-return]  # a user's may be anything


@pytest.fixture(scope="session")
def training_data() -> Any:
    """Give the transitions or observations that the model was trained on, or a file of them."""
    return None


@pytest.fixture
def benchmark_runner(
    request: pytest.FixtureRequest, cpg_executor: Executor | None, training_data: Any
) -> Any:
    """Compare models on the marker's task; the gate is applied to each result after the body."""
    return _fixtures().runner(request, cpg_executor, {"training_data": training_data})


@pytest.fixture
def conformance_task(request: pytest.FixtureRequest) -> Any:
    """Give the task that `pytest_cpg.conformance` tries; override it with yours."""
    _fixtures().untried(request, "task", "MyTask()")


@pytest.fixture
def conformance_planner(request: pytest.FixtureRequest) -> Any:
    """Give the planner that `pytest_cpg.conformance` tries; override it with yours."""
    _fixtures().untried(request, "planner", "MyPlanner()")


@pytest.fixture
def conformance_model(request: pytest.FixtureRequest) -> Any:
    """Give the world model that `pytest_cpg.conformance` tries; override it with yours."""
    _fixtures().untried(request, "model", "load_my_model()")

"""Plugin: the hooks, the marker and the fixtures; whatever knows pytest.

Nothing heavier than pytest is imported before the first gate is collected, and nothing is computed
here: rooms below measure, judge and render.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_cpg.plugin import hookspecs
from pytest_cpg.plugin.hooks import HOOKS, SessionHooks
from pytest_cpg.plugin.settings import DECLARED, DeclaredOptions, read_settings

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from pytest_cpg.contracts import Planner, PlannerFactory, Task, TaskFactory, WorldModelFactory
    from pytest_cpg.gates.kind import GateKind
    from pytest_cpg.world_models import OracleDynamics


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the extension points."""
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the options."""
    pluginmanager.register(DeclaredOptions(parser), DECLARED)


def pytest_configure(config: pytest.Config) -> None:
    """Check the options and follow the session."""
    try:
        _follow(config)
    except pytest.UsageError as error:
        from pytest_cpg.gates.notation import for_log

        raise pytest.UsageError(for_log(str(error))) from None


def _follow(config: pytest.Config) -> None:
    settings = read_settings(config)
    is_distributed = config.getoption("dist", "no") != "no"
    if "plan" in settings.switches and is_distributed:
        raise pytest.UsageError("--cpg-plan runs nothing, and needs no workers: add -n 0")
    if "replay" in settings.typed and is_distributed:
        raise pytest.UsageError("--cpg-replay runs one gate, and needs no workers: add -n 0")
    if settings.of_session("workers") > 1:
        _check_is_no_worker()
    if {"workers", "cluster"} <= settings.typed.keys():
        raise pytest.UsageError(
            "--cpg-workers and --cpg-cluster: episodes run here or there. Leave one of them out."
        )
    if is_distributed and settings.of_session("workers") > 1:
        raise pytest.UsageError(
            "--cpg-workers and -n: both divide the processors. Leave one of them out: -n runs "
            "several gates at once, --cpg-workers the parts of one."
        )
    if any(map(settings.of_session, ("json", "md", "html", "history"))):
        from pytest_cpg.plugin.outputs import SessionOutputs

        SessionOutputs(config, settings).check()
    if "render" in settings.switches:
        _check_films()
    hooks = SessionHooks(config, settings, _measured)
    config.stash[HOOKS] = hooks
    config.pluginmanager.register(hooks, "cpg-session")
    if "replay" in settings.typed:
        from pytest_cpg.plugin.replay import SessionReplay

        is_filmed = "render" in settings.switches
        hooks.replay = SessionReplay(config, settings.typed["replay"], is_filmed=is_filmed)
    if {"only", "skip"} & settings.switches or {"last", "replay"} & settings.typed.keys():
        from pytest_cpg.plugin.selection import Selection

        config.pluginmanager.register(Selection(settings, hooks.replay), "cpg-selection")


def _measured(request: pytest.FixtureRequest, kind: GateKind[Any, Any], **given: Any) -> Any:
    """Return what the fixture of a kind gives."""
    from pytest_cpg.plugin.fixtures import measured

    return measured(request, kind, **given)


@pytest.hookimpl(tryfirst=True, wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int, int]:
    """End with the exit code that the gates call for, whatever other hooks end with."""
    try:
        code = yield
    except SystemExit:
        if not _fails(config):
            raise
        code = pytest.ExitCode.OK
    # Whoever waits for the process sees eight bits of it.
    if code & 0xFF or not _fails(config):
        return code
    config.stash[HOOKS].show(_ENDED_AS_PASSED)
    return pytest.ExitCode.TESTS_FAILED


_ENDED_AS_PASSED = "a hook ended pytest with exit code 0, and a gate has failed: it is 1 instead"


def _fails(config: pytest.Config) -> bool:
    return HOOKS in config.stash and config.stash[HOOKS].fails


def _check_is_no_worker() -> None:
    """Refuse a session in a worker, which has run the script that started the first one."""
    import multiprocessing

    # While it imports the main module, a spawned process has no better mark.
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise pytest.UsageError(
            "this is a worker of --cpg-workers, and starts pytest itself: guard the call in your "
            'script by `if __name__ == "__main__":`'
        )


def _check_films() -> None:
    """Refuse to film where nothing can be drawn, before anything is run."""
    from pytest_cpg.contracts import ComponentError
    from pytest_cpg.render.films import check_can_render

    try:
        check_can_render()
    except ComponentError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_cpg_gates() -> Mapping[str, GateKind[Any, Any]]:
    """Contribute the built-in kinds of gate through the public hook."""
    from pytest_cpg.gates import GATES

    return GATES


def pytest_cpg_tasks() -> Mapping[str, TaskFactory]:
    """Contribute the built-in tasks through the public hook."""
    from pytest_cpg.tasks import TASKS

    return TASKS


def pytest_cpg_planners() -> Mapping[str, PlannerFactory]:
    """Contribute the built-in planners through the public hook."""
    from pytest_cpg.planners import PLANNERS

    return PLANNERS


def pytest_cpg_world_models() -> Mapping[str, WorldModelFactory]:
    """Contribute the built-in world models through the public hook."""
    from pytest_cpg.world_models import WORLD_MODELS

    return WORLD_MODELS


@pytest.fixture
def oracle_dynamics(request: pytest.FixtureRequest) -> OracleDynamics:
    """Give the true dynamics of the marker's task; override it to use a surrogate."""
    from pytest_cpg.plugin.fixtures import true_dynamics

    return true_dynamics(request)


@pytest.fixture
def learned_dynamics(request: pytest.FixtureRequest) -> Any:
    """Give the learned world model; override it, or name one with ``model=`` or --cpg-model."""
    from pytest_cpg.plugin.fixtures import named_model

    return named_model(request)


@pytest.fixture(scope="session")
def cpg_executor(request: pytest.FixtureRequest) -> Executor | None:
    """Give who runs blocks of episodes; override it with any concurrent.futures executor."""
    from pytest_cpg.plugin.fixtures import executor

    return executor(request)  # type: ignore[no-any-return]  # a user's may be anything


@pytest.fixture(scope="session")
def training_data() -> Any:
    """Give the observations that the model was trained on, or their path; None says nothing."""
    return None


@pytest.fixture
def benchmark_runner(
    request: pytest.FixtureRequest, cpg_executor: Executor | None, training_data: Any
) -> Any:
    """Compare models on the marker's task; the gate is applied to each result after the body."""
    from pytest_cpg.plugin.fixtures import runner

    given = {"training_data": training_data}
    return runner(request, cpg_executor, given)


@pytest.fixture
def conformance_task(request: pytest.FixtureRequest) -> Task:
    """Give the task that `pytest_cpg.conformance` tries; override it with yours."""
    reason = _untried("task", "MyTask()")
    # The model comes first, and without one this is not reached.
    if "conformance_model" in request.fixturenames:
        pytest.fail(f"a model is tried on a task, and there is {reason}", pytrace=False)
    _leave_out(request, reason)


@pytest.fixture
def conformance_planner(request: pytest.FixtureRequest) -> Planner:
    """Give the planner that `pytest_cpg.conformance` tries; override it with yours."""
    _leave_out(request, _untried("planner", "MyPlanner()"))


@pytest.fixture
def conformance_model(request: pytest.FixtureRequest) -> Any:
    """Give the world model that `pytest_cpg.conformance` tries; override it with yours."""
    _leave_out(request, _untried("model", "load_my_model()"))


def _untried(kind: str, example: str) -> str:
    return (
        f"no {kind} to try: write a fixture conformance_{kind} into conftest.py that returns "
        f"{example}"
    )


def _leave_out(request: pytest.FixtureRequest, reason: str) -> NoReturn:
    """Skip a test of the whole suite; fail one that was asked for by itself.

    Only with the whole suite comes the test that something of it is tried.
    """
    modules = {
        getattr(getattr(item, "function", None), "__module__", "") for item in request.session.items
    }
    is_ours = request.module.__name__.startswith(_SUITE)
    if is_ours and f"{_SUITE}.test_components" in modules:
        pytest.skip(reason)
    pytest.fail(reason, pytrace=False)


_SUITE = "pytest_cpg.conformance"

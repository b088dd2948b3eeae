"""Fixtures: what the fixtures of the plugin do, once a test asks for one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from pytest_cpg.gates.asking import example
from pytest_cpg.gates.parts import is_held, offers
from pytest_cpg.plugin.hooks import HOOKS
from pytest_cpg.plugin.item import NAMED_MODEL, clean_errors, fail
from pytest_cpg.plugin.kinds import KINDS

if TYPE_CHECKING:
    from pytest_cpg.plugin.marker import Gate
    from pytest_cpg.plugin.measuring import ItemMeasuring
    from pytest_cpg.plugin.session import GateSession
    from pytest_cpg.world_models import OracleDynamics

_NO_MODEL = """\
this gate has no learned world model. Write the fixture, for example in conftest.py:

    @pytest.fixture
    def learned_dynamics():
        return my_model  # {wanted}

or name a model: @pytest.mark.{marker}(..., model="{model}"), or --cpg-model=module:factory
or the path of a checkpoint."""

_HELD = (
    "{fixture}: a test marked {marker} judges what other gates have found, once these have "
    "reported, and measures nothing. Take no fixture of a gate, as in def test_suite(): pass"
)
_NO_MARKER = "the fixtures of pytest-cpg need a marked test. Write {example} above it."
_SUITE = "pytest_cpg.conformance"
_WANTED = "maps observations [B, O] and actions [B, A] to next observations [B, O]"


def measured(
    request: pytest.FixtureRequest,
    marker: str,
    *,
    learned_dynamics: Any,
    cpg_executor: Any,
    **given: Any,
) -> Any:
    """Return the result of a kind for a test's model."""
    gate = _measuring_gate(request, marker)
    if gate.kind.marker != marker:
        kind = request.config.stash[KINDS].table[marker]
        fail(
            f"the fixture {kind.fixture} measures for tests marked {kind.marker}, and this one is "
            f"marked {gate.kind.marker}. Take the fixture {gate.kind.fixture}, or write "
            f"{example(kind)}."
        )
    # A named model wins over a fixture, which most of the time is there for other gates.
    if gate.model and not request.node.stash.get(NAMED_MODEL, False):
        learned_dynamics = named_model(request)
    return measuring(request, cpg_executor, given).measure(learned_dynamics)


def runner(request: pytest.FixtureRequest, executor: Any, given: dict[str, Any]) -> Any:
    """Return the value of ``benchmark_runner``."""
    gate = _measuring_gate(request, "benchmark_runner")
    kind: Any = gate.kind
    if not offers(kind, "runner"):
        fail(
            f"benchmark_runner: a gate marked {kind.marker} makes one measurement. Take the "
            f"fixture {kind.fixture} in its place."
        )
    return kind.runner(gate.spec, measuring(request, executor, given))


def measuring(
    request: pytest.FixtureRequest, executor: Any, given: dict[str, Any]
) -> ItemMeasuring:
    """Return how a test measures, on an executor or in this process."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        fail(
            f"cpg_executor gives {executor!r}: return a concurrent.futures executor, or None "
            f"to run episodes in this process."
        )
    return _gates(request).measuring(request.node, executor, given)


def named_model(request: pytest.FixtureRequest) -> Any:
    """Return the model that this test's marker or the session names."""
    from pytest_cpg.world_models.checkpoints.source import made

    gate = _measuring_gate(request, "learned_dynamics")
    if gate.make_model is None:
        model = "mlp" if gate.task else "module:factory"
        wanted = getattr(gate.kind, "wanted_model", _WANTED)
        misspelt = _misspelt(request)
        if misspelt:
            fail(f"there is a fixture {misspelt!r}. Did you mean 'learned_dynamics'?")
        fail(_NO_MODEL.format(marker=gate.kind.marker, model=model, wanted=wanted))
    request.node.stash[NAMED_MODEL] = True
    with clean_errors():
        if gate.task is None:
            return made(gate.model, gate.make_model)
        return gate.make_model(_gates(request).runs.task(gate.task))


def _misspelt(request: pytest.FixtureRequest) -> str:
    """Return what stands beside a test, or in a conftest.py, by nearly the name of the model's."""
    places = (request.node.getparent(pytest.Module), *request.config.pluginmanager.get_plugins())
    names = {name for place in places for name in vars(getattr(place, "obj", place))}
    close = get_close_matches("learned_dynamics", names - {"learned_dynamics"}, n=1, cutoff=0.85)
    return close[0] if close else ""


def true_dynamics(request: pytest.FixtureRequest) -> OracleDynamics:
    """Return the true dynamics of the task of a test's gate."""
    from pytest_cpg.world_models import OracleDynamics

    gate = _measuring_gate(request, "oracle_dynamics")
    if gate.task is None:
        fail(
            f"oracle_dynamics: a gate marked {gate.kind.marker} has no task, whose true dynamics "
            f"this fixture would give. Leave it out of the test."
        )
    return OracleDynamics(_gates(request).runs.task(gate.task))


def executor(request: pytest.FixtureRequest) -> Any:
    """Return who runs blocks of episodes by the options."""
    with clean_errors():
        return _gates(request).runs.executor


def untried(request: pytest.FixtureRequest, kind: str, example: str) -> NoReturn:
    """Skip a test of the whole conformance suite, which counts what was tried; fail others."""
    reason = (
        f"no {kind} to try: write a fixture conformance_{kind} into conftest.py that returns "
        f"{example}"
    )
    # The model comes first, and without one the task is not reached.
    if kind == "task" and "conformance_model" in request.fixturenames:
        pytest.fail(f"a model is tried on a task, and there is {reason}", pytrace=False)
    modules = {
        getattr(getattr(item, "function", None), "__module__", "") for item in request.session.items
    }
    is_ours = request.module.__name__.startswith(_SUITE)
    if is_ours and f"{_SUITE}.test_components" in modules:
        pytest.skip(reason)
    pytest.fail(reason, pytrace=False)


def _gate_of(request: pytest.FixtureRequest) -> Gate:
    """Return the gate of a test, or fail one that is not marked as a gate."""
    kinds = request.config.stash[KINDS]
    if not kinds.has_gate(request.node):
        table = kinds.table.values()
        wanted = (kind for kind in table if kind.fixture in request.fixturenames)
        fail(_NO_MARKER.format(example=example(next(wanted, next(iter(table))))))
    return _gates(request).gate(request.node)


def _measuring_gate(request: pytest.FixtureRequest, fixture: str) -> Gate:
    """Return the gate of a test, or fail one that measures nothing itself."""
    gate = _gate_of(request)
    if is_held(gate.kind):
        fail(_HELD.format(fixture=fixture, marker=gate.kind.marker))
    return gate


def _gates(request: pytest.FixtureRequest) -> GateSession:
    return request.config.stash[HOOKS].follow().gates

"""A kind of gate without a task: it asks a model about data of its own."""

from functools import partial

import pytest

CONFTEST = '''
from dataclasses import dataclass

import numpy as np
import pytest

from pytest_cpg.gates.arguments import REQUIRED, Argument, whole
from pytest_cpg.gates.card import Card, Ruling, Severity, Table
from pytest_cpg.gates.kind import ForecastLine, Lost


@dataclass(frozen=True)
class Logged:
    rows: int


@dataclass(frozen=True)
class Misses:
    misses: int


class LoggedSteps:
    """Whether a model predicts all of some logged steps, each of which adds the action."""

    marker = fixture = "logged"
    help = "gate this test on logged steps."
    arguments = (Argument("rows", whole(1), REQUIRED),)
    labels = {"RIGHT": Severity.GOOD, "WRONG": Severity.BAD}
    result = Misses

    def parse(self, asked):
        return Logged(asked.values["rows"])

    def measure(self, spec, model, run):
        observations = np.arange(spec.rows, dtype=float)[:, None]
        predicted = model(observations, np.ones_like(observations))
        return Misses(int((predicted != observations + 1).sum()))

    def judge(self, result, max_verdict):
        label = "WRONG" if result.misses else "RIGHT"
        return Ruling(label=label, severity=self.labels[label])

    def card(self, result, max_verdict, *, model=""):
        return Card(
            sentence=f"{result.misses} wrong",
            size="",
            cells={"wrong": str(result.misses)},
            table=Table(name="model", columns=(), rows=()),
        )

    def forecast(self, spec, task, *, cost, accepted):
        return ForecastLine(cells={"rows": str(spec.rows), "task": str(task)})

    def lost(self, result):
        return Lost((0,), {})

    def read_lost(self, values, *, episodes):
        return values

    def replay(self, spec, model, run, *, episodes, then=None):
        raise AssertionError


def pytest_cpg_gates():
    return {"logged": LoggedSteps()}


def pytest_cpg_world_models():
    return {"adding": lambda: right, "of-task": lambda task: right}


def right(observations, actions):
    return observations + actions
'''
TEST = """
import pytest

@pytest.mark.logged(rows=5)
def test_logged(logged{more}):
    pass
"""
FACTORIES = """
from conftest import right

def free(task=None):
    assert task is None
    return right

def wrong(*, seed=0):
    return lambda observations, actions: observations - actions

def bound(task):
    return right
"""


@pytest.fixture
def logged(repository):
    """Runs one gate of the kind above."""
    repository.makeconftest(CONFTEST)

    def run(*arguments, more=""):
        repository.makepyfile(test_logged=TEST.format(more=more))
        return repository.runpytest(*arguments)

    run.pytester = repository
    return run


@pytest.mark.parametrize("model", ["adding", "factories:free"])
def test_a_gate_without_a_task_runs_on_a_model_that_is_made_without_one(logged, model):
    logged.pytester.makepyfile(factories=FACTORIES)
    logged(f"--cpg-model={model}").assert_outcomes(passed=1)


def test_a_gate_without_a_task_fails_by_what_it_measured_and_names_no_replay(logged):
    logged.pytester.makepyfile(factories=FACTORIES)
    result = logged("--cpg-model=factories:wrong", "--cpg-json=o.json", "--cpg-html=o.html")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["WRONG: 5 wrong.", " WRONG (1)", " F test_logged *"])
    result.stdout.no_fnmatch_line("*Replay *")
    result.stdout.no_fnmatch_line("*Film *")
    assert not (logged.pytester.path / ".cpg" / "lost").exists()


def test_a_gate_without_a_task_runs_on_a_model_file(logged):
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    named = partial(
        onnx.helper.make_tensor_value_info, elem_type=onnx.TensorProto.FLOAT, shape=["B", 1]
    )
    observations, actions, following = map(named, ("observations", "actions", "next"))
    add = onnx.helper.make_node("Add", ["observations", "actions"], ["next"])
    graph = onnx.helper.make_graph([add], "adds", [observations, actions], [following])
    opset = [onnx.helper.make_opsetid("", 13)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8)
    (logged.pytester.path / "adds.onnx").write_bytes(model.SerializeToString())
    logged("--cpg-model=adds.onnx").assert_outcomes(passed=1)


@pytest.mark.parametrize("model", ["mlp", "oracle", "of-task", "factories:bound"])
def test_a_model_that_is_made_for_a_task_is_refused_by_name(logged, model):
    logged.pytester.makepyfile(factories=FACTORIES)
    result = logged(f"--cpg-model={model}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"'{model}' makes a model for a task, and this gate has none.*"])


def test_a_gate_without_a_task_and_without_a_model_is_told_what_to_name(logged):
    result = logged()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*@pytest.mark.logged(..., model="module:factory")*'])


def test_the_true_dynamics_of_no_task_are_refused(logged):
    result = logged("--cpg-model=adding", more=", oracle_dynamics")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["oracle_dynamics: a gate marked logged has no task*"])


def test_a_gate_without_a_task_is_forecast(logged):
    logged("--cpg-plan").stdout.fnmatch_lines([" gate * rows * task", " test_logged * 5 * None"])

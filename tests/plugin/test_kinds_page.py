"""The kind of gate on the page about kinds of gate works, and the page names every member."""

import inspect
import re

import pytest
from kinds_page import PAGE, WRITTEN_OUT

from pytest_cpg.gates import parts
from pytest_cpg.gates.kind import GateKind

pytestmark = pytest.mark.docs
TESTS = """
import pytest


@pytest.mark.missed_steps(task="maze", share=0.1)
def test_steps(missed_steps):
    assert missed_steps.seed == 3
"""
MODEL = """

import pytest
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import OracleDynamics


@pytest.fixture
def learned_dynamics(request):
    true = OracleDynamics(TASKS["maze"]())
    return lambda observations, actions: true(observations, actions) + {off}
"""


@pytest.mark.parametrize(
    ("off", "outcome", "line", "mark"),
    [(0.0, "passed", "RIGHT", "."), (1.0, "failed", "WRONG", "F")],
)
def test_the_kind_on_the_page_is_whole(repository, off, outcome, line, mark):
    repository.makeconftest(f"{WRITTEN_OUT}{MODEL.format(off=off)}")
    repository.makepyfile(test_missed=TESTS)
    result = repository.runpytest("--cpg-seed=3", "--cpg-json=o.json")
    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines([" * missed", f" {line} (1)", f" {mark} test_steps *{off:.2f}"])
    if outcome == "failed":
        result.stdout.fnmatch_lines(["*pytest test_missed.py::test_steps --cpg-seed=3"])


def test_the_page_names_every_member_that_a_kind_may_have():
    protocols = [one for _, one in inspect.getmembers(parts, inspect.isclass)]
    of_parts = {
        name
        for one in protocols
        if one.__module__ == parts.__name__
        for name in vars(one)
        if not name.startswith("_")
    }
    of_all = {name for name in vars(GateKind) if not name.startswith("_")}
    for name in of_parts | of_all:
        assert re.search(rf"`[^`\n]*\b{name}\b", PAGE), name

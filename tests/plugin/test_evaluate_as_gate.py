"""`pytest_cpg.evaluate` and a marked test measure the same, to the bit."""

import json

from comparisons import Carts, cart_queries
from sessions import untimed

from pytest_cpg import evaluate
from pytest_cpg.contracts.codec import encode

GATES = """
import pytest
from comparisons import Carts, cart_queries


@pytest.fixture
def learned_dynamics(request):
    if request.node.name == "test_answers":
        return Carts(drift=0.5)
    return lambda observations, actions: observations + actions


@pytest.mark.cpg(task="maze", planner="preset", seed=3, episodes=20, max_verdict="MODEL BOTTLENECK")
def test_gap(cpg): ...


@pytest.mark.cpg_plan_quality(task="maze", planner="preset", episodes=20, max_verdict="BAD")
def test_plans(cpg_plan_quality): ...


@pytest.mark.cpg_opcc(queries=cart_queries(), max_verdict="BAD")
def test_answers(cpg_opcc): ...
"""


def wrong(observations, actions):
    return observations + actions


def test_every_kind_gives_the_bits_of_its_gate(pytester, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    pytester.makeini("[pytest]\nfilterwarnings = error\naddopts = -p no:hypothesispytest\n")
    pytester.makepyfile(test_gates=GATES)
    result = pytester.runpytest("--cpg-json=report.json")
    assert result.parseoutcomes() == {"passed": 2, "inconclusive": 1}
    report = json.loads((pytester.path / "report.json").read_text())
    gates = {one["id"]: one["comparisons"][0] for one in report["gates"]}
    cache = pytester.path / ".pytest_cache/d/cpg-arms"
    found = {
        "test_gap": evaluate("maze", wrong, planner="preset", seed=3, episodes=20, cache=cache),
        "test_plans": evaluate(
            "maze", wrong, kind="cpg_plan_quality", planner="preset", episodes=20
        ),
        "test_answers": evaluate(cart_queries(), Carts(drift=0.5), kind="cpg_opcc"),
    }
    for name, one in found.items():
        gate = gates[f"test_gates.py::{name}"]
        written = json.loads(json.dumps(encode(one.result)))
        assert untimed(written) == untimed(gate["result"]), name
        assert (one.label, one.ruling.severity.name.lower()) == (gate["label"], gate["severity"])
    assert found["test_gap"].reuse[0].startswith("oracle: 20 episodes stored"), "pytest kept them"

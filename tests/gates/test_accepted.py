import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import first, result_of

from pytest_cpg.contracts.codec import encode
from pytest_cpg.gates.planning_gap.records import BaselineGate

RESULT = result_of(first(47, 50), first(37, 50))
GATE = BaselineGate.of(RESULT)


def read_again(values):
    return BaselineGate.read(values, commit="3f2c1e9abcde")


def test_a_gate_keeps_outcomes_seed_and_design_of_its_result():
    assert GATE.oracle == "1" * 47 + "0" * 3
    assert GATE.learned == "1" * 37 + "0" * 13
    assert (GATE.oracle_arm, GATE.learned_arm) == ((47, 50), (37, 50))
    assert (GATE.seed, GATE.level, GATE.verdict) == (RESULT.seed, RESULT.level, RESULT.verdict)
    assert GATE.gap == RESULT.gap == 0.2
    assert GATE.design.task == "track"
    assert GATE.design.versions == {"track": "1"}


def test_a_gate_survives_json():
    assert read_again(json.loads(json.dumps(encode(GATE)))) == GATE


def test_a_perturbation_is_kept_and_a_gate_of_before_there_were_any_is_read():
    assert "perturbation" not in encode(GATE)["design"]
    gate = BaselineGate.of(replace(RESULT, design=replace(RESULT.design, perturbation="delay-2")))
    assert encode(gate)["design"]["perturbation"] == "delay-2"
    assert BaselineGate.read(json.loads(json.dumps(encode(gate))), commit="") == gate


def test_a_gate_judged_by_returns_keeps_the_return_of_every_learned_episode():
    gate = BaselineGate.of(result_of([1, 0, 1], [1, 0, 0], metric="return"))
    assert gate.learned_returns == (1.0, 0.0, 0.0)
    assert (gate.oracle_mean_return, gate.learned_mean_return) == (0.666667, 0.333333)
    assert BaselineGate.read(json.loads(json.dumps(encode(gate))), commit="") == gate


def test_a_gate_judged_by_successes_keeps_mean_returns_only():
    assert GATE.learned_returns == ()
    assert GATE.oracle_mean_return == 0.94


def test_the_mean_of_the_largest_returns_is_a_number():
    learned = replace(RESULT.learned, returns=[np.finfo(float).max] * 50)
    result = replace(RESULT, learned=learned)
    assert BaselineGate.of(result).learned_mean_return == pytest.approx(1.79769e308)


def test_the_oracle_arm_may_have_run_more_episodes():
    result = replace(RESULT, learned=result_of(first(9, 20), first(9, 20)).learned)
    gate = BaselineGate.of(result)
    assert (gate.oracle_arm, gate.learned_arm) == ((47, 50), (9, 20))
    assert gate.gap == result.gap


@pytest.mark.parametrize(
    ("name", "value", "clause"),
    [
        ("task", "walker", "task track -> walker"),
        ("starts", "fixed", "starts sampled -> fixed"),
        ("budget", 400, "budget 500 -> 400"),
        ("horizon", 20, "horizon 15 -> 20"),
        ("control_period", 0.02, "control period 0.01 -> 0.02"),
        ("versions", {"track": "2"}, "track 1 -> 2"),
        ("versions", {"track": "1", "mujoco": "3.17.0"}, "mujoco none -> 3.17.0"),
        ("versions", {}, "track 1 -> none"),
        ("perturbation", "delay-2", "perturbation none -> delay-2"),
    ],
)
def test_every_part_of_the_design_tells_designs_apart(name, value, clause):
    other = replace(RESULT.design, **{name: value})
    assert GATE.design.changes(other) == [clause]
    assert GATE.design.short_hash != other.short_hash


def test_what_decides_only_how_many_episodes_are_judged_and_how_is_no_design():
    other = replace(
        RESULT, seed=9, level=0.9, stop="sequential", max_episodes=300, margin=0.1, family_size=4
    )
    assert BaselineGate.of(other).design == GATE.design


def test_neither_the_order_of_versions_nor_the_place_of_a_planner_is_a_difference():
    ordered = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    searches = [repr(SimpleNamespace(search=object())) for _ in range(2)]
    for name, values in (("versions", ordered), ("planner", searches)):
        then, now = (replace(RESULT.design, **{name: value}) for value in values)
        assert (then.short_hash, then.changes(now)) == (now.short_hash, [])
    written = encode(BaselineGate.of(replace(RESULT, design=then)))
    assert written["design"]["planner"] == "namespace(search=<object object>)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": "4"}, "seed is '4', and has to be a whole number"),
        ({"seed": None}, "seed is None, and has to be a whole number"),
        ({"learned": "10x"}, "need a 0 or 1 for each learned episode, got '10x'"),
        ({"oracle": ""}, "need a 0 or 1 for each oracle episode, got ''"),
        ({"oracle": "1"}, "need at least as many oracle as learned episodes, got 1 and 50"),
        ({"level": 95}, "need a level between 0 and 1, got 95"),
        ({"verdict": "FINE"}, "verdict is 'FINE', and has to be one of 'MODEL AS"),
        ({"learned_returns": [1.0]}, "need 0 learned_returns, got 1"),
        ({"learned_mean_return": float("inf")}, "learned_mean_return is inf, and has to be"),
        ({"design": {"task": "track"}}, "design has no 'planner'"),
        ({"design": encode(GATE)["design"] | {"versions": []}}, r"design.versions is \[\], and"),
        ({"design": encode(GATE)["design"] | {"budget": 9}}, "design_hash is '.*', and the .*"),
        ({"learned": "0" * 50}, "gap is 0.2, and the other values give 0.94"),
        ({"colour": "red"}, "it has an unknown 'colour'"),
    ],
)
def test_impossible_or_contradictory_values_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        read_again(encode(GATE) | changes)


def test_a_missing_value_is_named():
    for name in encode(GATE):
        values = encode(GATE)
        del values[name]
        with pytest.raises(ValueError, match=name):
            read_again(values)


def test_a_return_that_is_no_number_is_refused():
    gate = BaselineGate.of(result_of([1, 0], [1, 0], metric="return"))
    with pytest.raises(ValueError, match=r"learned_returns\[1\] is 'many', and has to be a number"):
        BaselineGate.read(encode(gate) | {"learned_returns": [1.0, "many"]}, commit="")
    with pytest.raises(ValueError, match="need finite returns, got nan"):
        replace(gate, oracle_mean_return=float("nan"))

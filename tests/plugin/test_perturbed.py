"""Gates under perturbations, and sweeps, as a user meets them."""

from sessions import flat

TESTS = """
import conftest
import pytest
from pytest_cpg.episodes.perturbations import DelayActions


@pytest.mark.cpg(task="track", model="mirrored", perturbation="drop-next-3")
def test_dropped(cpg):
    assert cpg.design.perturbation == "drop-next-3"
    assert cpg.oracle.perturbed.sum() == 19


@pytest.mark.cpg(task="track", model="right", perturbation=DelayActions(1), horizon=4)
def test_delayed(cpg):
    assert cpg.oracle.recovery.low > 0.5


@pytest.mark.cpg(task="track", model="right", perturbation="drop-next-0")
def test_nothing(cpg): ...


@pytest.mark.cpg(task="track", model="right", perturbation="mass-2")
def test_heavy(cpg): ...


@pytest.mark.cpg(task="track")
def test_sweep(benchmark_runner):
    sweep = benchmark_runner.sweep(
        learned=conftest.right, perturbations=["none", "drop-next-2", "delay-1"]
    )
    print(sweep)
    assert sweep["drop-next-2"].learned.success_rate == 1
    assert sweep["drop-next-2"].learned.recovery.low > 0.8


@pytest.mark.cpg(task="track")
def test_nothing_to_sweep(benchmark_runner):
    benchmark_runner.sweep(learned=conftest.right)
"""
TYPO = """
import pytest


@pytest.mark.cpg(task="track", perturbation="dellay-2")
def test_gate(cpg): ...
"""


def test_perturbed_gates_say_how_each_arm_recovered_and_sweeps_gate_nothing(repository):
    repository.makepyfile(test_gates=TESTS, test_typo=TYPO)
    result = repository.runpytest(
        "--cpg-json=report.json", "--continue-on-collection-errors", "--cpg-no-cache", "-rP"
    )
    result.assert_outcomes(passed=2, failed=2, errors=2)
    assert result.parseoutcomes()["measured"] == 1
    said = flat(result)
    for wrong in (
        "perturbation: no perturbation is named 'dellay-2'. Did you mean 'delay-2'?",
        "the physics of task 'track' cannot be changed to 'mass-2': it has no with_physics",
        "perturbation drop-next-3: recovered oracle 19/19 [0.83, 1.00], learned 0/20",
    ):
        assert wrong in said
    result.stdout.fnmatch_lines(
        [
            "a sweep is over one thing, got nothing. Write sweep(learned=...,*",
            "sweep over perturbation: track",
            "drop-next-2: oracle 1.00, learned *",
        ]
    )
    result.stdout.fnmatch_lines(
        [
            " . *sweep*",
            "     sweep over perturbation: none: oracle 1.00, *",
            " . *delayed *",
            "     perturbation delay-1: recovered oracle *",
            "     the perturbation took effect in none of the oracle's 20 episodes*",
        ]
    )
    report = repository.json("report.json")
    gates = {gate["id"].rpartition("::")[2]: gate for gate in report["gates"]}
    (dropped,) = gates["test_dropped"]["comparisons"]
    assert dropped["result"]["perturbation"] == "drop-next-3"
    assert dropped["result"]["chance"]["perturbed"] == [1] * 20
    assert gates["test_sweep"]["comparisons"] == []
    (text,) = gates["test_sweep"]["measurements"]
    assert text.startswith("sweep over perturbation: none: oracle 1.00")

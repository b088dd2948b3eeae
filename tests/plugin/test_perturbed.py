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
def test_nothing(cpg):
    assert cpg.learned.recovery is None


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


WIND = """

class Wind:
    cache_key = "wind 1"

    def __init__(self, strength):
        self.strength = strength
        self.name = f"wind-{strength:g}"

    def push(self, states, moment):
        return np.where(moment.steps[:, None] == 2, states + self.strength, states)


def pytest_cpg_perturbations():
    return {"wind": Wind}
"""
WINDY = """
import pytest


@pytest.mark.cpg(task="two-room", model="mirrored", perturbation="wind-0.05")
def test_windy(cpg):
    assert cpg.oracle.perturbed.any()


@pytest.mark.cpg(task="two-room", model="right", perturbation="wind-0.05,action-noise-0.1")
def test_several(cpg):
    assert cpg.design.perturbation == "wind-0.05,action-noise-0.1"
"""


def test_a_perturbation_of_a_conftest_runs_on_workers_is_cached_and_replayed(repository):
    repository.add("conftest.py", WIND)
    repository.makepyfile(test_windy=WINDY)
    spread = repository.runpytest("--cpg-workers=2", "--cpg-no-cache", "--cpg-json=spread.json")
    spread.assert_outcomes(failed=1)
    result = repository.runpytest("-n", "2", "--cpg-json=first.json")
    result.assert_outcomes(failed=1)
    assert "perturbation wind-0.05: recovered oracle" in flat(result)
    files = [*(repository.path / ".pytest_cache/d/cpg-arms").rglob("*")]
    assert files
    again = repository.runpytest("-n", "2", "--cpg-json=again.json")
    again.assert_outcomes(failed=1)
    assert [*(repository.path / ".pytest_cache/d/cpg-arms").rglob("*")] == files
    first, second, third = (
        [gate["comparisons"][0]["result"]["oracle"]["steps"] for gate in report["gates"]]
        for report in map(repository.json, ("first.json", "again.json", "spread.json"))
    )
    assert first == second == third
    replay = next(line for line in again.outlines if "--cpg-replay=" in line).split()[-1]
    replayed = repository.runpytest(replay)
    assert "perturbation wind-0.05" in flat(replayed)
    assert "changed" not in flat(replayed)
    repository.change("test_windy.py", '"wind-0.05"', '"wnd-0.5"')
    wrong = repository.runpytest()
    assert "perturbation: no perturbation is named 'wnd-0.5'. Did you mean 'wind'?" in flat(wrong)
    repository.change("conftest.py", 'return {"wind": Wind}', "return 1 / 0")
    raised = flat(repository.runpytest())
    assert "a pytest_cpg_perturbations hook raised ZeroDivisionError: division by zero" in raised
    assert "return 1 / 0" in raised


NUISANCES = """
import numpy as np
import pytest


@pytest.fixture
def learned_dynamics(oracle_dynamics):
    task = oracle_dynamics.task

    def model(observations, actions):
        moved = observations[:, :2] - actions
        return np.concatenate([moved, task.nuisance.of(moved)], axis=1)

    return model


@pytest.mark.cpg(task="two-room", perturbation="fast-nuisance-3")
def test_cluttered(cpg): ...


@pytest.mark.cpg(task="two-room", model="mirrored")
def test_swept(benchmark_runner, learned_dynamics):
    benchmark_runner.sweep(learned=learned_dynamics, perturbations=["fast-nuisance-3"])
"""


def test_models_of_a_gate_observe_a_nuisance_and_its_arms_are_cached_and_replayed(repository):
    repository.makepyfile(test_crowded=NUISANCES)
    reports, files = [], []
    for name in ("first.json", "again.json"):
        result = repository.runpytest("-n", "2", f"--cpg-json={name}", "-k", "cluttered")
        result.assert_outcomes(failed=1)
        reports.append(repository.json(name)["gates"][0]["comparisons"][0]["result"])
        files.append({*(repository.path / ".pytest_cache/d/cpg-arms").rglob("*")})
    assert "perturbation fast-nuisance-3: recovered oracle" in flat(result)
    assert reports[0]["oracle"]["steps"] == reports[1]["oracle"]["steps"]
    assert files[0] == files[1] != set()
    replay = next(line for line in result.outlines if "--cpg-replay=" in line).split()[-1]
    replayed = repository.runpytest(replay)
    assert "perturbation fast-nuisance-3" in flat(replayed)
    assert "changed" not in flat(replayed)
    # The A/A check.
    assert repository.runpytest("--cpg-model=oracle", "-k", "cluttered").ret == 0
    swept = flat(repository.runpytest("-k", "swept"))
    assert "under 'fast-nuisance-3' models observe other numbers, and a sweep has one" in swept

"""Planned as it was trained: planner="tdmpc2" and "as-trained", on files and on users' models."""

import pytest
from sessions import flat

torch = pytest.importorskip("torch")

from official_weights import tdmpc2

SETTINGS = 'obs_keys = ["place"]\naction_repeat = 1\nsimnorm_dim = 8\ndiscount = 0.95\n'
# Weights that nobody trained: a verdict is all that can be asked of them.
GATE = """
import pytest

@pytest.mark.cpg(
    task="track", budget=1, planner={planner!r}, episodes=10, max_verdict="MODEL BOTTLENECK"
)
def test_gate(cpg):
    print(cpg.design.planner)
    print(cpg.swapped)
"""
OWN = """
import numpy as np
import pytest
from pytest_cpg.planners import ICEM


class Model:
    def rollout(self, latents, actions):
        return latents[:, None] + np.cumsum(actions, axis=1)

    def score(self, latents):
        return np.abs(latents[..., 0])
    {more}


@pytest.fixture
def learned_dynamics():
    return Model()


@pytest.mark.cpg(task="track", budget=12, planner={planner!r}, episodes=10{marked})
def test_gate(cpg):
    print(cpg.design.planner)
    print(cpg.swapped)
"""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "final.pt"
    torch.save({"model": tdmpc2(observation=1, action=1, bins=11)}, path)
    return path


@pytest.fixture
def gate(repository, checkpoint):
    def run(planner, side=SETTINGS, *options):
        repository.makepyfile(test_gates=GATE.format(planner=planner))
        (repository.path / "final.pt").write_bytes(checkpoint.read_bytes())
        (repository.path / "final.toml").write_text(side)
        return repository.runpytest("--cpg-model=final.pt", "-v", "-s", *options)

    return run


def words(result):
    return flat(result)


def test_a_checkpoint_is_planned_with_as_the_official_code_does(gate):
    result = gate("tdmpc2", SETTINGS, "--cpg-quick")
    result.assert_outcomes(passed=1)
    said = words(result)
    assert "MPPI(iterations=6, samples=512, horizon=3, temperature=2.0, deviation=2.0," in said
    assert "elites=64, raw_temperature=True, minimum_deviation=0.05, policy_plans=24," in said
    assert "('dynamics', 'reward', 'value', 'policy')" in said


def test_as_trained_takes_what_the_side_file_says_of_the_planner(gate):
    smaller = (
        SETTINGS + "planner = { iterations = 1, samples = 16, elites = 4, policy_plans = 2 }\n"
    )
    result = gate("as-trained", smaller)
    assert result.parseoutcomes() == {"inconclusive": 1}
    said = words(result)
    assert "MPPI(iterations=1, samples=16, horizon=3," in said
    assert "elites=4, raw_temperature=True, minimum_deviation=0.05, policy_plans=2," in said
    assert "the model's policy proposes plans in the learned arm; the oracle arm knows no" in said
    assert "the model also gives reward, value, policy: the gap is not about" in said
    other = gate("as-trained", SETTINGS + 'planner = { name = "cem", horizon = 2 }\n')
    assert "CEM(iterations=3, samples=24, elites=6, horizon=2," in words(other)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('planner = "icem"', """planner: got 'icem'. Write planner = { name = "icem","""),
        ('planner = { name = "icm" }', "Did you mean 'icem'?"),
        ("planner = { elite = 4 }", "the model says {'name': 'tdmpc2', 'elite': 4}: "),
        ("planner = { elites = 600 }", "elites must not exceed samples 512, got 600"),
    ],
)
def test_a_side_file_with_a_planner_that_is_none_says_so(gate, line, said):
    result = gate("as-trained", f"{SETTINGS}{line}\n")
    assert result.ret == 1
    assert said in words(result)


def test_a_model_of_the_users_own_names_its_planner(repository):
    for more, shown in (
        ('trained_planner = {"name": "cem", "samples": 30}', "CEM(iterations=3, samples=30,"),
        ("trained_planner = ICEM(samples=16)", "ICEM(iterations=3, samples=16,"),
    ):
        repository.makepyfile(OWN.format(more=more, planner="as-trained", marked=", horizon=5"))
        result = repository.runpytest("-rP")
        result.assert_outcomes(passed=1)
        assert shown in words(result)
        assert "horizon=5" in words(result)


def test_a_model_that_says_nothing_of_its_planner_is_told_what_to_write(repository):
    repository.makepyfile(OWN.format(more="", planner="as-trained", marked=""))
    result = repository.runpytest()
    result.assert_outcomes(errors=1)
    said = words(result)
    assert 'planner="as-trained": this Model does not say how it is planned with. Write' in said
    assert 'trained_planner = {"name": "icem", "horizon": 20}' in said
    result.stdout.no_fnmatch_line("*Traceback*")


def test_planners_of_several_models_cannot_be_left_to_one(repository):
    repository.makepyfile(
        OWN.format(more="", planner="as-trained", marked="")
        .replace("def test_gate(cpg)", "def test_gate(benchmark_runner)")
        .replace("print(cpg.design.planner)", "benchmark_runner.rank({'a': Model(), 'b': Model()})")
        .replace("print(cpg.swapped)", "")
    )
    result = repository.runpytest()
    result.assert_outcomes(failed=1)
    assert "is the planner of one model, and here several are planned" in words(result)


def test_a_planner_that_wants_a_policy_says_where_there_is_none(repository):
    gate = OWN.format(more="", planner="tdmpc2", marked=', max_verdict="MODEL BOTTLENECK"')
    repository.makepyfile(gate.replace("budget=12", "budget=1"))
    result = repository.runpytest("-v")
    assert result.parseoutcomes() == {"inconclusive": 1}
    said = "the planner takes 24 plans from a model's policy, and this model has none: they are"
    assert said in words(result)

"""Models that know some places only are judged; models that ignore the action fail."""

import pytest

MODELS = """
import numpy as np

from pytest_cpg.world_models.transitions import collect_transitions


def table(task):
    '''Know what every move did in the 23 of 54 cells of some walks; elsewhere nothing moves.'''
    walks = collect_transitions(task, count=400, seed=0)
    befores = np.concatenate([walks.observations, walks.actions], axis=1)
    seen = dict(zip(map(tuple, befores), walks.next_observations, strict=True))

    def dynamics(observations, actions):
        rows = np.concatenate([observations, actions], axis=1)
        return np.array([seen.get(tuple(row), row[:2]) for row in rows])

    return dynamics


def constant():
    return lambda observations, actions: np.full_like(observations, 3.0)


def identity():
    return lambda observations, actions: observations


def drift():
    weights = np.random.default_rng(0).normal(size=(2, 32, 2))
    return lambda observations, actions: np.tanh(observations @ weights[0].T) @ weights[1]
"""
GATE = """
import pytest

@pytest.mark.cpg(task="maze", episodes=20, max_verdict="MODEL BOTTLENECK")
def test_gate(cpg):
    assert cpg.chance.success_count == 3
    assert cpg.learned.success_count == 8
"""


def test_a_table_of_some_of_the_cells_is_judged(repository):
    repository.makepyfile(models=MODELS, test_gates=GATE)
    repository.runpytest("--cpg-model=models:table").assert_outcomes(passed=1)


@pytest.mark.parametrize("name", ["constant", "identity", "drift"])
def test_a_model_that_reacts_nowhere_fails_whatever_is_accepted(repository, name):
    repository.makepyfile(models=MODELS, test_gates=GATE.partition("    assert")[0] + "    pass")
    result = repository.runpytest(f"--cpg-model=models:{name}", "-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*learned again  8/8 episodes*", "*the learned dynamics ignores the action*"]
    )

"""Models that know some places only are judged; models that ignore the action fail."""

import pytest

MODELS = """
import numpy as np

from pytest_cpg.world_models.transitions import collect_transitions


def table(task):
    '''Know what every move did in the 23 of 54 cells of some walks; elsewhere nothing moves.'''
    walks = collect_transitions(task, count=400, seed=0)

    def coded(observations, actions):
        rows = np.concatenate([observations, actions], axis=1)
        return rows @ 1000.0 ** np.arange(rows.shape[1])

    known, first = np.unique(coded(walks.observations, walks.actions), return_index=True)
    nexts = walks.next_observations[first]

    def dynamics(observations, actions):
        asked = coded(observations, actions)
        place = np.searchsorted(known, asked).clip(max=len(known) - 1)
        return np.where((known[place] == asked)[:, None], nexts[place], observations)

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

@pytest.mark.cpg(task="maze", episodes={episodes}{more})
def test_gate(cpg): ...
"""


def test_a_table_of_some_of_the_cells_is_judged_and_not_called_blind(repository):
    repository.makepyfile(models=MODELS, test_gates=GATE.format(episodes=20, more=""))
    result = repository.runpytest("--cpg-model=models:table")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["MODEL BOTTLENECK*", "*learned *8/20*", "*chance *3/20*"])
    for wrong in ("*model fault*", "*ignores the action*", "*ACTION BLIND*"):
        result.stdout.no_fnmatch_line(wrong)


@pytest.mark.parametrize("name", ["constant", "identity", "drift"])
def test_a_model_that_reacts_nowhere_fails_whatever_is_accepted(repository, name):
    accepting = GATE.format(episodes=8, more=', max_verdict="MODEL BOTTLENECK"')
    repository.makepyfile(models=MODELS, test_gates=accepting)
    result = repository.runpytest(f"--cpg-model=models:{name}", "-v")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*learned again * of 8 starts solved*", "*the learned dynamics ignores the action*"]
    )

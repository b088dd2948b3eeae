"""Gates on predictions, as a user meets them."""

import numpy as np

GATES = """
import pytest


@pytest.fixture
def learned_dynamics(request):
    if "copy" in request.node.name:
        return lambda observations, actions: observations
    return lambda observations, actions: observations + actions


@pytest.mark.cpg_counterfactual(task="maze", limit=0.3)
def test_adds_up(cpg_counterfactual):
    assert cpg_counterfactual.ignorant > 0.4


@pytest.mark.cpg_counterfactual(task="maze", limit=0.3)
def test_copy(cpg_counterfactual): ...


@pytest.mark.cpg_counterfactual(task="maze", limit=0.9)
def test_copy_passes(cpg_counterfactual): ...
"""


def test_what_knows_no_action_fails_and_a_limit_that_a_copy_passes_is_blind(repository):
    repository.makepyfile(test_gates=GATES)
    result = repository.runpytest("--cpg-json=cpg.json")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        [
            "ABOVE LIMIT: share confused 0.6* limit 0.3, *",
            "  Do       See that actions reach the network *",
            "BLIND: a copy of the input would have passed: its share confused is *",
            "  Do       Set a limit well below the shares of copy and chance.",
            " *share confused * CI * limit * copy chance",
        ]
    )
    parallel = repository.runpytest("-n", "2", "-q")
    parallel.assert_outcomes(passed=1, failed=2)


OF_TWO_KINDS = """
import pytest


@pytest.fixture
def learned_dynamics():
    return lambda observations, actions: observations


@pytest.mark.cpg_retrieval(task="maze", limit=0.1)
def test_found(cpg_retrieval): ...


@pytest.mark.cpg_counterfactual(task="maze", limit=0.3)
def test_actions(cpg_counterfactual): ...
"""


def test_each_kind_has_its_own_heads_below_one_label(repository):
    repository.makepyfile(test_gates=OF_TWO_KINDS)
    result = repository.runpytest()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            " ABOVE LIMIT (2)",
            " F test_found *",
            " *share confused * CI * limit * copy chance",
            " F test_actions *",
        ],
        consecutive=True,
    )


LOGGED = """
import numpy as np
import pytest


@pytest.fixture
def learned_dynamics(request):
    sign = -1 if "mirrored" in request.node.name else 1
    return lambda observations, actions: observations + sign * actions


@pytest.mark.cpg_counterfactual(transitions="{file}", limit=0.1)
def test_adds_up(cpg_counterfactual):
    assert 0.8 < cpg_counterfactual.beside["chance"] < 0.9


@pytest.mark.cpg_counterfactual(transitions="{file}", limit=0.1)
def test_mirrored(cpg_counterfactual): ...
"""


def test_a_file_of_transitions_needs_neither_task_nor_simulator(repository):
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, size=(1000, 2))
    arrays = {"observations": np.cumsum(actions, axis=0) - actions, "actions": actions}
    np.savez(repository.path / "logged.npz", **arrays, timeouts=np.arange(1000) % 50 == 49)
    repository.makepyfile(test_gates=LOGGED.format(file="logged.npz"))
    result = repository.runpytest("--cpg-workers=2")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["ABOVE LIMIT: share confused 0.*, limit 0.1, 500 steps."])
    np.savez(repository.path / "logged.npz", **arrays)
    result = repository.runpytest("--collect-only")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*transitions: there are neither next_observations"])
    repository.makepyfile(test_gates=LOGGED.format(file="lost.npz"))
    repository.runpytest("--collect-only").stdout.fnmatch_lines(
        ["*transitions: there is no file 'lost.npz'. Give a*"]
    )

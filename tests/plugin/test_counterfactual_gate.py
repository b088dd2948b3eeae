"""Gates on predictions, as a user meets them."""

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
            "ABOVE LIMIT: share confused 0.4* limit 0.3, *",
            "  Do       See that actions reach the network *",
            "BLIND: a model that knows nothing would have passed: its share confused is",
        ]
    )
    parallel = repository.runpytest("-n", "2", "-q")
    parallel.assert_outcomes(passed=1, failed=2)

"""Which of two policies is better, asked of a good model and of one that was trained on a bug."""

from dataclasses import replace

import pytest

from pytest_cpg.gates.policy_comparison.published import queries_at

QUERIES = queries_at("maze-umaze")
SHORT = QUERIES.take(QUERIES.horizons <= 30)


@pytest.mark.cpg_opcc(queries=SHORT)
def test_next_observations(cpg_opcc):
    assert cpg_opcc.loss.high < 0.02


class TestFittedToTheObservationItself:
    @pytest.fixture
    def steps(self, steps):
        return replace(steps, next_observations=steps.observations)

    @pytest.mark.xfail(strict=True, reason="nothing moves in this model")
    @pytest.mark.cpg_opcc(queries=SHORT)
    def test_nothing_moves(self, cpg_opcc):
        pass

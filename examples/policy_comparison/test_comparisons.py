"""Which of two recorded stretches earned more, asked of a good model and of two wrong ones."""

from dataclasses import replace

import pytest
from recorded_room import HELD_OUT, TRAIN, LinearEnsemble

from pytest_cpg.gates.policy_comparison.logs import queries_from_episodes

QUERIES = queries_from_episodes(HELD_OUT, seed=0, horizons=(10, 20, 30))


@pytest.mark.cpg_opcc(queries=QUERIES)
def test_next_observations(cpg_opcc):
    assert cpg_opcc.loss.estimate < 0.05


class TestFittedToMirroredActions:
    @pytest.fixture
    def learned_dynamics(self):
        steps = TRAIN.transitions
        return LinearEnsemble(replace(steps, actions=-steps.actions))

    @pytest.mark.xfail(strict=True, reason="it goes the other way")
    @pytest.mark.cpg_opcc(queries=QUERIES)
    def test_it_answers_no_better_than_without_a_model(self, cpg_opcc):
        pass


class TestFittedToTheObservationItself:
    @pytest.fixture
    def learned_dynamics(self):
        steps = TRAIN.transitions
        return LinearEnsemble(replace(steps, next_observations=steps.observations))

    @pytest.mark.xfail(strict=True, reason="nothing moves in this model")
    @pytest.mark.cpg_opcc(queries=QUERIES)
    def test_nothing_moves(self, cpg_opcc):
        pass

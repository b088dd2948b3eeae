"""Advice that follows what a model brings."""

import numpy as np
import pytest
from faulty_models import Fault, OwnScore, Puck, Remembering, everywhere, named

from pytest_cpg.gates.planning_gap.cause import Cause, advice_on

TURN = np.array([[np.cos(2), -np.sin(2)], [np.sin(2), np.cos(2)]])


class Turned:
    """The true dynamics, and a decoder that turns places and speeds about the origin."""

    def __init__(self, goal=(3.0, 0.0)):
        self.goal = np.array(goal)

    def rollout(self, latents, actions):
        return Puck().rollout(latents, actions)

    def decode(self, latents):
        places = (latents[..., :2] - self.goal) @ TURN
        return np.concatenate([places, latents[..., 2:] @ TURN], axis=-1)


class Confused(Remembering):
    """Takes the last place for the present one: it remembers speeds the wrong way round."""

    def update(self, latents, actions, observations):
        places = observations[:, :2]
        return np.concatenate([places, latents[:, :2] - places], axis=1)


def test_of_a_decoder_that_is_wrong_the_advice_is_to_mend_it():
    found = named(Fault(Turned(), "SCORE HEAD"))
    assert found.cause == "SCORE HEAD"
    assert "Retrain the decoder" in found.recommendation
    assert "decode(latents)" not in found.recommendation


def test_of_a_score_of_its_own_the_advice_is_to_mend_it_or_leave_it_out():
    found = named(Fault(OwnScore(goal=(3.0, 0.0)), "SCORE HEAD"))
    assert found.recommendation.startswith("Mend its score, or leave out score: ")


def test_of_a_memory_that_is_wrong_the_advice_points_to_update():
    found = named(Fault(Confused(), "DYNAMICS BIAS"))
    assert found.cause == "DYNAMICS BIAS"
    assert found.recommendation.startswith("Check update first")


@pytest.mark.parametrize(
    ("swapped", "said"),
    [
        (("dynamics", "reward"), "Mend its reward, or leave out reward: "),
        (
            ("dynamics", "reward", "value"),
            "Mend its reward and value, or leave out reward and terminal_value: ",
        ),
        (("dynamics", "decoder"), "Retrain the decoder "),
    ],
)
def test_what_rates_is_named_by_what_is_swapped(swapped, said):
    advice = advice_on(Cause.SCORE_HEAD, swapped=swapped, has_memory=False, knows_data=False)
    assert advice.startswith(said)


def test_without_data_two_questions_on_the_loss_come_before_any_constant():
    advice = advice_on(
        Cause.ONE_STEP_ERROR, swapped=("dynamics",), has_memory=False, knows_data=False
    )
    parts = ("held-out data", "more data", "longer training", "obstacles, constants, units")
    assert sorted(parts, key=advice.index) == list(parts)
    assert advice.endswith("Return Transitions from training_data, and the gate tells which.")
    assert "update" not in advice


@pytest.mark.parametrize(("knows_data", "count"), [(True, 0), (False, 1)])
def test_training_data_is_asked_for_where_it_is_not_known(knows_data, count):
    advice = advice_on(
        Cause.LOCAL_ERROR, swapped=("dynamics",), has_memory=False, knows_data=knows_data
    )
    assert advice.count("training_data") == count


def test_every_cause_but_none_has_advice():
    for cause in Cause:
        given = advice_on(cause, swapped=("dynamics", "reward"), has_memory=True, knows_data=False)
        assert bool(given) == (cause != Cause.NONE)


def test_a_known_fault_with_its_data_is_not_asked_for_it():
    from faulty_models import noisy_near_the_goal

    found = named(Fault(noisy_near_the_goal, "LOCAL ERROR", everywhere()))
    assert found.cause == "LOCAL ERROR"
    assert "training_data" not in found.recommendation

"""The real fault is named beside a harmless one; tests/calibration has every pair."""

from dataclasses import dataclass

import double_faults as double
import numpy as np
import pytest
from faulty_models import Fault, OwnScore, Puck
from faulty_models import named as puck_named

from pytest_cpg.contracts import FiniteActions
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.planning_gap.card import cause_of
from pytest_cpg.gates.planning_gap.cause import Cause
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import RandomShooting
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import OracleDynamics

QUICK = (
    "maze: wide wormhole, beside a dead end that holds",
    "maze: walls missing, beside a little noise",
    "two-room: mirrored after 3 steps, beside a corner that holds",
    "two-room: blind in a region, beside another unit of score",
    "reacher: mirrored after 3 steps, beside nonsense in the angles",
    "puck: a corner that seems to win, beside narrow training data",
)


@pytest.mark.parametrize("title", QUICK)
def test_the_real_one_of_two_faults_is_named(title):
    if title.startswith("reacher"):
        pytest.importorskip("dm_control")
    (case,) = (case for case in double.CASES if case.title == title)
    assert double.cause_of(case).named in case.causes


@pytest.mark.parametrize("seed", [0, 2])
def test_moves_that_are_swapped_are_wrong_everywhere_though_half_of_them_come_as_near(seed):
    learned = double.model_of("two-room", "a corner that holds", "moves swapped")
    found = double.named("two-room", learned, seed=seed)
    assert found.cause == Cause.ONE_STEP_ERROR
    assert found.misreading.name == "ACTION ORDER"


@pytest.mark.parametrize("harmless", ["clutter", "another unit of score", "a corner that holds"])
def test_a_harmless_fault_is_not_accused(harmless):
    learned = double.model_of("two-room", harmless)
    found = double.named("two-room", learned, verdict=Verdict.MODEL_BOTTLENECK)
    assert found.cause == Cause.NONE


def test_the_third_arm_names_a_score_that_noise_hides():
    pytest.importorskip("dm_control")
    learned = double.model_of("reacher", "", "score of another target", "large noise")
    found = double.named("reacher", learned)
    assert found.cause == Cause.SCORE_HEAD
    assert "true dynamics, rated by the model, still lose" in found.summary


def test_a_sign_is_no_headline_where_the_score_misleads():
    pytest.importorskip("dm_control")
    learned = double.model_of("reacher", "", "score of another target", "one sign flipped")
    cause = cause_of(double.named("reacher", learned))
    assert cause.heading == "Why the gap is there: SCORE HEAD"
    assert "model(o, [1, -1] * a)" in cause.advice
    assert "lose 0.00" not in cause.text


class Forgetful(OwnScore):
    """Remembers places, and takes speeds for none."""

    def encode(self, observations):
        return observations.copy()

    def update(self, latents, actions, observations):
        return observations * [1, 1, 0, 0]

    def decode(self, latents):
        return latents


@pytest.mark.parametrize(
    ("goal", "name"),
    [((0.0, 0.0), "DYNAMICS BIAS"), ((3.0, 0.0), "SCORE HEAD and DYNAMICS BIAS")],
)
def test_a_score_that_misleads_without_memory_misleads_with_a_wrong_one(goal, name):
    found = puck_named(Fault(Forgetful(goal=goal), ""))
    assert found.named == name
    assert ("What is left by the task's score: " in found.summary) == (" and " in name)


@dataclass(frozen=True)
class Lever(Puck):
    """Pull a lever once to the left, to the right or not at all, to where it should be."""

    budget: int = 1
    observation_size: int = 2
    actions = FiniteActions(np.array([[-1.0], [0.0], [1.0]]))

    def reset(self, seeds):
        return np.array([[0.0, np.random.default_rng(seed).choice([-1.0, 1.0])] for seed in seeds])

    def step(self, states, actions):
        return states + actions * [1.0, 0.0]

    def rollout(self, states, actions):
        return states[:, None] + np.cumsum(actions, axis=1) * [1.0, 0.0]

    def score(self, observations):
        return np.abs(observations[..., 0] - observations[..., 1])


def test_what_nothing_is_done_in_is_no_place_that_is_right():
    task = Lever()
    design = Design(
        task=task, planner=RandomShooting(candidates=20, horizon=1), episodes=30, seed=0
    )
    oracle = OracleDynamics(task)

    def mirrored(observations, actions):
        return task.step(observations, -actions)

    result = measure_gap(design, oracle=oracle, learned=mirrored)
    found = diagnose(design, oracle=oracle, learned=mirrored, result=result)
    assert found.cause == Cause.DYNAMICS_BIAS
    assert found.misreading.name == "ACTION SIGN"

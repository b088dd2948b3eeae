from dataclasses import replace

import numpy as np
import pytest
from faulty_models import Fault, Late, Puck, deaf, design_of, perfect

from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import RandomShooting
from pytest_cpg.world_models import OracleDynamics


def faults_of(task, learned):
    """Return the faults of a gate, and the arms that it told of."""
    told = []
    fault = Fault(learned, "", planner=RandomShooting(candidates=16, horizon=4))
    design = replace(design_of(fault, episodes=10), task=task)
    result = measure_gap(
        design,
        oracle=OracleDynamics(task),
        learned=learned,
        progress=lambda name, *_: told.append(name),
    )
    return result.faults, set(told)


def blind_where(is_blind):
    def dynamics(observations, actions):
        blind = is_blind(observations)[:, None]
        return np.where(blind, deaf(observations, actions), perfect(observations, actions))

    return dynamics


def at_rest(observations):
    """Say where the speeds are zero, as at every start and nowhere else."""
    return (observations[:, 2:] == 0).all(axis=1)


def test_a_model_that_tells_actions_apart_at_a_start_is_asked_no_more():
    assert faults_of(Puck(), perfect) == ((), {"oracle", "learned", "chance"})
    assert faults_of(Puck(), blind_where(lambda o: ~at_rest(o)))[0] == ()
    assert faults_of(Puck(), Late(delay=2))[0] == ()


def test_a_model_that_is_blind_at_the_starts_alone_has_no_fault():
    faults, told = faults_of(Puck(), blind_where(at_rest))
    assert faults == ()
    assert "learned again" in told


@pytest.mark.parametrize(
    ("budget", "is_blind"),
    [
        # Planned from at the starts alone.
        (1, at_rest),
        # No puck gets as far.
        (40, lambda observations: np.abs(observations[:, 0]) < 100),
    ],
)
def test_a_model_that_is_blind_wherever_its_arm_plans_is_at_fault(budget, is_blind):
    ((fault,), _) = faults_of(Puck(budget=budget), blind_where(is_blind))
    assert "ignores the action" in fault


def test_a_model_of_a_task_that_does_not_react_is_not_at_fault():
    class Numb(Puck):
        def step(self, states, actions):
            return super().step(states, 0 * actions)

        def rollout(self, states, actions):
            return super().rollout(states, 0 * actions)

    assert faults_of(Numb(budget=3), deaf)[0] == ()

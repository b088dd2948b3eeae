"""Planners that plan anew every few steps control what the published ones do not."""

import numpy as np
import pytest
from runs import arm_of

from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.planners import CEM, ICEM, MPPI
from pytest_cpg.world_models import OracleDynamics, bind

pytest.importorskip("dm_control")
pytestmark = pytest.mark.slow

EPISODES = 20


def solved(planner):
    from pytest_cpg.tasks.control.task import control_task

    task = control_task("cartpole-swingup", budget=300, actions="box")
    starts = sample_starts(task, EPISODES, seed=0)
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    model = bind(OracleDynamics(task), task, probe_states=starts.states[:8], probe_actions=actions)
    arm = arm_of("oracle", task, planner, model, starts, seed=0)
    print(f"\n{planner}: {arm.success_count}/{EPISODES}, {arm.rollout_steps:.0f} steps a plan")
    return arm.success_count


def test_controllers_swing_up_a_cartpole_that_the_published_planner_often_does_not():
    published = solved(CEM())
    for planner in (
        CEM(horizon=30, objective="sum", execute=5, warm_start=True, minimum_deviation=0.1),
        ICEM(horizon=30, execute=5),
        MPPI(horizon=30, execute=5),
    ):
        assert solved(planner) >= EPISODES - 1 > published

"""One model and two planners: a planner that looks one step ahead cannot see what is missing."""

import pytest


@pytest.fixture
def learned_dynamics():
    """A world model that knows how moves work, but not where the walls are."""
    return lambda observations, actions: observations + actions


@pytest.mark.cpg(task="maze", planner="one-step")
def test_one_step_planning_does_not_need_the_walls(cpg):
    assert cpg.design.planner == "OneStep(horizon=1)"


@pytest.mark.xfail(strict=True, reason="longer plans lead through the walls")
@pytest.mark.cpg(task="maze", planner="random-shooting")
def test_random_shooting_does(cpg):
    pass

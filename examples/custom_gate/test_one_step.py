"""One model and two questions: its next step is nearly right, and plans with it fail."""

import pytest


@pytest.fixture
def learned_dynamics():
    """A world model that knows how moves work, but not where the walls are."""
    return lambda observations, actions: observations + actions


@pytest.mark.one_step_error(task="maze", limit=0.3)
def test_the_next_step_is_nearly_right(one_step_error):
    assert one_step_error.found.estimate < 0.3


@pytest.mark.xfail(strict=True, reason="plans lead through the walls")
@pytest.mark.cpg(task="maze", planner="random-shooting")
def test_plans_with_it_work(cpg):
    pass

"""One model and two questions: in two rooms its next step is nearly right; in a maze plans fail."""

import pytest


@pytest.fixture
def learned_dynamics():
    """A world model that knows how moves work, but not where the walls are."""
    return lambda observations, actions: observations + actions


@pytest.mark.one_step_error(task="two-room", limit=0.2)
def test_the_next_step_is_nearly_right(one_step_error):
    assert one_step_error.found.estimate < 0.2


@pytest.mark.xfail(strict=True, reason="plans lead through the walls")
@pytest.mark.cpg(task="maze", planner="random-shooting")
def test_plans_with_it_work(cpg):
    pass

"""Gates on a model that sees blocks as pictures, and on one with a quarter of its training."""

import pytest

from pytest_cpg.planners import BeamSearch

half_trained = pytest.param(1, marks=pytest.mark.xfail(strict=True, reason="half-trained"))
by_distance = pytest.mark.parametrize("rates", ["distance"])


@by_distance
@pytest.mark.parametrize("epochs", [4, half_trained])
@pytest.mark.cpg_counterfactual(task="blocks:3,look=grid", limit=0.1)
def test_it_knows_which_action_does_what(cpg_counterfactual):
    pass


@by_distance
@pytest.mark.parametrize("epochs", [4, half_trained])
@pytest.mark.cpg(task="blocks:3,k=5,look=grid", planner="greedy", margin=0.25)
def test_closed_loop(cpg):
    """A new plan of one step after every step."""


@pytest.mark.parametrize(("rates", "epochs"), [("distance", 4), ("reward", 4)])
@pytest.mark.cpg(
    task="blocks:3,k=5,look=grid",
    planner=BeamSearch(width=1, horizon=5, objective="terminal", execute=5),
    margin=0.3,
)
def test_open_loop(cpg):
    """As published: a plan is carried out without another look. Its arms say what is lost where."""
    assert cpg.rescored.success_rate >= cpg.learned.success_rate - 0.1

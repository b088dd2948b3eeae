"""A model of a few random actions is exploited; one that knows where plans lead is not."""

import pytest

exploited = pytest.mark.xfail(strict=True, reason="the planner finds holes of this model")
data = pytest.mark.parametrize("data", [pytest.param("random", marks=exploited), "visited"])


@data
@pytest.mark.cpg_plan_quality(
    task="cartpole-swingup", planner="preset", episodes=10, max_exploitation=0.2
)
def test_cartpole(cpg_plan_quality):
    """The model that is accepted has 0.06, and solves 9 of 10 starts."""


@data
@pytest.mark.cpg_plan_quality(
    task="acrobot-swingup", planner="preset", episodes=12, max_exploitation=0.4
)
def test_acrobot(cpg_plan_quality):
    """Acrobot magnifies errors over the 40 steps of a plan: docs/plan-quality.md."""

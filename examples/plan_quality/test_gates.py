"""A model of a few random actions is exploited; one that knows where plans lead is not."""

import pytest

exploited = pytest.mark.xfail(strict=True, reason="the planner finds holes of this model")
data = pytest.mark.parametrize("data", [pytest.param("random", marks=exploited), "visited"])


@data
@pytest.mark.cpg_plan_quality(task="cartpole-swingup", planner="preset", episodes=8)
def test_cartpole(cpg_plan_quality):
    """At most 0.1 more in the model than in truth, the default."""


@data
@pytest.mark.cpg_plan_quality(
    task="acrobot-swingup", planner="preset", episodes=8, max_exploitation=0.3
)
def test_acrobot(cpg_plan_quality):
    """The acrobot is chaotic: no plan of 40 steps is as good in truth as in a model."""

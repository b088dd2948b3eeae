"""A model of a few random actions is exploited; one that knows where plans lead is not."""

import pytest

exploited = pytest.mark.xfail(strict=True, reason="the planner finds holes of this model")
data = pytest.mark.parametrize("data", [pytest.param("random", marks=exploited), "visited"])


@data
@pytest.mark.cpg_plan_quality(task="cartpole-swingup", planner="preset", episodes=10)
def test_cartpole(cpg_plan_quality):
    """At most 0.1 more in the model than in truth, the default."""


@data
@pytest.mark.cpg_plan_quality(
    task="acrobot-swingup", planner="preset", episodes=12, max_exploitation=0.25
)
def test_acrobot(cpg_plan_quality):
    """Acrobot magnifies errors over the 40 steps of a plan: docs/plan-quality.md."""

"""Four gates, one for each verdict that matters. Two of them fail on their model, one on itself."""

import pytest

from pytest_cpg.planners import RandomShooting


@pytest.mark.cpg(task="acrobot-swingup", starts="fixed", planner="cem", episodes=20)
def test_acrobot_from_the_published_start(cpg):
    """MODEL BOTTLENECK: the oracle swings up three times in four, the model never."""


@pytest.mark.cpg(task="cartpole-swingup", episodes=30)
def test_cartpole(cpg):
    """MODEL BOTTLENECK: the same planner that nearly always succeeds hardly ever does."""


@pytest.mark.cpg(task="acrobot-swingup", episodes=30, min_oracle=0.2)
def test_acrobot_from_random_starts(cpg):
    """PLANNER BOTTLENECK: not even the true dynamics help this planner; the gate sees nothing."""


@pytest.mark.cpg(
    task="reacher-easy",
    planner=RandomShooting(candidates=30, horizon=10),
    max_verdict="MODEL AS GOOD AS ORACLE",
)
def test_reacher(cpg):
    """MODEL AS GOOD AS ORACLE: the strictest gate passes."""
    assert cpg.learned.success_rate >= 0.9

"""How far ahead CEM plans (acrobot, published start): far is not better, with the true dynamics."""

import pytest

from pytest_cpg.planners import CEM


@pytest.mark.parametrize("learned", ["random-data", "policy-data", "tdmpc2"])
@pytest.mark.parametrize(
    (),
    [
        pytest.param(
            marks=pytest.mark.cpg(planner=CEM(ties="published", horizon=horizon)),
            id=f"horizon-{horizon}",
        )
        for horizon in (1, 5, 10, 15, 20, 30)
    ],
)
@pytest.mark.cpg(
    task="acrobot-swingup",
    starts="fixed",
    episodes=50,
    seed=0,
    max_verdict="MODEL BOTTLENECK",
)
def test_horizons(cpg, learned):
    """One gate for each published horizon."""

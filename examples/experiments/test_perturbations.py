"""Lost actions: left out of the plan, as published, or idled away (acrobot, CEM)."""

import pytest

from pytest_cpg.planners import CEM


@pytest.mark.parametrize("learned", ["random-data", "policy-data", "tdmpc2"])
@pytest.mark.parametrize(
    (),
    [
        pytest.param(marks=pytest.mark.cpg(perturbation=name), id=name)
        for name in ("drop-next-0", "skip-next-1", "skip-next-5", "drop-next-1", "drop-next-5")
    ],
)
@pytest.mark.cpg(
    task="acrobot-swingup",
    planner=CEM(ties="published"),
    starts="fixed",
    episodes=50,
    max_verdict="MODEL BOTTLENECK",
)
def test_perturbations(cpg, learned):
    """One gate for each number of lost actions."""

"""Noise on what the planner sees (acrobot, CEM, published start): 0 is in the perturbations."""

import pytest

from pytest_cpg.planners import CEM


@pytest.mark.parametrize("learned", ["random-data", "policy-data", "tdmpc2"])
@pytest.mark.parametrize(
    (),
    [
        pytest.param(marks=pytest.mark.cpg(perturbation=name), id=name)
        for name in ("observation-noise-0.01", "observation-noise-0.05", "observation-noise-0.1")
    ],
)
@pytest.mark.cpg(
    task="acrobot-swingup",
    planner=CEM(ties="published"),
    starts="fixed",
    episodes=50,
    seed=0,
    max_verdict="MODEL BOTTLENECK",
)
def test_noise(cpg, learned):
    """One gate for each published deviation of the noise."""

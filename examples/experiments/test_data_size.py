"""More data, a smaller validation error, the same verdict (acrobot, published start)."""

import pytest

from pytest_cpg.planners import RandomShooting

SEEDS = [pytest.param(seed, marks=pytest.mark.cpg(seed=seed)) for seed in range(3)]


@pytest.mark.parametrize("training_seed", SEEDS)
@pytest.mark.parametrize("transitions", [200, 2_000, 20_000])
@pytest.mark.cpg(
    task="acrobot-swingup",
    planner=RandomShooting(ties="published"),
    starts="fixed",
    episodes=50,
    max_verdict="MODEL BOTTLENECK",
)
def test_data_size(cpg):
    """One gate for each training set; the seed is that of the data, the model and the episodes."""

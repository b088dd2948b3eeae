"""More data, a smaller validation error, the same verdict (acrobot, published start)."""

import pytest

from pytest_cpg.planners import RandomShooting


def gates():
    for transitions in (200, 2_000, 20_000):
        for learned in ("published-network", "random-data"):
            for seed in range(3):
                yield pytest.param(
                    transitions,
                    learned,
                    seed,
                    marks=pytest.mark.cpg(seed=seed),
                    id=f"{transitions}-{learned}-seed-{seed}",
                )


@pytest.mark.parametrize(("transitions", "learned", "training_seed"), list(gates()))
@pytest.mark.cpg(
    task="acrobot-swingup",
    planner=RandomShooting(ties="published"),
    starts="fixed",
    episodes=50,
    max_verdict="MODEL BOTTLENECK",
)
def test_data_size(cpg, transitions, learned, training_seed):
    """One gate for each training set; the seed is that of the data, the model and the episodes."""

"""A model climbs from MODEL BOTTLENECK to MODEL AS GOOD AS ORACLE as its data grows.

Nothing but the number of transitions differs between the rungs of a task. Each rung is tried with
three training seeds: a verdict judges one checkpoint, not the recipe that made it.
"""

import pytest

from pytest_cpg.planners import RandomShooting

reacher = pytest.mark.cpg(
    task="reacher-easy",
    planner=RandomShooting(candidates=30, horizon=10),
    episodes=50,
)
seeds = pytest.mark.parametrize("training_seed", [11, 12, 13])
too_few = pytest.mark.xfail(strict=True, reason="so few transitions leave a MODEL BOTTLENECK")


@reacher
@seeds
@too_few
@pytest.mark.parametrize("transitions", [100])
def test_reacher_low_rung(cpg):
    pass


@reacher
@seeds
@pytest.mark.parametrize("transitions", [100_000])
@pytest.mark.cpg(max_verdict="MODEL AS GOOD AS ORACLE")
def test_reacher_high_rung(cpg):
    pass


cartpole = pytest.mark.cpg(task="cartpole-swingup", planner="preset", episodes=30)


@cartpole
@seeds
@too_few
@pytest.mark.parametrize("transitions", [60])
def test_cartpole_low_rung(cpg):
    pass


@cartpole
@seeds
@pytest.mark.parametrize("transitions", [2_000])
@pytest.mark.cpg(max_verdict="MODEL AS GOOD AS ORACLE")
def test_cartpole_high_rung(cpg):
    pass

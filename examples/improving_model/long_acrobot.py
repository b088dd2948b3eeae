"""The same climb on acrobot-swingup, which takes much longer: pytest long_acrobot.py"""

import pytest

acrobot = pytest.mark.cpg(task="acrobot-swingup", planner="preset", episodes=50)
seeds = pytest.mark.parametrize("training_seed", [11, 12, 13])
too_few = pytest.mark.xfail(strict=True, reason="so few transitions leave a MODEL BOTTLENECK")


@acrobot
@seeds
@too_few
@pytest.mark.parametrize("transitions", [500])
def test_acrobot_low_rung(cpg):
    pass


@acrobot
@seeds
@pytest.mark.parametrize("transitions", [97_000])
@pytest.mark.cpg(max_verdict="MODEL AS GOOD AS ORACLE")
def test_acrobot_high_rung(cpg):
    pass

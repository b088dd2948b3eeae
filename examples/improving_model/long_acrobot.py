"""The same climb on acrobot-swingup, which takes much longer: pytest long_acrobot.py"""

import pytest

from pytest_cpg import Verdict

acrobot = pytest.mark.cpg(task="acrobot-swingup", planner="preset", episodes=50)
seeds = pytest.mark.parametrize("training_seed", [11, 12, 13])


@acrobot
@seeds
@pytest.mark.parametrize("transitions", [500])
@pytest.mark.cpg(max_verdict="MODEL BOTTLENECK")
def test_acrobot_low_rung(cpg):
    assert cpg.verdict is Verdict.MODEL_BOTTLENECK


@acrobot
@seeds
@pytest.mark.parametrize("transitions", [97_000])
@pytest.mark.cpg(max_verdict="MODEL AS GOOD AS ORACLE")
def test_acrobot_high_rung(cpg):
    assert cpg.verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE

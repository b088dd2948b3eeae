"""Gates on a model that sees the reacher in pixels, and on the same early in its training.

The true dynamics plan on states, so that nothing is drawn but the real steps of the learned arm.
"""

import pytest
from train import PIXELS

from pytest_cpg.planners import RandomShooting

early = pytest.param(
    "early", marks=pytest.mark.xfail(strict=True, reason="it loses more than the margin")
)


@pytest.mark.parametrize("checkpoint", ["trained", early])
@pytest.mark.cpg(
    task="reacher-easy",
    observe=PIXELS,
    planner=RandomShooting(candidates=30, horizon=10),
    episodes=100,
    budget=200,
    margin=0.3,
)
def test_it_reaches_what_it_sees(cpg): ...

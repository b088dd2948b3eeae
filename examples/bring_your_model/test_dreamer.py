"""Checkpoints of DreamerV3's port to torch: put one here, beside a .toml of its name."""

import pytest

pytest.importorskip("torch")

from pytest_cpg.planners import CEM
from pytest_cpg.tasks import TASKS


@pytest.mark.xfail(strict=True, reason="nobody trained these weights; with yours, leave this out")
@pytest.mark.cpg(
    task=TASKS["reacher-easy"](action_repeat=2, actions="box"),
    model="dreamer.pt",
    planner=CEM(samples=16, horizon=6, iterations=2, elites=4, objective="sum", execute=2),
    episodes=12,
    budget=20,
)
def test_dreamer(cpg): ...

"""Checkpoints of the official TD-MPC2: put one here, beside a .toml of its name with the rest."""

import pytest

pytest.importorskip("torch")

from pytest_cpg.tasks import TASKS


@pytest.mark.xfail(strict=True, reason="nobody trained these weights; with yours, leave this out")
@pytest.mark.cpg(
    task=TASKS["reacher-easy"](action_repeat=2, actions="box"),
    model="tdmpc2.pt",
    planner="as-trained",
    episodes=12,
    budget=20,
)
def test_tdmpc2(cpg): ...

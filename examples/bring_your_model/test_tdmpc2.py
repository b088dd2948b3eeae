"""Checkpoints of the official TD-MPC2: put one here, beside a .toml of its name with the rest."""

import pytest

pytest.importorskip("torch")

from pytest_cpg.tasks import TASKS

untrained = pytest.mark.xfail(
    strict=True, reason="nobody trained these weights; with yours, leave this out"
)
GATE = {
    "task": TASKS["reacher-easy"](action_repeat=2, actions="box"),
    "planner": "as-trained",
    "episodes": 12,
    "budget": 20,
}


@untrained
@pytest.mark.cpg(model="tdmpc2.pt", **GATE)
def test_tdmpc2(cpg): ...


@untrained
@pytest.mark.cpg(model="tdmpc2_pixels.pt", observe={"size": 64, "stack": 3}, **GATE)
def test_tdmpc2_of_pictures(cpg): ...

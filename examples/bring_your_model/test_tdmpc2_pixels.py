"""A checkpoint of the official TD-MPC2 on pictures: put it here, beside a .toml of its name."""

import pytest

pytest.importorskip("torch")

from pytest_cpg.tasks import TASKS


@pytest.mark.xfail(strict=True, reason="nobody trained these weights; with yours, leave this out")
@pytest.mark.cpg(
    task=TASKS["reacher-easy"](action_repeat=2, actions="box"),
    model="tdmpc2_pixels.pt",
    observe={"size": 64, "stack": 3},
    planner="as-trained",
    episodes=12,
    budget=20,
)
def test_tdmpc2_pixels(cpg): ...

"""The wall time of a whole gate, as `pytest` runs it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.row import Row

CONFTEST = """
import pytest

from pytest_cpg.world_models import MLP


@pytest.fixture(scope="session")
def learned_dynamics():
    return MLP.load("acrobot.pt")
"""
GATE = """
import pytest


@pytest.mark.cpg(task="acrobot-swingup", starts="fixed", max_verdict="MODEL BOTTLENECK")
def test_gate(cpg):
    pass
"""


def acrobot() -> Row:
    """Time a gate on acrobot with 50 episodes per arm, the model trained beforehand."""
    from pytest_cpg.tasks.control import acrobot_swingup
    from pytest_cpg.world_models import collect_transitions, train_mlp

    task = acrobot_swingup()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "conftest.py").write_text(CONFTEST)
        (folder / "test_gate.py").write_text(GATE)
        transitions = collect_transitions(task, count=2_000, seed=0)
        train_mlp(transitions, seed=0, variant="plain").save(folder / "acrobot.pt")
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--cpg-episodes=50"],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds = time.perf_counter() - begun
    return Row(
        what="pytest, acrobot n = 50, three arms, wall time",
        ours=f"{seconds:.1f} s",
        other="",
        result=f"{seconds:.1f} s",
        bar="<= 25 s, idle",
    )

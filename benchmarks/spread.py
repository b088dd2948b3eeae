"""Gates and episodes that are spread over processes."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.row import Row

MODEL = """
import pytest
import torch


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(7, WIDTH), torch.nn.SiLU(),
            torch.nn.Linear(WIDTH, WIDTH), torch.nn.SiLU(),
            torch.nn.Linear(WIDTH, 6),
        )

    def forward(self, observations, actions):
        inputs = torch.cat([observations, actions], dim=-1)
        return observations + 0.01 * self.layers(inputs)


@pytest.fixture(scope="session")
def learned_dynamics():
    return Network()
"""
GATES = """
import pytest
from pytest_cpg.planners import CEM


@pytest.mark.parametrize("gate", range(8))
@pytest.mark.cpg(task="acrobot-swingup", planner=CEM(), max_verdict="MODEL BOTTLENECK")
def test_gate(cpg, gate):
    pass
"""
TIMES = ("seconds", "latency_ms", "cpu_ms")


def narrow() -> Row:
    """Compare gates whose oracle arm, which has two threads on one worker, is half of the work."""
    return _xdist(width=256, episodes=10)


def wide() -> Row:
    """Compare gates whose learned arm is most of the work: networks are as wide as TD-MPC2's."""
    return _xdist(width=512, episodes=5)


def _xdist(*, width: int, episodes: int) -> Row:
    """Compare eight gates on four xdist workers with the same gates on one."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ini = f"[pytest]\ncpg_episodes = {episodes}\ncpg_diagnose = never\n"
        (folder / "pytest.ini").write_text(ini)
        (folder / "conftest.py").write_text(MODEL.replace("WIDTH", str(width)))
        (folder / "test_gates.py").write_text(GATES)
        one, four = (_seconds(folder, workers) for workers in (1, 4))
        reports = [_untimed(json.loads((folder / f"{n}.json").read_text())) for n in (1, 4)]
    if reports[0] != reports[1]:
        raise RuntimeError("the reports differ")
    return Row(
        what=f"8 gates, torch {width}x{width}, -n 4, wall, same report",
        ours=f"{four:.1f} s",
        other=f"-n 1 {one:.1f} s",
        result=f"{one / four:.1f} x",
        bar=">= 1.6 x",
    )


def _seconds(folder: Path, workers: int) -> float:
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(workers), "--cpg-no-cache"]
    begun = time.perf_counter()
    subprocess.run(
        [*command, f"--cpg-json={workers}.json"],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - begun


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        kept = (item for item in value.items() if item[0] not in (*TIMES, "provenance"))
        return {name: _untimed(one) for name, one in kept}
    return [_untimed(one) for one in value] if isinstance(value, list) else value

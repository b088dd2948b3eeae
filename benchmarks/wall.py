"""The wall time of whole gates, as `pytest` runs them."""

from __future__ import annotations

import re
import statistics
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
    return MLP.load("model.pt")
"""
STOPWATCH = """

import time
from pathlib import Path

import dm_control.suite
import mujoco
import torch

from pytest_cpg.planners import CEM, Chance, RandomShooting
from pytest_cpg.tasks.control.task import ControlTask

SPENT = [0.0]


def timed(function):
    def call(*arguments, **keywords):
        begun = time.perf_counter()
        try:
            return function(*arguments, **keywords)
        finally:
            SPENT[0] += time.perf_counter() - begun

    return call


for planner in (CEM, Chance, RandomShooting):
    planner.plan = timed(planner.plan)
for name in ("step", "reward", "success"):
    setattr(ControlTask, name, timed(getattr(ControlTask, name)))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtestloop(session):
    begun = time.perf_counter()
    result = yield
    session.config.total = time.perf_counter() - begun
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    begun = time.perf_counter()
    result = yield
    total = session.config.total + time.perf_counter() - begun
    Path("seconds.txt").write_text(f"{total} {SPENT[0]}")
    return result
"""
GATE = """
import pytest


@pytest.mark.cpg(
    task={task!r}, starts={starts!r}, planner={planner!r}, max_verdict="MODEL BOTTLENECK"
)
def test_gate(cpg):
    pass
"""
WARM_RUNS = 5
# What a diagnosis costs is no part of these.
ARMS_ALONE = ("--junit-xml=report.xml", "--cpg-diagnose=never")


def acrobot() -> Row:
    """Time a gate on acrobot with 50 episodes per arm, the model trained beforehand."""
    ((seconds, *_),) = _gates("acrobot-swingup", "fixed", ["--cpg-episodes=50", "--cpg-no-cache"])
    return Row(
        what="pytest, acrobot n = 50, three arms, wall time",
        ours=f"{seconds:.1f} s",
        other="",
        result=f"{seconds:.1f} s",
        bar="<= 25 s, idle",
    )


def warm() -> Row:
    """Compare a gate on acrobot whose oracle and chance arms are stored with one that runs them."""
    runs = [["--cpg-episodes=50"]] * (1 + WARM_RUNS)
    cold, *stored = _gates("acrobot-swingup", "sampled", *runs, planner="preset")
    verdicts = {verdict for _, _, verdict in (cold, *stored)}
    if len(verdicts) > 1:
        raise RuntimeError(f"the verdicts differ: {', '.join(sorted(verdicts))}")
    seconds = [took for took, *_ in stored]
    median = statistics.median(seconds)
    return Row(
        what=f"acrobot preset, n = 50, warm arm cache, wall time, median of {WARM_RUNS}",
        ours=f"{median:.1f} s ({min(seconds):.1f}-{max(seconds):.1f})",
        other=f"cold {cold[0]:.1f} s",
        result=f"{cold[0] / median:.1f} x",
        bar=">= 8 x",
    )


def overhead() -> Row:
    """Time what `pytest` does for a gate beside planning, with the planner that solves the task."""
    return _overhead("preset")


def overhead_of_a_cheap_planner() -> Row:
    """Time the same with the planner that leaves the least to be done."""
    return _overhead("random-shooting")


def _overhead(planner: str) -> Row:
    """Time what `pytest` does for a gate of 50 episodes beside planning and stepping.

    Arms are kept and reports written; what every session with such a task and model imports is
    imported before. To step is to ask the task for the next state, its reward and its success.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = _project(Path(name), "acrobot-swingup", "sampled", planner)
        (folder / "conftest.py").write_text(CONFTEST + STOPWATCH)
        _run(folder, "--cpg-episodes=50", "--cpg-json=cpg.json", "--cpg-md=cpg.md")
        total, spent = map(float, (folder / "seconds.txt").read_text().split())
    return Row(
        what=f"acrobot n = 50, {planner}: all but planning and stepping",
        ours=f"{total - spent:.2f} s",
        other=f"of {total:.1f} s",
        result=f"{100 * (1 - spent / total):.1f} %",
        bar="<= 3 %",
    )


def stopping_early() -> Row:
    """Compare a gate on cartpole that may stop early with one of 150 episodes per arm."""
    early, fixed = _gates(
        "cartpole-swingup",
        "sampled",
        ["--cpg-stop=sequential", "--cpg-no-cache"],
        ["--cpg-episodes=150", "--cpg-no-cache"],
    )
    if early[2] != fixed[2]:
        raise RuntimeError(f"the verdicts differ: {early[2]} and {fixed[2]}")
    return Row(
        what=f"cartpole, bad MLP, {fixed[2]}: stopping early",
        ours=f"{early[1]}/arm, {early[0]:.1f} s",
        other=f"{fixed[1]}/arm, {fixed[0]:.1f} s",
        result=f"-{100 * (1 - early[1] / fixed[1]):.0f} %",
        bar=">= 80 % of the episodes saved",
    )


def _gates(
    task: str, starts: str, *runs: list[str], planner: str = "random-shooting"
) -> list[tuple[float, int, str]]:
    """Run one gate once for each list of options: seconds, episodes per arm, verdict.

    The model is the published MLP, trained beforehand on what the planner asks of the task.
    """
    measured = []
    with tempfile.TemporaryDirectory() as name:
        folder = _project(Path(name), task, starts, planner)
        for typed in runs:
            begun = time.perf_counter()
            _run(folder, *typed)
            seconds = time.perf_counter() - begun
            report = (folder / "report.xml").read_text()
            episodes = re.search('cpg_episodes" value="([0-9]+)', report)
            verdict = re.search('cpg_verdict" value="([^"]+)', report)
            if episodes is None or verdict is None:
                raise RuntimeError("the gate left no result")
            measured.append((seconds, int(episodes[1]), verdict[1]))
    return measured


def _project(folder: Path, task: str, starts: str, planner: str) -> Path:
    """Write one gate into a folder, and train its model."""
    from pytest_cpg.gates.presets import PRESETS
    from pytest_cpg.tasks import TASKS
    from pytest_cpg.world_models import collect_transitions, train_mlp

    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_gate.py").write_text(GATE.format(task=task, starts=starts, planner=planner))
    options = PRESETS[task].options if planner == "preset" else {}
    transitions = collect_transitions(TASKS[task](**options), count=2_000, seed=0)
    train_mlp(transitions, seed=0, variant="plain").save(folder / "model.pt")
    return folder


def _run(folder: Path, *typed: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *ARMS_ALONE, *typed],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )

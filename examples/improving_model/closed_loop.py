"""A gate that buys its data: python closed_loop.py

A gate is asked, its cause is read, transitions are collected where it says, a network is trained on
all of them, and the gate is asked again, until it passes. All is typed as it would be by hand; the
files stay in a new folder. What such purchases are worth, beside random actions and over five
seeds, is measured by ../experiments/targeted.py.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from conftest import fitted
from loop_gate import PLANNER, TASK

from pytest_cpg.world_models import collect_transitions

HERE = Path(__file__).parent
FIRST, LARGEST = 60, 4_000
# Causes whose advice is to go where plans broke their promise; all others ask for a mixture.
LOCAL = ("LOCAL ERROR", "EXPLOITATION")


def asked(data, folder):
    """Return the gate's result as its report has it, and where its lost starts are."""
    data.save(folder / "data.npz")
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    told = run_gate(folder, f"--cpg-json={report}")
    gates = json.loads(report.read_text())["gates"] if report.exists() else []
    if not (gates and gates[0]["comparisons"]):
        sys.exit(told)
    return gates[0]["comparisons"][0]["result"], sorted((folder / ".cpg" / "lost").glob("*.json"))


def run_gate(folder, *arguments):
    """Run pytest on the gate, with its files in a folder, and return what it prints."""
    command = [sys.executable, "-m", "pytest", "-q", HERE / "loop_gate.py", *arguments]
    named = {"CLOSED_LOOP_DATA": str(folder / "data.npz"), "PYTHONPATH": str(HERE)}
    command.append(f"--rootdir={folder}")
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **named}, stdout=subprocess.PIPE, text=True
    ).stdout


def bought(cause, lost, model, folder, *, count, seed):
    """Return transitions of the kind that a cause asks for, and a word for it."""
    policy = {(PLANNER, model): 0.5, "held-3": 0.5}
    where, word = {}, "a mixture from the task's own starts"
    if cause in LOCAL:
        broken = folder / f"broken-{count}.npz"
        run_gate(folder, f"--cpg-replay={lost[-1]}", f"--cpg-states={broken}")
        # There is no file where every plan kept its promise.
        if broken.exists():
            where = {"starts": np.load(broken)["states"], "episode_steps": PLANNER.horizon}
            word = "a mixture from where plans broke their promise"
    more = collect_transitions(TASK, count=count, seed=seed, policy=policy, noise=0.1, **where)
    return more, word


def main():
    folder = Path(tempfile.mkdtemp(prefix="closed-loop-"))
    print(f"The last report and data are in {folder}.")
    data = collect_transitions(TASK, count=FIRST, seed=0)
    while True:
        result, lost = asked(data, folder)
        solved = sum(result["learned"]["successes"])
        print(f"{len(data)} transitions: {result['verdict']}, {solved} of 20 solved", flush=True)
        if result["verdict"] == "MODEL AS GOOD AS ORACLE" or len(data) >= LARGEST:
            break
        cause = (result["diagnosis"] or {}).get("cause", "NONE")
        model = fitted(TASK, data, seed=0)
        more, word = bought(cause, lost, model, folder, count=len(data), seed=len(data))
        print(f"  cause {cause}: {len(more)} more, {word}", flush=True)
        data += more


if __name__ == "__main__":
    main()

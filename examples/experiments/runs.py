"""Runs: an experiment's gates, each in a process of its own, kept one by one."""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from functools import partial
from pathlib import Path
from queue import Queue
from xml.etree import ElementTree

HERE = Path(__file__).parent


def cells_of(file):
    """Return the test of each cell of a file of gates, by the cell's name."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--co", "-q", file],
        cwd=HERE,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    tests = [line for line in listed.splitlines() if "::" in line]
    return {test.partition("[")[2].removesuffix("]"): test for test in tests}


def measured(tests, *, jobs, until, keep):
    """Run tests, so many at a time, and give each with its cell to ``keep`` as soon as it is there.

    What is not done at the time ``until`` is stopped. Returns the tests without a result.
    """
    left, free = [], processors(jobs)
    with ThreadPoolExecutor(jobs) as pool:
        running = {pool.submit(cell_of, test, until, free): test for test in tests}
        for done in as_completed(running):
            if cell := done.result():
                keep(running[done], cell)
            else:
                left.append(running[done])
    return left


def processors(jobs):
    """Return a queue of a processor for each of several jobs; of a single one it may take all."""
    free = Queue()
    mine = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    for job in range(jobs):
        free.put({mine[job % len(mine)]} if mine and jobs > 1 else None)
    return free


def cell_of(test, until, free):
    """Return what a gate found; None where there was no time for it."""
    seconds = until - time.monotonic()
    if seconds < 1:
        return None
    processor = free.get()
    # Simulators and networks take as many threads as their process has processors.
    pinned = None if processor is None else partial(os.sched_setaffinity, 0, processor)
    try:
        return outcome(test, seconds, pinned)
    finally:
        free.put(processor)


def outcome(test, seconds, pinned):
    """Run a test for so many seconds at most, and return its cell; None where it did not end."""
    with tempfile.TemporaryDirectory() as folder:
        report, junit = Path(folder) / "report.json", Path(folder) / "junit.xml"
        written = [f"--cpg-json={report}", f"--junit-xml={junit}"]
        command = [sys.executable, "-m", "pytest", "-q", test, *written]
        try:
            done = subprocess.run(
                command,
                cwd=HERE,
                capture_output=True,
                text=True,
                timeout=min(seconds, 10**6),
                preexec_fn=pinned,
            )
        except subprocess.TimeoutExpired:
            return None
        if done.returncode:
            print(f"{test} failed:\n{done.stdout[-3000:]}", file=sys.stderr, flush=True)
            return None
        [gate] = json.loads(report.read_text())["gates"]
        return described(gate, validation_error(junit))


def described(gate, error):
    """Return a gate's result as a cell of results/NAME.json."""
    result = gate["comparisons"][0]["result"]
    arms = ("oracle", "learned", "chance", *(["rescored"] if result["rescored"] else []))
    return {
        "cell": gate["id"].partition("[")[2].removesuffix("]"),
        **{name: result[name] for name in ("task", "planner", "starts", "seed", "verdict")},
        "validation_error": error,
        "episodes": len(result["oracle"]["successes"]),
        **{name: sum(result[name]["successes"]) for name in arms},
        "gap": [result["interval"][name] for name in ("estimate", "low", "high")],
        "solved_at": {name: solved_at(result[name]) for name in arms},
        "compute": [round(compute(result[name]), 1) for name in ("oracle", "learned")],
        "latency_ms": [round(result[name]["latency_ms"][0], 1) for name in ("oracle", "learned")],
        "versions": result["versions"],
        "measured": today(),
    }


def compute(arm):
    """Return the model's steps in planning for each action that was executed."""
    return arm["rollout_steps"] * arm["decisions"] / sum(arm["steps"])


def solved_at(arm):
    """Return the step at which each episode succeeded, None for those that did not."""
    both = zip(arm["successes"], arm["steps"], strict=True)
    return [steps if success else None for success, steps in both]


def today():
    """Return when and on what a result is measured: the processor's kind and Python's version."""
    machine = f"{platform.machine()}, Python {platform.python_version()}"
    return {"date": f"{date.today():%Y-%m-%d}", "machine": machine}


def validation_error(junit):
    """Return the model's validation error, as the test has recorded it; None without one."""
    for entry in ElementTree.parse(junit).iter("property"):  # noqa: S314  # we have written it
        if entry.get("name") == "validation_error":
            return float(entry.get("value"))
    return None

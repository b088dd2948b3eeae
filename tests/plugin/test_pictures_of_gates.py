"""Gates that see pictures, over several sessions: what goes on, and what is compared."""

import json
import re
import sys

import pytest

pytest.importorskip("PIL")

GATE = """
import numpy as np
import pytest
from pathlib import Path
import pytest_cpg.episodes.kept_run as kept

kept.EPISODES_AT_ONCE, kept.SECONDS_BETWEEN_FILES = 4, 0.0
seen = []


class Model:
    rates_states = False

    def encode(self, pictures):
        seen.append(len(pictures))
        if sum(seen) > int(Path("limit").read_text()):
            raise KeyboardInterrupt
        return pictures[:, -1].reshape(len(pictures), -1)[:, ::97] / 255

    def rollout(self, latents, actions):
        return latents[:, None] + actions.sum(axis=-1, keepdims=True)

    def score(self, latents):
        return np.abs(latents - 2).sum(axis=-1)


@pytest.mark.cpg(
    task="maze", observe={"size": 16, "stack": 2}, planner="random-shooting", episodes=12,
    budget=20, max_verdict="BAD",
)
def test_gate(benchmark_runner):
    result = benchmark_runner.compare(learned=Model())
    Path("seen.txt").write_text(str(sum(seen)))
    print("reuse:", *result.reuse, sep="\\n")
"""


ALWAYS = ("-v", "-rP", "--cpg-json=report.json", "--cpg-diagnose=never")


def run(pytester, *options):
    return pytester.runpytest_subprocess(*ALWAYS, *options)


def test_an_interrupted_gate_goes_on_with_the_frames_of_the_steps_that_are_left(pytester):
    pytester.makepyfile(test_gates=GATE)
    limit = pytester.path / "limit"
    limit.write_text("1000000")
    whole = run(pytester, "--cpg-no-cache")
    whole.stdout.fnmatch_lines(["*learned  * of 12 starts solved, * frames, * s*"])
    everything = int((pytester.path / "seen.txt").read_text())
    expected = arms(pytester)
    limit.write_text(str(everything - 40))
    run(pytester).stdout.fnmatch_lines(["*interrupted in learned, step *, * frames*"])
    limit.write_text("1000000")
    result = run(pytester, "--cpg-resume")
    result.stdout.fnmatch_lines(["*learned: * episodes stored *"])
    assert frames(result) < frames(whole)
    assert arms(pytester) == expected


def frames(result):
    """Return how many were drawn for the learned arm."""
    return int(re.search(r"cpg: learned .*?(\d+) frames", result.stdout.str())[1])


def arms(pytester):
    report = json.loads((pytester.path / "report.json").read_text())
    (comparison,) = report["gates"][0]["comparisons"]
    return [comparison["result"][arm]["successes"] for arm in ("oracle", "learned")]


def test_a_comparison_across_renderers_says_so(pytester):
    pytester.makepyfile(test_gates=GATE)
    (pytester.path / "limit").write_text("1000000")
    run(pytester)
    report = (pytester.path / "report.json").read_text()
    other, count = re.subn('"renderer": "[^"]*"', '"renderer": "llvmpipe by egl"', report)
    assert count
    (pytester.path / "other.json").write_text(other)
    command = (
        sys.executable,
        "-c",
        "import sys; from pytest_cpg.render.command import main; sys.exit(main())",
    )
    result = pytester.run(*command, "compare", "report.json", "other.json")
    said = " ".join(result.stdout.str().split())
    assert "INCOMPARABLE test_gates.py::test_gate" in said
    assert "under another design; renderer the task's own -> llvmpipe by egl" in said


SEEN = """
import numpy as np
import pytest
from conftest import Track


class Shown(Track):
    def render(self, states):
        grey = np.clip(128 + 10 * states[:, 0], 0, 255).astype(np.uint8)
        return np.broadcast_to(grey[:, None, None, None], (len(states), 8, 8, 3))


def encode(pictures):
    return pictures.reshape(len(pictures), -1).mean(axis=1, keepdims=True) / 10 - 12.8


class Model:
    encode = staticmethod(encode)

    def rollout(self, latents, actions):
        return latents[:, None] - np.cumsum(actions, axis=1)

    def score(self, latents):
        return abs(latents[..., 0])


def pytest_cpg_tasks():
    return {"shown": Shown}
"""
SHOWN = """
import pytest
from shown import Model


@pytest.mark.cpg(
    task="shown", observe={"size": 8, "stack": 1}, planner="random-shooting", max_verdict="BAD"
)
def test_gate(benchmark_runner):
    benchmark_runner.compare(learned=Model())
"""


def test_frames_are_counted_wherever_they_are_drawn(repository):
    repository.makepyfile(shown=SEEN, test_gates=SHOWN)
    repository.add("conftest.py", "pytest_plugins = ['shown']")
    counts = []
    for options in ((), ("--cpg-workers=2",)):
        result = repository.runpytest_subprocess(*ALWAYS, "--cpg-no-cache", *options)
        (gate,) = repository.json("report.json")["gates"]
        plans = gate["comparisons"][0]["result"]["learned"]["decisions"]
        counts.append(frames(result))
    result.stdout.no_fnmatch_line("*not spread over workers*")
    # Each plan begins with one.
    assert counts == [plans, plans]

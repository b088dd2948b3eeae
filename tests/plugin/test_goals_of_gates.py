"""Gates on goals: the same bits alone, in parallel and resumed, and each goal in its report."""

import json
import re
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from sessions import flat, untimed

from pytest_cpg.gates.notation import place
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.goal_task import GoalTask
from pytest_cpg.tasks.goals import Goals

pytest.importorskip("gymnasium")

SCHEMA = json.loads((files("pytest_cpg.report") / "report.schema.json").read_text("utf-8"))
# Rows that the model is asked for until it is in the middle of its arm.
LIMIT = 20_000
# A pendulum is pushed by the model as if it had less gravity: some starts are lost.
GATES = """
import os

import numpy as np
import pytest
from pytest_cpg.planners import CEM

asked = 0


def model(observations, actions):
    global asked
    asked += len(observations)
    if asked > int(os.environ.get("LIMIT", 10**9)):
        raise KeyboardInterrupt
    cos, sin, speed = observations.T[:3]
    speed = np.clip(speed + 0.3 * sin + 0.15 * actions[:, 0], -8, 8)
    angle = np.arctan2(sin, cos) + 0.05 * speed
    after = np.stack([np.cos(angle), np.sin(angle), speed], axis=1)
    # The goal is observed, too, and stays as it is.
    return np.concatenate([after, observations[:, 3:]], axis=1)


PLANNER = CEM(samples=8, elites=3, iterations=2, horizon=8, execute=3)


@pytest.fixture
def learned_dynamics():
    return model


@pytest.mark.cpg(task="gym:Pendulum-v1", planner=PLANNER,
                 goals={"offset": 10, "within": 0.15}, episodes=12)
def test_drawn(cpg): ...


@pytest.mark.cpg(task="gym:Pendulum-v1", planner=PLANNER, max_verdict="MODEL BOTTLENECK",
                 goals="goals.npz", budget=20, episodes=8)
def test_listed(cpg): ...
"""


@pytest.fixture
def gates(pytester, monkeypatch):
    rng = np.random.default_rng(0)
    angle = rng.uniform(1, 2, 8)
    goals = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    np.savez(pytester.path / "goals.npz", goals=goals, within=0.1, columns=[0, 1])
    pytester.makepyfile(test_gates=GATES)

    def run(*options, limit=None):
        if limit is None:
            monkeypatch.delenv("LIMIT", raising=False)
        else:
            monkeypatch.setenv("LIMIT", str(limit))
        # Pytest passes an interruption on.
        runs = pytester.runpytest if limit is None else pytester.runpytest_subprocess
        result = runs("--cpg-json=report.json", *options)
        report = json.loads((pytester.path / "report.json").read_text("utf-8"))
        jsonschema.validate(report, SCHEMA)
        results = [
            (gate["id"], untimed(comparison["result"]))
            for gate in report["gates"]
            for comparison in gate["comparisons"]
        ]
        # Torch is among them where another test has loaded it in this process.
        found = [(gate, {**values, "kernels": {}}) for gate, values in results]
        return result, sorted(found, key=lambda pair: pair[0])

    run.goals = goals
    return run


def test_goals_give_the_same_bits_alone_in_parallel_and_resumed(gates):
    _, alone = gates("--cpg-no-cache")
    drawn, listed = (found for _, found in alone)
    assert drawn["task"] == "gym:Pendulum-v1 (goals=after 10 steps random, within=0.15)"
    assert drawn["budget"] == 20
    assert np.shape(drawn["start_goals"]) == (12, 3)
    np.testing.assert_array_equal(listed["start_goals"], gates.goals)
    solved, chance = (sum(drawn[arm]["successes"]) for arm in ("oracle", "chance"))
    assert solved > chance
    assert gates("--cpg-no-cache", "-n", "2")[1] == alone
    assert gates("--cpg-no-cache", "--cpg-workers=2")[1] == alone
    # Broken off within the learned arm of the first gate.
    result, _ = gates(limit=LIMIT)
    assert "interrupted in learned, step" in flat(result)
    result, resumed = gates("--cpg-resume")
    assert "oracle: 12 of 12 episodes" in flat(result)
    assert resumed == alone


def test_what_is_said_of_goals_casts_no_doubt(pytester):
    pytester.makepyfile(
        """
        import pytest

        GOALS = {"offset": 20, "within": 0.1}

        @pytest.mark.cpg(task="maze", planner="beam", goals=GOALS)
        def test_gap(cpg): ...

        @pytest.fixture
        def learned_dynamics(oracle_dynamics):
            task = oracle_dynamics.task
            return lambda observations, actions: task.step(observations, actions)
        """
    )
    said = flat(pytester.runpytest("--cpg-strict"))
    assert "goals are where 20 true steps" in said
    # That is a doubt, and what is said of goals would stand before it.
    assert "would let pass: random actions succeed in" in said


def test_a_lost_start_is_shown_with_its_goal(gates, pytester):
    _, ((_, drawn),) = gates("--cpg-no-cache", "--cpg-html=page.html", "-k", "drawn")
    pairs = zip(drawn["oracle"]["successes"], drawn["learned"]["successes"], strict=True)
    lost = next(episode for episode, pair in enumerate(pairs) if pair == (1, 0))
    goal = place(drawn["start_goals"][lost])
    page = (pytester.path / "page.html").read_text("utf-8")
    assert f"{drawn['start_seeds'][lost]}, goal {goal}" in page
    (file,) = (pytester.path / ".cpg" / "lost").glob("*.json")
    result = pytester.runpytest(f"--cpg-replay={file}::{lost}")
    assert f"Its goal is {goal}." in flat(result)
    assert "after 10 steps random" in flat(result)


def test_too_few_goals_and_two_goals_are_told(gates, pytester):
    gates_of = pytester.path / "test_gates.py"
    text = gates_of.read_text("utf-8")
    gates_of.write_text(text.replace("episodes=8", "episodes=9"), "utf-8")
    result, _ = gates("--cpg-no-cache", "-k", "listed")
    result.assert_outcomes(errors=1)
    assert "goals.npz has 8 goals, and the gate 9 starts or more. Write episodes=8" in flat(result)
    gates_of.write_text(text.replace("episodes=8", "goal=1"), "utf-8")
    result, _ = gates("--cpg-no-cache", "-k", "listed")
    assert "goal= and goals= both say what a success is. Leave one of them out" in flat(result)
    gates_of.write_text(text.replace("goals.npz", "gols.npz"), "utf-8")
    result, _ = gates("--cpg-no-cache", "-k", "listed")
    assert "goals: cannot read 'gols.npz': No such file or directory" in flat(result)


def test_what_a_cell_copies_leads_to_the_very_start_and_goal(gates, pytester):
    _, ((_, listed),) = gates("--cpg-no-cache", "--cpg-html=page.html", "-k", "listed")
    page = (pytester.path / "page.html").read_text("utf-8")
    copied = re.findall(r"task\.at_episodes\(task\.reset\(\[\d+\]\), \[\d+\]\)", page)
    assert copied
    goals = Goals(file=str(pytester.path / "goals.npz")).loaded()
    task = GoalTask(inner=named_task("gym:Pendulum-v1", TASKS)(budget=20), goals=goals)
    for line in copied:
        episode = int(re.findall(r"\d+", line)[-1])
        assert str(listed["start_seeds"][episode]) in line
        start = eval(line, {"task": task})  # noqa: S307 - what a reader types
        np.testing.assert_array_equal(task.goal(start)[0], listed["start_goals"][episode])

"""Gates whose starts and goals another program has recorded: it knows nothing of this project."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sessions import flat, untimed

from pytest_cpg.contracts import ComponentError
from pytest_cpg.tasks.goal_task import GoalTask
from pytest_cpg.tasks.goals import Goals

pytest.importorskip("gymnasium")
from pytest_cpg.tasks.gymnasium import gym_task

# As OGBench lays out its data sets: steps one after the other, and where an episode ends.
RECORD = """
import gymnasium
import numpy as np

env = gymnasium.make("Pendulum-v1")
env.action_space.seed(0)
rows = {name: [] for name in ("observations", "actions", "terminals", "states")}
for episode in range(6):
    seen, _ = env.reset(seed=100 + episode)
    for step in range(40):
        action = env.action_space.sample() if step % 4 == 0 else action
        state = np.array(env.unwrapped.state)
        for name, value in zip(rows, (seen, action, step == 39, state)):
            rows[name].append(value)
        seen = env.step(action)[0]
np.savez("data.npz", pixels=np.zeros((240, 8, 8, 3), np.uint8), **rows)
"""
GATES = """
import numpy as np
import pytest
from pytest_cpg.planners import CEM


@pytest.fixture
def learned_dynamics():
    def model(observations, actions):
        cos, sin, speed = observations.T[:3]
        speed = np.clip(speed + 0.3 * sin + 0.15 * actions[:, 0], -8, 8)
        angle = np.arctan2(sin, cos) + 0.05 * speed
        after = np.stack([np.cos(angle), np.sin(angle), speed], axis=1)
        return np.concatenate([after, observations[:, 3:]], axis=1)

    return model


@pytest.mark.cpg(
    task="gym:Pendulum-v1",
    planner=CEM(samples=16, elites=4, iterations=3, horizon=10, execute=3),
    goals={"file": "data.npz", "offset": 10, "within": 0.15},
    episodes=12,
)
def test_recorded(cpg): ...
"""


@pytest.fixture
def gate(pytester):
    subprocess.run([sys.executable, "-c", RECORD], check=True, cwd=pytester.path)

    def run(*options, change=("", "")):
        assert change[0] in GATES
        pytester.makepyfile(test_gates=GATES.replace(*change))
        return pytester.runpytest("--cpg-json=report.json", "--cpg-no-cache", *options)

    def result_of(*options):
        gate = run(*options)
        report = json.loads((pytester.path / "report.json").read_text("utf-8"))
        ((comparison,),) = (gate["comparisons"] for gate in report["gates"])
        return gate, {**untimed(comparison["result"]), "kernels": {}}

    run.result_of = result_of
    return run


def test_episodes_lead_from_recorded_states_to_what_was_recorded_later(gate, pytester):
    said, result = gate.result_of()
    assert "a recorded state of data.npz" in flat(said)
    assert "goals=after 10 steps data.npz" in result["task"]
    with np.load(pytester.path / "data.npz") as file:
        observed = file["observations"].astype(float)
    goals = np.array(result["start_goals"])
    (rows,) = zip(*[np.flatnonzero((observed == goal).all(axis=1)) for goal in goals], strict=True)
    # Never from one episode into another.
    assert {row % 40 for row in rows} <= {*range(10, 40)}
    oracle, chance = (sum(result[arm]["successes"]) for arm in ("oracle", "chance"))
    assert oracle > 8 > chance
    assert gate.result_of("-n", "2")[1] == result
    assert gate.result_of("--cpg-workers=2")[1] == result


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"offset": 10, ', ""), "nothing says how many steps after its start a goal"),
        (('"offset": 10', '"offset": 40'), "its episodes has 40 steps. Write offset=39"),
        (("episodes=12", "episodes=200"), "has 180 recorded starts, and the gate 200"),
        (("Pendulum-v1", "MountainCarContinuous-v0"), "observes 2 numbers, and 'data.npz'"),
        (("gym:Pendulum-v1", "maze"), "has actions of 1 numbers, and those of maze have 2"),
    ],
)
def test_what_does_not_fit_says_what_to_write(gate, change, message):
    result = gate(change=change)
    result.assert_outcomes(errors=1)
    assert message in flat(result)


def test_actions_that_do_not_lead_there_are_told(gate, pytester):
    path = pytester.path / "data.npz"
    with np.load(path) as file:
        rows = dict(file)
    rows["states"] = np.roll(rows["states"], 3, axis=0)
    np.savez(path, **rows)
    result = gate()
    result.assert_outcomes(errors=1)
    assert "'data.npz' was not recorded of gym:Pendulum-v1: its action of step" in flat(result)
    np.savez(path, **{name: rows[name] for name in ("observations", "actions", "terminals")})
    result = gate()
    result.assert_outcomes(errors=1)
    assert "it has an attribute state, to be recorded as states" in flat(result)


def test_marks_at_the_first_step_of_the_next_episode_are_told(gate, pytester):
    path = pytester.path / "data.npz"
    with np.load(path) as file:
        rows = dict(file)
    np.savez(path, **rows | {"terminals": np.roll(rows["terminals"], 1)})
    goals = Goals(file=path, offset=10, within=0.15).loaded()
    with pytest.raises(ComponentError, match="cut at wrong places: its action of step"):
        GoalTask(inner=gym_task("Pendulum-v1"), goals=goals)

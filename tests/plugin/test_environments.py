"""Gates on environments of gymnasium's: outcomes wherever they run, and mistakes told as cures."""

import json
import re

import pytest
from sessions import flat, untimed

pytest.importorskip("gymnasium")

ENVIRONMENTS = """
import ctypes
import os
import time

import gymnasium
import numpy as np

BOX = gymnasium.spaces.Box


class Restless(gymnasium.Env):
    'A point that is pushed to the origin; all of it is in its attributes, and it is disturbed.'

    observation_space, action_space = BOX(-9, 9, (2,)), BOX(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.speed = 0.0
        self.put(self.np_random.uniform(-1, 1))
        return self.seen(), {"goal": [0.0, 0.0]}

    def step(self, action):
        self.speed += 0.1 * float(action[0])
        self.put(self.place() + self.speed + np.random.uniform(-0.01, 0.01))
        away = abs(self.place())
        told = {"near": away < 0.2, "never": False, "always": True}
        return self.seen(), -away, False, False, told

    def seen(self):
        return np.array([self.place(), self.speed])

    def place(self):
        return self.at

    def put(self, place):
        self.at = place


class Memory:
    def __init__(self):
        self.held = ctypes.c_double(0.0)

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle '_cffi CDataOwnGC' object")


class Engine(Restless):
    'One whose place is in memory that Python does not see into.'

    def __init__(self):
        self.memory = Memory()

    def place(self):
        return self.memory.held.value

    def put(self, place):
        self.memory.held.value = place


class Stateful(Engine):
    'One that can put itself back.'

    def get_state(self):
        return self.place(), self.speed

    def set_state(self, state):
        self.speed = state[1]
        self.put(state[0])


XML = '''<mujoco><worldbody><body><joint name="slide" type="slide" axis="1 0 0"/>
<geom size=".1" mass="1"/></body></worldbody></mujoco>'''


class Sliding(Restless):
    'Physics of MuJoCo.'

    def __init__(self):
        import mujoco

        self.model = mujoco.MjModel.from_xml_string(XML)
        self.data = mujoco.MjData(self.model)

    def place(self):
        return float(self.data.qpos[0])

    def put(self, place):
        self.data.qpos[0] = place


class Outside(Restless):
    'One that draws from outside.'

    def step(self, action):
        self.speed += int.from_bytes(os.urandom(2), "big") / 1e6
        return super().step(action)


class Clock(Restless):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.put(time.time() % 1)
        return self.seen(), {"goal": [0.0, 0.0]}


class Silent(Restless):
    'One that says nothing of success.'

    def step(self, action):
        return (*super().step(action)[:4], {})


class Broken(Restless):
    def reset(self, *, seed=None, options=None):
        raise AttributeError("'Space' object has no attribute 'add_collision_handler'")


for kind in (Restless, Outside, Clock, Silent, Broken):
    gymnasium.register(id=f"{kind.__name__}-v0", entry_point=kind, max_episode_steps=10)
"""
GATES = """
import os

import pytest
from field import Engine, Restless, Sliding, Stateful

from pytest_cpg.episodes import arms
from pytest_cpg.planners import CEM
from pytest_cpg.tasks.gymnasium import GymnasiumTask, gym_task

# Only of a task that says by its key that it has not changed anything is kept.
GymnasiumTask.cache_key = property(lambda task: task.name)
# What is kept is written to the disk at once.
arms.EPISODES_AT_ONCE, arms.SECONDS_BETWEEN_FILES = 2, 0.0
asked, last = [], []


def learned(observations, actions):
    asked.extend(last)
    if len(asked) > 20 and os.environ.get("BREAKS"):
        raise KeyboardInterrupt
    return observations + 0.1 * actions * [1, 1, 0, 0]


def distance(observations):
    return abs(observations[..., 0])


def gate(make):
    task = gym_task(make, success="near", budget=6, name=make.__name__, score=distance)
    planner = CEM(samples=6, horizon=3, iterations=1, elites=2)
    return pytest.mark.cpg(task=task, planner=planner, episodes=4, max_verdict="MODEL BOTTLENECK")


makes = [Restless, Engine, Stateful]
try:
    import mujoco
    makes.append(Sliding)
except ImportError:
    pass


@pytest.mark.parametrize("make", [pytest.param(make, marks=gate(make)) for make in makes])
def test_gate(benchmark_runner, make):
    last.extend([make] * (make is makes[-1]))
    benchmark_runner.compare(learned=learned)
"""
WAYS = {
    "Restless": "a copy of its attributes",
    "Engine": "a fork of its process",
    "Stateful": "its own get_state and set_state",
    "Sliding": "MuJoCo's data and a copy of its attributes",
}
NAMED = """
import pytest
from pytest_cpg.planners import CEM


@pytest.fixture
def learned_dynamics():
    return lambda observations, actions: observations + 0.1 * actions * [1, 1, 0, 0]


@pytest.mark.cpg(task={name!r}, planner=CEM(samples=8, horizon=4), episodes=4)
def test_gate(cpg): ...
"""
# What a name that cannot be a task is told, as a whole sentence has it.
MISTAKES = {
    "gym:field:Restles-v0": "no Gymnasium environment 'gym:field:Restles-v0'. Did you mean "
    "'gym:field:Restless-v0'?",
    "gym:feld:Restless-v0": "it needs feld, which is not installed. Type: pip install feld, or, "
    "where it is a file of yours, name its folder in pythonpath= of pytest's settings.",
    "gym:pytest-cpg:Restless-v0": "gym:pytest-cpg:Restless-v0 names no module. Did you mean "
    "'gym:pytest_cpg:Restless-v0'?",
    "gym:raising:Restless-v0": "cannot be imported: RuntimeError: operator torchvision::nms does "
    "not exist. Try python -c 'import raising' alone.",
    "gym:Hoper-v5": "no Gymnasium environment 'gym:Hoper-v5'. Did you mean 'gym:Hopper-v5'?",
    "gym:field:Restless-v0,success=solved": "has no 'solved' in its info, which success= names. "
    "That has 'near', 'never', 'always'; write one of these, or",
    "gym:field:Silent-v0,success=solved": 'That is empty, or write success="terminated", or pass '
    "gym_task(make, success=...)",
    "gym:field:Silent-v0": "nothing tells when an episode has succeeded. Write goal=1",
    "gym:field:Restless-v0,success=always": "Start it farther from its goal, or name another "
    "success=: info['always'] holds.",
    "gym:field:Restless-v0,success=never": "no step of any episode succeeded by info['never'], "
    "neither with the true dynamics nor with random actions. If it never holds, name another "
    "success=",
    "gym:field:Outside-v0": "by a fork of its process, the same steps differ at step 1: "
    "observation[0] is",
    "gym:field:Clock-v0": "reset by the same seed gives another start: observation[0] is",
    "gym:field:Broken-v0": "cannot be reset, as its own code raises AttributeError: 'Space' object "
    "has no attribute 'add_collision_handler'. Reset it alone, without pytest; its package may",
}


@pytest.fixture
def folder(pytester, monkeypatch):
    """The folder of a user, who has set nothing."""
    for name in ("CI", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini("[pytest]\naddopts = -p no:hypothesispytest\n")
    pytester.makepyfile(field=ENVIRONMENTS)
    return pytester


def found(folder, *options):
    result = folder.runpytest_subprocess("--cpg-json=report.json", *options)
    return result, untimed(json.loads((folder.path / "report.json").read_text("utf-8"))["gates"])


def test_outcomes_are_the_same_alone_in_parallel_and_resumed_by_each_way(folder, monkeypatch):
    folder.makepyfile(test_ways=GATES)
    result, alone = found(folder, "-v", "--cpg-no-cache")
    names = [gate["id"].partition("[")[2][:-1] for gate in alone]
    assert names[:3] == ["Restless", "Engine", "Stateful"]
    for name in names:
        assert f"states are restored by {WAYS[name]}" in flat(result)
    for options in (("-n", "2"), ("--cpg-workers=2",)):
        assert found(folder, "--cpg-no-cache", *options)[1] == alone, options
    monkeypatch.setenv("BREAKS", "1")
    folder.runpytest_subprocess("--cpg-resume").stdout.fnmatch_lines(["*KeyboardInterrupt*"])
    monkeypatch.delenv("BREAKS")
    result, resumed = found(folder, "--cpg-resume")
    assert resumed == alone
    report = json.loads((folder.path / "report.json").read_text("utf-8"))
    for gate in report["gates"]:
        assert gate["resumed"][0] == "oracle: 4 of 4 episodes"
    assert all(gate["resumed"][1] == "learned: 4 of 4 episodes" for gate in report["gates"][:-1])


def test_what_cannot_be_a_task_is_told_with_its_cure_and_never_as_a_traceback(folder):
    folder.makepyfile(
        raising='raise RuntimeError("operator torchvision::nms does not exist")',
        **{f"test_{n}": NAMED.format(name=name) for n, name in enumerate(MISTAKES)},
    )
    result = folder.runpytest_subprocess("--continue-on-collection-errors")
    said = flat(result)
    for name, sentence in MISTAKES.items():
        assert sentence in said, name
    assert "Traceback" not in said
    # The user's own lines, and no other.
    shown = [line for line in result.outlines if line.startswith("  File ")]
    assert all(re.search(r"/(raising|field)\.py", line) for line in shown), shown

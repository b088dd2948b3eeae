"""Ways to put an environment of gymnasium's back: each exact, and none that another cannot tell."""

import ctypes
import os
import pickle
import random
import subprocess
import sys
import threading
from typing import ClassVar

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from pytest_cpg.conformance.test_tasks import every_result
from pytest_cpg.contracts import ComponentError, TaskError
from pytest_cpg.tasks.gymnasium import gym_task

COPY, STATE, FORK = (
    "a copy of its attributes",
    "its own get_state and set_state",
    "a fork of its process",
)
PHYSICS = "MuJoCo's data and a copy of its attributes"
ROWS, STEPS = 3, 5
# The generator behind numpy.random.seed and numpy.random.uniform.
GLOBAL = np.random.mtrand._rand


class Walk(gymnasium.Env):
    """A point that is pushed about; all of it is in its attributes."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.speed = self.np_random.uniform(-1, 1), 0.0
        return self.seen(), {}

    def step(self, action):
        self.speed += 0.1 * float(action[0])
        self.place += self.speed
        return self.seen(), -abs(self.place), False, False, {}

    def seen(self):
        return np.array([self.place, self.speed])


class Forgetful(Walk):
    """One whose own pickle holds the arguments that it was made with, as EzPickle's does."""

    def __reduce__(self):
        return Forgetful, ()


class Drawn(Walk):
    """One with a surface and a lock, which pickle cannot copy, and pictures made anew."""

    def __init__(self):
        self.surface, self.lock = _Surface(), threading.Lock()

    def step(self, action):
        with self.lock:
            self.surface.drawn = True
            return super().step(action)


class Tensors(Walk):
    """One that keeps what it is in tensors."""

    def reset(self, *, seed=None, options=None):
        seen, info = super().reset(seed=seed)
        import torch

        self.pair = torch.tensor([self.place, 1.0], dtype=torch.float64)
        return seen, info

    def step(self, action):
        self.pair[1] *= 1.01
        self.pair[0] += 0.1 * float(action[0]) * self.pair[1]
        self.place = float(self.pair[0])
        return super().step(action)


class _Surface:
    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle 'Surface' object")


class Restless(Walk):
    """One that draws from the global generators of numpy and of random."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = GLOBAL.uniform(-1, 1) + random.gauss(0, 1)
        return self.seen(), {}

    def step(self, action):
        self.place += 0.1 * GLOBAL.normal() + 0.1 * random.gauss(0, 1)
        return super().step(action)


class Stateful(Walk):
    """One that can be put back by itself alone: a counter behind it is no attribute."""

    counts: ClassVar = []

    def __init__(self):
        self.key = len(self.counts)
        self.counts.append(0)

    def reset(self, *, seed=None, options=None):
        self.counts[self.key] = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.counts[self.key] += 1
        self.place += 0.01 * self.counts[self.key]
        return super().step(action)

    def get_state(self):
        return [self.place, self.speed, self.counts[self.key]]

    def set_state(self, state):
        self.place, self.speed, self.counts[self.key] = state


class Engine(Walk):
    """One whose state is in memory that Python does not see into."""

    def __init__(self):
        self.memory = _Memory()

    def reset(self, *, seed=None, options=None):
        seen, info = super().reset(seed=seed)
        self.memory.write(seen[0])
        return seen, info

    def step(self, action):
        self.memory.write(self.memory.read() * 1.1 + 0.1 * float(action[0]))
        self.place = self.memory.read()
        return super().step(action)


class _Memory:
    def __init__(self):
        self._held = ctypes.c_double(0.0)

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle '_cffi CDataOwnGC' object")

    def read(self):
        return self._held.value

    def write(self, value):
        self._held.value = value


class Sliding(Walk):
    """Physics of MuJoCo with what MuJoCo does not know: a wind, the last step, and the goal's geom.

    It moves by the position of a body, which MuJoCo computes before it moves the body.
    """

    xml = """
    <mujoco><option timestep="0.05"/><worldbody>
      <geom name="goal" type="sphere" size=".1" pos="1 0 0" contype="0" conaffinity="0"/>
      <body name="mass"><joint name="slide" type="slide" axis="1 0 0" damping="0.1"/>
        <geom type="sphere" size=".1" mass="1"/></body>
    </worldbody><actuator><motor joint="slide"/></actuator></mujoco>"""

    def __init__(self):
        mujoco = pytest.importorskip("mujoco")
        self.mujoco, self.model = mujoco, mujoco.MjModel.from_xml_string(self.xml)
        self.data = mujoco.MjData(self.model)

    def reset(self, *, seed=None, options=None):
        gymnasium.Env.reset(self, seed=seed)
        self.mujoco.mj_resetData(self.model, self.data)
        self.data.qpos[0] = self.np_random.uniform(-1, 1)
        self.model.geom("goal").pos[0] = self.np_random.uniform(-1, 1)
        self.wind = self.np_random.uniform(-1, 1)
        self.mujoco.mj_forward(self.model, self.data)
        return self.seen(), {}

    def step(self, action):
        self.wind *= -0.9
        self.data.ctrl[0] = float(action[0]) - self.data.body("mass").xpos[0] + self.wind
        self.mujoco.mj_step(self.model, self.data, nstep=3)
        away = abs(self.data.qpos[0] - self.model.geom("goal").pos[0])
        return self.seen(), -away, False, False, {}

    def seen(self):
        return np.array([self.data.qpos[0], self.data.body("mass").xpos[0]])


WAYS = {
    Walk: COPY,
    Forgetful: COPY,
    Drawn: COPY,
    Tensors: COPY,
    Restless: COPY,
    Stateful: STATE,
    Engine: FORK,
    Sliding: PHYSICS,
}


@pytest.fixture(scope="module", params=list(WAYS), ids=lambda make: make.__name__)
def make(request):
    if request.param is Tensors:
        pytest.importorskip("torch")
    if request.param is Sliding:
        pytest.importorskip("mujoco")
    return request.param


@pytest.fixture(scope="module")
def task(make):
    return gym_task(make, threshold=9.0, budget=20)


@pytest.fixture(scope="module")
def plans(task):
    rngs = [np.random.default_rng(row) for row in range(ROWS)]
    return task.actions.sample(rngs, (STEPS,))


def test_the_cheapest_way_that_behaves_alike_is_taken(make, task):
    assert task.world.restored_by == WAYS[make]


def test_it_is_the_environment_to_the_bit_with_other_episodes_in_between(make, task, plans):
    expected = []
    for seed, plan in enumerate(plans):
        environment = make()
        random.seed(seed)
        GLOBAL.seed(seed)
        environment.action_space.seed(seed)
        seen = [environment.reset(seed=seed)[0]]
        seen += [environment.step(action.astype(np.float32))[0] for action in plan]
        expected.append(seen)
    expected = np.array(expected)
    states = task.reset(np.arange(ROWS))
    imagined = task.observe(task.rollout(states, plans))
    np.testing.assert_array_equal(imagined, expected[:, 1:])
    for step in range(STEPS):
        np.testing.assert_array_equal(task.observe(states), expected[:, step])
        task.rollout(states[::-1], plans)
        states = task.step(states, plans[:, step])
    np.testing.assert_array_equal(task.observe(states), expected[:, -1])


def test_a_process_that_never_was_there_gets_the_same_bits(make, task, plans):
    states = task.reset(np.arange(ROWS))
    for step in range(3):
        states = task.step(states, plans[:, step])
    expected = every_result(task, states, plans)
    elsewhere = every_result(gym_task(make, threshold=9.0, budget=20), states, plans)
    for what, result in expected.items():
        assert result.tobytes() == elsewhere[what].tobytes(), what


def test_what_was_forgotten_is_found_again(task, plans, monkeypatch):
    monkeypatch.setattr(type(task.world._restorer), "most", 1)
    monkeypatch.setattr(task.world._restorer, "most", 1, raising=False)
    states = task.reset(np.arange(ROWS))
    walked = [states := task.step(states, plans[:, step]) for step in range(STEPS)]
    again = task.step(walked[1], plans[:, 2])
    np.testing.assert_array_equal(again, walked[2])


def test_the_global_generators_are_given_back(make, task, plans):
    random.seed(5)
    GLOBAL.seed(5)
    before = random.gauss(0, 1), GLOBAL.random_sample()
    random.seed(5)
    GLOBAL.seed(5)
    states = task.reset(np.arange(ROWS))
    task.rollout(task.step(states, plans[:, 0]), plans)
    assert (random.gauss(0, 1), GLOBAL.random_sample()) == before


def test_a_fork_of_this_process_plays_its_own(task, plans):
    states = task.step(task.reset(np.arange(ROWS)), plans[:, 0])
    expected = task.rollout(states, plans)
    if not (child := os.fork()):
        try:
            is_same = np.array_equal(task.rollout(states, plans), expected, equal_nan=True)
            os._exit(0 if is_same else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(task.rollout(states, plans), expected)


def test_an_episode_much_longer_than_its_budget_says_so():
    task = gym_task(Walk, threshold=9.0, budget=2)
    states = task.reset(np.arange(1))
    # A gate that asks why starts were lost tries steps beyond the end.
    for _ in range(18):
        states = task.step(states, np.zeros((1, 1)))
    with pytest.raises(TaskError, match=r"was played for 18 steps, .* Give .* a larger budget=\."):
        task.step(states, np.zeros((1, 1)))


def test_processes_end_with_their_task():
    program = """
import os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from test_gymnasium_restorers import Engine
from pytest_cpg.tasks.gymnasium import gym_task
task = gym_task(Engine, threshold=9.0, budget=5)
states = task.step(task.reset(np.arange(2)), np.zeros((2, 1)))
print(os.getpid())
"""
    here = os.path.dirname(__file__)
    ran = subprocess.run(
        [sys.executable, "-c", program, here], capture_output=True, text=True, timeout=60
    )
    # Its processes hold the ends of the pipes, too: `run` returns when the last one has ended.
    assert ran.stderr == ""
    assert ran.stdout.strip().isdigit()


def test_what_an_environment_raises_in_a_process_of_its_own_is_told():
    task = gym_task(Fragile, threshold=9.0, budget=50)
    assert task.world.restored_by == FORK
    states = task.reset(np.arange(1))
    plan = np.zeros((1, 40, 1))
    with pytest.raises(TaskError, match=r"cannot be played on: RuntimeError\('it broke'\)"):
        task.rollout(states, plan)


class Fragile(Engine):
    """One that breaks after the steps that are checked."""

    def step(self, action):
        self.steps = getattr(self, "steps", 0) + 1
        if self.steps > 30:
            raise RuntimeError("it broke")
        return super().step(action)


def test_a_task_is_sent_without_its_environment(task):
    assert len(pickle.dumps(task)) < 3000


class Numbered(Walk):
    """One that draws as it is made: the same in every process, or it is refused."""

    def __init__(self, draw=lambda: GLOBAL.uniform()):
        self.number = draw()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place += self.number
        return self.seen(), {}


def test_what_is_drawn_as_an_environment_is_made_is_the_same_in_every_process():
    tasks = [gym_task(Numbered, threshold=9.0, budget=20) for _ in range(2)]
    first, second = (task.observe(task.reset(np.arange(ROWS))) for task in tasks)
    np.testing.assert_array_equal(first, second)


def test_one_that_the_system_seeds_as_it_is_made_is_refused():
    make = lambda: Numbered(np.random.default_rng().uniform)  # noqa: E731
    with pytest.raises(ComponentError, match=r"made again it differs at step 0: observation\[0\]"):
        gym_task(make, threshold=9.0)


def test_plans_imagined_together_are_those_imagined_alone_whatever_they_draw():
    task = gym_task(Restless, threshold=0.0)
    # A step draws one of a pair of normals, and leaves the other to the next.
    for states in (task.reset(np.arange(1)), task.step(task.reset(np.arange(1)), np.ones((1, 1)))):
        rows = np.repeat(states, 5, axis=0)
        plans = task.actions.sample([np.random.default_rng(1)], (5, 4))[0]
        before = random.getstate(), GLOBAL.get_state()
        together = task.observe(task.rollout(rows, plans))
        after = random.getstate(), GLOBAL.get_state()
        assert before[0] == after[0]
        np.testing.assert_equal(before[1], after[1])
        for place, plan in enumerate(plans):
            alone = task.observe(task.rollout(rows[:1], plan[None]))
            np.testing.assert_array_equal(together[place], alone[0])

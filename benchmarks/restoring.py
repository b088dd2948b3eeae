"""Environments of gymnasium's: what it costs to put one back, beside bare steps, by each way.

By processor time, but for forks, whose time is that of other processes.
"""

from __future__ import annotations

import ctypes
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np

from benchmarks.row import Row, cpu_seconds, wall_seconds
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.gates.presets import preset_planner
from pytest_cpg.tasks.gymnasium import GymnasiumTask, gym_task
from pytest_cpg.world_models import OracleDynamics, bind

STEPS, TURNS, PLANS, EPISODE = 200, 5, 16, 60


class Stateful(gymnasium.Env[Any, Any]):
    """A point whose place is in memory that Python does not see into, which can put itself back."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def __init__(self) -> None:
        self.held = ctypes.pointer(ctypes.c_double(0.0))

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self.held.contents.value, self.speed = self.np_random.uniform(-1, 1), 0.0
        return np.array([self.held.contents.value, self.speed]), {}

    def step(self, action: Any) -> Any:
        self.speed += 0.1 * float(action[0])
        self.held.contents.value += self.speed
        return np.array([self.held.contents.value, self.speed]), 0.0, False, False, {}

    def get_state(self) -> Any:
        return self.held.contents.value, self.speed

    def set_state(self, state: Any) -> None:
        self.held.contents.value, self.speed = state


class Engine(Stateful):
    """One that cannot."""

    get_state = set_state = property()


def copied() -> Row:
    """Put back Pendulum-v1."""
    return _restored("Pendulum-v1", gym_task("Pendulum-v1", threshold=0.0), bar=1.0)


def physics() -> Row:
    """Put back Hopper-v5."""
    return _restored("Hopper-v5", gym_task("Hopper-v5", threshold=9.0), bar=1.0)


def by_itself() -> Row:
    """Put back what has get_state and set_state."""
    return _restored("a point", gym_task(Stateful, threshold=1.0), bar=0.2)


def forked() -> Row:
    """Put back what needs a process."""
    return _restored("a point in C", gym_task(Engine, threshold=1.0), bar=20.0)


def planned() -> Row:
    """Play an episode in OGBench's point maze by its preset's planner, which imagines with it."""
    name, bar = "gym:ogbench:pointmaze-medium-v0", ">= 0.5 x"
    what = f"pointmaze, an episode of {EPISODE} steps by its preset"
    if find_spec("ogbench") is None:
        return Row(what=what, ours="", other="", result="no ogbench", bar=bar)
    task = gym_task(name.removeprefix("gym:"), score="path", budget=EPISODE)
    starts = sample_starts(task, 1, seed=0)
    idle = np.zeros((1, task.actions.size))
    oracle = bind(OracleDynamics(task), task, probe_states=starts.states, probe_actions=idle)
    design = Design(task=task, planner=preset_planner(name), episodes=1, seed=0)
    arms = []
    spent = min(
        cpu_seconds(lambda: arms.append(ArmRun("oracle", design, oracle, starts).advance(1)))
        for _ in range(TURNS)
    )
    imagined = arms[0].decisions * arms[0].rollout_steps
    mine = spent / (imagined + int(arms[0].steps.sum()))
    step = _bare(task)
    return Row(
        what=what,
        ours=f"{1e-3 / mine:.1f} k steps/s",
        other=f"bare {1e-3 / step:.1f} k/s",
        result=f"{step / mine:.2f} x",
        bar=bar,
    )


def _bare(task: GymnasiumTask) -> float:
    """Return the seconds of a step of a task's environment, which nobody puts back."""
    environment = gymnasium.make(task.world.title) if task.world.spec else None
    bare = environment or task.world._made_by[0]()  # type: ignore[operator]
    actions = task.actions.sample([np.random.default_rng(0)], (STEPS,))[0].astype(np.float32)

    def steps() -> None:
        bare.reset(seed=0)
        for action in actions:
            if bare.step(action)[2]:
                bare.reset()

    steps()
    return min(cpu_seconds(steps) for _ in range(TURNS)) / STEPS


def _restored(name: str, task: GymnasiumTask, *, bar: float) -> Row:
    """Step from one of two states after the other."""
    states = task.reset(np.arange(2))
    states = task.step(states, np.zeros((2, task.actions.size)))
    pair = np.resize(states, (2 * PLANS, states.shape[1]))
    plans = task.actions.sample([np.random.default_rng(0)], (len(pair), 1))[0]
    task.rollout(pair, plans)
    clock = wall_seconds if "fork" in task.restored_by else cpu_seconds
    spent = min(clock(lambda: task.rollout(pair, plans)) for _ in range(TURNS)) / len(pair)
    step = _bare(task)
    return Row(
        what=f"{name}, by {task.restored_by}"[:50],
        ours=f"{1e3 * (spent - step):.3f} ms a state",
        other=f"bare step {1e3 * step:.3f} ms",
        result=f"{1e3 * (spent - step):.2f} ms",
        bar=f"<= {bar:g} ms",
    )

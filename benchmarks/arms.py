"""Arms against the bare loops below them: 50 episodes of acrobot-swingup, shooting 50 x 15."""

from __future__ import annotations

import statistics
from itertools import pairwise

import mujoco
import numpy as np
import torch
from mujoco.rollout import Rollout

from benchmarks.row import Row, cpu_seconds
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.starts import sample_starts
from pytest_cpg.planners import RandomShooting
from pytest_cpg.tasks.control.clock import CLOCK
from pytest_cpg.tasks.control.formula_task import ControlTask, control_task
from pytest_cpg.world_models import (
    OracleDynamics,
    bind,
    collect_transitions,
    inference,
    train_mlp,
)

EPISODES, CANDIDATES, HORIZON = 50, 50, 15
ROUNDS, TURNS = 20, 5


def _run(task: ControlTask, model: object) -> tuple[Arm, float]:
    """Return an arm and the processor seconds it took, set-up of the binding apart."""
    starts = sample_starts(task, EPISODES, seed=0, fixed=True)
    rng = np.random.default_rng(0)
    actions = task.actions.sample([rng], (8,))[0]
    bound = bind(model, task, probe_states=starts.states[:8], probe_actions=actions)
    planner = RandomShooting(candidates=CANDIDATES, horizon=HORIZON)
    design = Design(task=task, planner=planner, episodes=EPISODES, seed=0)
    arms = []
    with inference(model):
        seconds = cpu_seconds(
            lambda: arms.append(ArmRun("oracle", design, bound, starts).advance(EPISODES))
        )
    return arms[0], seconds


def bare_rollout(task: ControlTask, rounds: int) -> float:
    """Return processor seconds per simulated step of mujoco.rollout alone, same shape and model."""
    model, threads = task.simulator.model, task.simulator.threads
    rows = EPISODES * CANDIDATES
    physics = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    initial = np.ascontiguousarray(task.reset(np.zeros(rows, dtype=int))[:, :physics])
    rng = np.random.default_rng(0)
    controls = task.actions.sample([rng], (rows, HORIZON))[0]
    datas = [mujoco.MjData(model) for _ in range(threads)]
    out = np.empty((rows, HORIZON, physics))
    with Rollout(nthread=threads if threads > 1 else 0) as pool, CLOCK.stopped():

        def loop() -> None:
            for _ in range(rounds):
                pool.rollout(
                    [model] * rows,
                    datas,
                    initial,
                    controls,
                    nstep=HORIZON,
                    state=out,
                    skip_checks=True,
                )

        loop()
        return cpu_seconds(loop) / (rounds * rows * HORIZON)


def oracle() -> Row:
    """Compare the oracle arm with a bare mujoco.rollout loop, the two in turns."""
    task = control_task("acrobot-swingup", budget=100)
    bare_rollout(task, ROUNDS)
    ours, bare = [], []
    for _ in range(TURNS):
        arm, seconds = _run(task, OracleDynamics(task))
        ours.append(arm.decisions * arm.rollout_steps / seconds)
        bare.append(1 / bare_rollout(task, ROUNDS))
    ratio = statistics.median(mine / other for mine, other in zip(ours, bare, strict=True))
    return Row(
        what="oracle arm, simulated steps per CPU second",
        ours=f"{statistics.median(ours) / 1e3:.0f} k/s",
        other=f"bare rollout {statistics.median(bare) / 1e3:.0f} k/s",
        result=f"{ratio:.2f}",
        bar=">= 0.90",
    )


def _loop_plan(task: ControlTask) -> float:
    """Return processor seconds of one plan imagined step by step, one row at a time.

    The network is the published MLP as one would write it in torch: 64 x 64, ReLU.
    """
    sizes = [task.observation_size + task.actions.size, 64, 64, task.observation_size]
    first, second, last = (torch.nn.Linear(size, after) for size, after in pairwise(sizes))
    network = torch.nn.Sequential(first, torch.nn.ReLU(), second, torch.nn.ReLU(), last)
    start = torch.as_tensor(task.observe(task.reset(np.array([0]))), dtype=torch.float32)[0]
    rng = np.random.default_rng(0)
    plans = torch.as_tensor(
        task.actions.sample([rng], (CANDIDATES, HORIZON))[0], dtype=torch.float32
    )

    def plan() -> None:
        best = float("inf")
        for candidate in plans:
            observation = start
            for action in candidate:
                observation = network(torch.cat([observation, action]))
                best = min(best, -(observation[2] + observation[3]).item())

    with torch.inference_mode():
        plan()
        return min(cpu_seconds(plan) for _ in range(5))


def learned() -> Row:
    """Compare the learned arm with a Python loop over the same network, the two in turns."""
    task = control_task("acrobot-swingup")
    mlp = train_mlp(collect_transitions(task, count=2_000, seed=0), seed=0, variant="plain")
    torch.set_num_threads(1)
    ours, loop = [], []
    for _ in range(TURNS):
        arm, seconds = _run(task, mlp)
        ours.append(seconds / arm.decisions)
        loop.append(_loop_plan(task))
    ratio = statistics.median(other / mine for mine, other in zip(ours, loop, strict=True))
    return Row(
        what="learned arm, CPU per plan at n = 50",
        ours=f"{1e3 * statistics.median(ours):.3f} ms",
        other=f"step by step {1e3 * statistics.median(loop):.1f} ms",
        result=f"{ratio:.0f} x",
        bar=">= 200 x",
    )

"""The oracle arm against the bare loop below it: 50 episodes of acrobot, shooting 50 x 15."""

from __future__ import annotations

import statistics

import mujoco
import numpy as np
from mujoco.rollout import Rollout

from benchmarks.row import Row, cpu_seconds
from pytest_cpg.episodes.arm import Arm
from pytest_cpg.episodes.arm_run import ArmRun
from pytest_cpg.episodes.design import Design, sample_starts
from pytest_cpg.planners import RandomShooting
from pytest_cpg.tasks.control.simulator import CLOCK
from pytest_cpg.tasks.control.task import ControlTask, control_task
from pytest_cpg.world_models import OracleDynamics, bind, inference

EPISODES, CANDIDATES, HORIZON = 50, 50, 15
ROUNDS, TURNS = 20, 5


def run_arm(task: ControlTask, model: object) -> tuple[Arm, float]:
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
    model, threads = task.world.simulator.model, task.world.simulator.threads
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
        arm, seconds = run_arm(task, OracleDynamics(task))
        ours.append(arm.decisions * arm.rollout_steps / seconds)
        bare.append(1 / bare_rollout(task, ROUNDS))
    ratio = statistics.median(mine / other for mine, other in zip(ours, bare, strict=True))
    return Row(
        what="oracle arm, simulated steps per CPU second",
        ours=f"{statistics.median(ours) / 1e3:.0f} k/s",
        other=f"bare rollout {statistics.median(bare) / 1e3:.0f} k/s",
        result=f"{ratio:.2f}",
        bar=">= 0.93",
    )

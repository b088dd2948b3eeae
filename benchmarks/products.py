"""Plans of small models against the matrix products in them, on this processor.

Their limit is the throughput of float32 products. Its peak is measured as that of one product of
two square matrices, on one thread and in processor time as everything else; the products of a plan
are counted from the layers, for the rows that a planner asks for.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.arms import CANDIDATES, HORIZON, TURNS, run_arm
from benchmarks.latent import KEYS, tdmpc2
from benchmarks.row import Row, cpu_seconds
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.planners import CEM
from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.control.task import control_task
from pytest_cpg.world_models import bind, collect_transitions, inference, train_mlp

# Large enough for the best that a processor can: half of it was a third slower.
SIZE = 2048


def mlp() -> Row:
    """Measure a whole arm of the published MLP, its real steps with it."""
    task = control_task("acrobot-swingup")
    model = train_mlp(collect_transitions(task, count=2_000, seed=0), seed=0, variant="plain")
    sizes = (task.observation_size, task.actions.size)
    step = flops(lambda: model(*(torch.zeros(1, size) for size in sizes)))

    def plan() -> float:
        arm, seconds = run_arm(task, model)
        return seconds / arm.decisions

    return _row("learned arm (MLP 64 x 64), 50 episodes", plan, CANDIDATES * HORIZON * step)


def latent() -> Row:
    """Measure plans of TD-MPC2 by the end of them: 3 x 64 plans of 15 steps, 8 episodes."""
    task = TASKS["acrobot-swingup"](action_repeat=2, actions="box")
    model = tdmpc2(KEYS).for_task(task)
    states, count = task.reset(np.arange(8)), 8
    actions = np.linspace(-1, 1, count)[:, None]
    bound = bind(model, task, probe_states=states, probe_actions=actions)
    planner = CEM(iterations=3, samples=64, elites=8, objective="terminal", execute=1)
    world = Imagination("learned", task.actions, bound)
    world.plans_for(np.arange(count), np.zeros(count, dtype=int))
    rngs = [np.random.default_rng(episode) for episode in range(count)]
    first = model.encode(torch.zeros(1, model.observation_size))
    action = torch.zeros(1, 1)
    step = flops(lambda: (model.rollout(first, action[None]), model.reward(first, action)))
    value = flops(lambda: model.terminal_value(first))

    def search() -> None:
        planner.plan(world, world.encode(states), rngs, np.full(count, HORIZON))

    def plan() -> float:
        with inference(model):
            return cpu_seconds(search) / count

    # Smaller tiles are tried once, by then.
    plan()
    wanted = planner.iterations * planner.samples * (planner.horizon * step + value)
    return _row("TD-MPC2 size 1 by CEM 3 x 64 x 15, 8 episodes", plan, wanted)


def flops(call: Callable[[], object]) -> int:
    """Return the multiplications and additions of the matrix products in a call."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def peak() -> float:
    """Return the most float32 operations per processor second of torch's matrix product."""
    torch.set_num_threads(1)
    left, right = torch.rand(2, SIZE, SIZE)
    out = torch.empty(SIZE, SIZE)
    best = min(cpu_seconds(lambda: torch.mm(left, right, out=out)) for _ in range(4))
    return 2 * SIZE**3 / best


def _row(what: str, plan: Callable[[], float], wanted: int) -> Row:
    """Compare processor seconds of a plan with those of its products at the peak, in turns."""
    seconds, peaks = [], []
    for _ in range(TURNS):
        peaks.append(peak())
        seconds.append(plan())
    shares = [wanted / (own * most) for own, most in zip(seconds, peaks, strict=True)]
    return Row(
        what=f"{what}, CPU per plan",
        ours=f"{1e3 * statistics.median(seconds):.3g} ms",
        other=f"sgemm {statistics.median(peaks) / 1e9:.0f} GFLOP/s",
        result=f"{100 * statistics.median(shares):.0f} %",
        bar="stated",
    )

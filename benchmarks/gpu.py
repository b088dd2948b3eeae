"""`make bench-gpu`: latent planning on a graphics processor beside the processor.

Where there is none it says so, and is done; nothing needs one.
"""

from __future__ import annotations

import math
import statistics
import time

import numpy as np
import torch

from benchmarks import latent
from benchmarks.row import wall_seconds
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.planners import RandomShooting, tdmpc2
from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import OracleDynamics, bind, collect_transitions, inference
from pytest_cpg.world_models.binding.tiling import tile_of

ROWS, HORIZON, TURNS = (10_000, 100_000, 1_000_000), 15, 3
# What a processor is measured on at most, which takes a while.
CPU_ROWS = 10_000


def main() -> None:
    """Print rows per second at three sizes, and the verdict of one gate on both devices."""
    if not torch.cuda.is_available():
        print("bench-gpu: torch finds no graphics processor here, so there is nothing to measure")
        return
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    print(f"TD-MPC2 size 1, {HORIZON} steps and rewards a row, in the pieces that a gate asks in")
    print(f"{'rows':>9s} {'graphics processor':>20s} {'processor':>20s}")
    for rows in ROWS:
        there = f"{rows_per_second('cuda', rows):.0f} /s"
        here = f"{rows_per_second('cpu', rows):.0f} /s" if rows <= CPU_ROWS else "not measured"
        print(f"{rows:9d} {there:>20s} {here:>20s}")
    print("TD-MPC2 size 5 by planner='tdmpc2': 6 x 512 plans of 3 steps for each episode")
    for device, episodes in (("cuda", 50), ("cpu", 1)):
        print(planned(device, episodes))
    print("verdict of a gate on a maze, with a small model on each of them")
    print(f"          {verdict('cuda'):>20s} {verdict('cpu'):>20s}")


def rows_per_second(device: str, rows: int) -> float:
    """Return how many plans a second are imagined and rewarded as a gate does it, on a device."""
    model = latent.tdmpc2().to(device)
    rng = np.random.default_rng(0)
    piece = tile_of(model)
    latents = model.encode(rng.normal(size=(piece, model.observation_size)))
    plans = rng.uniform(-1, 1, size=(piece, HORIZON, model.action_size))

    def imagine() -> None:
        reached = model.rollout(latents, plans)
        before = np.concatenate([latents[:, None], reached[:, :-1]], axis=1)
        model.reward(before, plans)

    seconds = []
    with inference(model):
        imagine()
        for _ in range(TURNS):
            begun = time.perf_counter()
            for _ in range(math.ceil(rows / piece)):
                imagine()
            seconds.append(time.perf_counter() - begun)
    return math.ceil(rows / piece) * piece / statistics.median(seconds)


def planned(device: str, episodes: int, size: int = 5) -> str:
    """Return how long a round of plans takes by TD-MPC2's planner, and what travels meanwhile."""
    task = TASKS["acrobot-swingup"](action_repeat=2, actions="box")
    model = latent.tdmpc2(latent.KEYS, size=size).for_task(task).to(device)
    states, count = task.reset(np.arange(max(8, episodes))), np.arange(episodes)
    actions = np.linspace(-1, 1, 8)[:, None]
    planner, seconds = tdmpc2(), []
    with inference(model):
        bound = bind(model, task, probe_states=states[:8], probe_actions=actions)
        world = Imagination("learned", task.actions, bound)
        world.plans_for(count, np.zeros(episodes, dtype=int))
        latents = world.encode(states[:episodes])
        rngs = [np.random.default_rng(episode) for episode in count]

        def plan() -> None:
            planner.plan(world, latents, rngs, np.full(episodes, task.budget))

        # The policy is tried, and smaller tiles.
        plan()
        seconds = [wall_seconds(plan) for _ in range(TURNS)]
        with Journeys() as journeys:
            plan()
    return (
        f"{device:>9s} {episodes:3d} episodes at once, {1e3 * statistics.median(seconds):.0f} ms; "
        f"back from the device {journeys.count} times, {journeys.numbers} numbers, in "
        f"{planner.iterations} iterations and {2 * planner.horizon - 1} steps of the policy"
    )


class Journeys:
    """Counts what comes back from a device while it is entered, by `torch.Tensor.cpu`."""

    def __enter__(self) -> Journeys:
        self.count = self.numbers = 0
        self._cpu = cpu = torch.Tensor.cpu

        def counted(tensor: torch.Tensor) -> torch.Tensor:
            self.count, self.numbers = self.count + 1, self.numbers + tensor.numel()
            return cpu(tensor)

        torch.Tensor.cpu = counted  # type: ignore[assignment, method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        torch.Tensor.cpu = self._cpu  # type: ignore[method-assign]


class _Residual(torch.nn.Module):
    """Dynamics of the maze, fitted by least squares: wrong at walls."""

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.weights = torch.nn.Parameter(weights)

    def forward(self, observations: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        return observations + torch.cat([observations, actions], dim=-1) @ self.weights


def verdict(device: str) -> str:
    """Return what a gate says of one model that is on this device, with the learned successes."""
    task = maze()
    seen = collect_transitions(task, count=2_000, seed=0)
    joined = np.concatenate([seen.observations, seen.actions], axis=1)
    weights, *_ = np.linalg.lstsq(joined, seen.next_observations - seen.observations, rcond=None)
    model = _Residual(torch.tensor(weights, dtype=torch.float32)).to(device)
    design = Design(
        task=task,
        planner=RandomShooting(),
        episodes=50,
        seed=0,
    )
    result = measure_gap(design, oracle=OracleDynamics(task), learned=model)
    return f"{result.verdict} {result.learned.success_count}/{result.learned.episodes}"


if __name__ == "__main__":
    main()

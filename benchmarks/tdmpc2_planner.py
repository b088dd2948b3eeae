"""TD-MPC2's planner: ours against the official code, on the same weights, in one process.

Where TDMPC2_SOURCE names the folder with the official tdmpc2.py (github.com/nicklashansen/tdmpc2 at
e9f5932), `make bench` measures both; with TDMPC2_CHECKPOINT, a file of size 1 that the official
code trained on reacher-easy, ``python -m benchmarks.tdmpc2_planner`` compares what both plan.
"""

from __future__ import annotations

import os
import statistics
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from benchmarks.row import Row, cpu_seconds
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.planners import tdmpc2
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import TDMPC2, bind, inference
from pytest_cpg.world_models.weights import read_weights

TESTS = Path(__file__).parent.parent / "tests"
TURNS, STARTS, SEEDS, RATED = 5, 16, 20, 5
DISCOUNT = 0.99
# What the official code reads of its configuration to plan: config.yaml and size 1 of it.
SETTINGS = {
    "iterations": 6,
    "num_samples": 512,
    "num_elites": 64,
    "num_pi_trajs": 24,
    "horizon": 3,
    "min_std": 0.05,
    "max_std": 2,
    "temperature": 0.5,
    "log_std_min": -10,
    "log_std_max": 2,
    "num_bins": 101,
    "vmin": -10,
    "vmax": 10,
    "simnorm_dim": 8,
    "dropout": 0.01,
    "task_dim": 0,
    "enc_dim": 256,
    "mlp_dim": 384,
    "latent_dim": 128,
    "num_enc_layers": 2,
    "num_q": 2,
    "obs": "state",
    "multitask": False,
    "episodic": False,
    "mpc": True,
    "compile": False,
}


class Both:
    """The official planner and ours, on reacher-easy and the same weights."""

    def __init__(self, source: str, weights: dict[str, torch.Tensor]) -> None:
        sys.path.insert(0, source)
        official, networks = import_module("tdmpc2"), import_module("common.world_model")
        self.task = TASKS["reacher-easy"](action_repeat=2, actions="box")
        sizes = {"obs_shape": {"state": (6,)}, "action_dim": 2}
        # Its own constructor wants a graphics processor, for optimisers that planning does not use.
        self.official: Any = official.TDMPC2.__new__(official.TDMPC2)
        torch.nn.Module.__init__(self.official)
        self.official.cfg = SimpleNamespace(**SETTINGS, **sizes)
        self.official.device = torch.device("cpu")
        self.official.model = networks.WorldModel(self.official.cfg).eval()
        own = self.official.model.state_dict()
        self.official.model.load_state_dict(
            {name: weights.get(name, value) for name, value in own.items()}
        )
        self.official.discount = DISCOUNT
        self.official._prev_mean = torch.nn.Buffer(torch.zeros(3, 2))
        settings: dict[str, Any] = {"action_repeat": 2, "simnorm_dim": 8, "discount": DISCOUNT}
        keys = ["position", "to_target", "velocity"]
        self.model = TDMPC2.of(weights, obs_keys=keys, **settings).for_task(self.task)
        probe = np.random.default_rng(0).uniform(-1, 1, (8, 2))
        states = self.task.reset(np.arange(8))
        self.bound = bind(self.model, self.task, probe_states=states, probe_actions=probe)

    def theirs(self, states: Any, seed: int) -> tuple[Any, Any]:
        """Return first actions [N, 2] and mean plans [N, 3, 2] of the official planner."""
        torch.manual_seed(seed)
        first, means = [], []
        for row in torch.tensor(self.task.observe(states), dtype=torch.float32):
            first.append(self.official.act(row, t0=True, eval_mode=True).numpy())
            means.append(self.official._prev_mean.clone())
        return np.stack(first), torch.stack(means)

    def ours(self, states: Any, seed: int, **changes: Any) -> Any:
        """Return the plans [N, 3, 2] of `planner="tdmpc2"`, or with some settings changed."""
        count = len(states)
        world = Imagination("learned", self.task.actions, self.bound)
        world.plans_for(np.arange(count), np.zeros(count, dtype=int))
        rngs = [np.random.default_rng([seed, episode]) for episode in range(count)]
        with inference(self.model):
            latents = world.encode(states)
            return tdmpc2(**changes).plan(world, latents, rngs, np.full(count, 100)).actions

    def value(self, states: Any, plans: Any) -> list[float]:
        """Rate plans [N, 3, 2] by the official estimate, the mean of its draws, [N]."""
        values = []
        with torch.no_grad():
            rows = torch.tensor(self.task.observe(states), dtype=torch.float32)
            for row, plan in zip(rows, torch.as_tensor(plans, dtype=torch.float32), strict=True):
                latents = self.official.model.encode(row[None], None).repeat(512, 1)
                drawn = self.official._estimate_value(
                    latents, plan[:, None].expand(-1, 512, -1), None
                )
                values.append(float(drawn.mean()))
        return values


def speed(episodes: int) -> Row:
    """Compare the processor time of a plan, for so many episodes at once."""
    what = f"TD-MPC2 size 1, its own planner, {episodes} episode{'s' * (episodes > 1)}"
    source = os.environ.get("TDMPC2_SOURCE", "")
    if not source:
        return Row(what=what, ours="-", other="needs TDMPC2_SOURCE", result="-", bar=_bar(episodes))
    sys.path.insert(0, str(TESTS))
    from official_weights import tdmpc2 as weights

    torch.set_num_threads(1)
    # Two threads on one core's halves take more processor time for the same work.
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usual)})
    try:
        both = Both(source, weights(1, observation=6, action=2))
        states = both.task.reset(np.arange(episodes))
        both.ours(states, 0)
        both.theirs(states, 0)
        turns = [
            (cpu_seconds(lambda: both.theirs(states, 0)), cpu_seconds(lambda: both.ours(states, 0)))
            for _ in range(TURNS)
        ]
    finally:
        os.sched_setaffinity(0, usual)
    theirs, ours = (1e3 * statistics.median(one) / episodes for one in zip(*turns, strict=True))
    return Row(
        what=what,
        ours=f"{ours:.0f} ms CPU per plan",
        other=f"official {theirs:.0f} ms",
        result=f"{statistics.median(before / after for before, after in turns):.2f} x",
        bar=_bar(episodes),
    )


def alone() -> Row:
    """Measure one episode."""
    return speed(1)


def together() -> Row:
    """Measure eight episodes at once."""
    return speed(8)


def _bar(episodes: int) -> str:
    return ">= 1.0 x" if episodes == 1 else ">= 1.5 x"


def main() -> None:
    """Print how far the planners' mean first actions are apart, and what each plan is worth."""
    source, checkpoint = (os.environ[f"TDMPC2_{name}"] for name in ("SOURCE", "CHECKPOINT"))
    torch.set_num_threads(1)
    both = Both(source, read_weights(checkpoint))
    states = both.task.reset(np.arange(STARTS))
    first: dict[str, list[Any]] = {"official": [], "ours": []}
    worth: dict[str, list[Any]] = {"official": [], "ours": [], "random": []}
    rng = np.random.default_rng(0)
    for seed in range(SEEDS):
        theirs, means = both.theirs(states, seed)
        first["official"].append(theirs)
        first["ours"].append(both.ours(states, seed)[:, 0])
        if seed < RATED:
            worth["official"].append(both.value(states, means))
            worth["ours"].append(both.value(states, both.ours(states, seed, draws_elite=False)))
            worth["random"].append(both.value(states, rng.uniform(-1, 1, (STARTS, 3, 2))))
    official, ours = (np.array(first[name]) for name in ("official", "ours"))
    half = SEEDS // 2
    print(f"| reacher-easy, {STARTS} starts, {SEEDS} seeds | |")
    print("|---|---|")
    for what, number in (
        (
            "first actions, mean over seeds: ours from the official ones",
            official.mean(0) - ours.mean(0),
        ),
        (
            "the official ones of half the seeds from those of the others",
            official[:half].mean(0) - official[half:].mean(0),
        ),
    ):
        print(f"| {what}, mean absolute | {np.abs(number).mean():.3f} |")
    print(f"| spread over seeds, official | {official.std(0).mean():.3f} |")
    print(f"| spread over seeds, ours | {ours.std(0).mean():.3f} |")
    print(f"| spread over starts, official | {official.mean(0).std(0).mean():.3f} |")
    for name, values in worth.items():
        print(f"| mean plan by the official estimate, {name} | {np.mean(values):.4f} |")
    gap = np.mean(worth["ours"], axis=0) - np.mean(worth["official"], axis=0)
    error = gap.std(ddof=1) / np.sqrt(STARTS)
    print(f"| ours - official over {STARTS} starts | {gap.mean():+.4f} +- {error:.4f} |")


if __name__ == "__main__":
    main()

"""Latent planning with TD-MPC2: whole batches of plans against one plan and step at a time."""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.row import Row, wall_seconds
from pytest_cpg.machine.processors import own_share
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import TDMPC2, bind, inference

TESTS = Path(__file__).parent.parent / "tests"
EPISODES, CANDIDATES, HORIZON = 50, 64, 15
# Plans that the loop is measured on; each takes as long as any other.
LOOPED, TURNS = 16, 5
# What acrobot-swingup observes.
KEYS = ("orientations", "velocity")


def tdmpc2(obs_keys: Sequence[str] | str = "state", *, size: int = 1) -> TDMPC2:
    """Return a TD-MPC2 of a size with random weights in the official layout."""
    sys.path.insert(0, str(TESTS))
    from official_weights import tdmpc2 as weights

    return TDMPC2.of(
        weights(size), obs_keys=obs_keys, action_repeat=2, simnorm_dim=8, discount=0.99
    )


def throughput() -> Row:
    """Compare a planning round of a gate, with rewards and values, with the model step by step."""
    task = TASKS["acrobot-swingup"](action_repeat=2)
    model = tdmpc2(KEYS)
    rng = np.random.default_rng(0)
    rows = EPISODES * CANDIDATES
    states = task.reset(np.arange(rows))
    plans = rng.uniform(-1, 1, size=(rows, HORIZON, model.action_size))
    bound = bind(model.for_task(task), task, probe_states=states[:8], probe_actions=plans[:8, 0])

    def loop() -> None:
        latents = model.encode(torch.tensor(task.observe(states[:LOOPED]), dtype=torch.float32))
        actions = torch.tensor(plans[:LOOPED], dtype=torch.float32)
        for latent, plan in zip(latents, actions, strict=True):
            earned, best = 0.0, -math.inf
            for action in plan:
                earned += model.reward(latent, action).item()
                latent = model.rollout(latent[None], action[None, None])[0, 0]
                worth = model.terminal_value(latent[None]).item()
                best = max(best, earned + model.discount * worth)

    def plan() -> None:
        bound.score(bound.rollout(latents, plans))

    ours, looped = [], []
    with inference(model):
        latents = bound.encode(states)
        plan()
        loop()
        for _ in range(TURNS):
            ours.append(rows * HORIZON / wall_seconds(plan))
            looped.append(LOOPED * HORIZON / wall_seconds(loop))
    ratio = statistics.median(mine / other for mine, other in zip(ours, looped, strict=True))
    return Row(
        what=f"TD-MPC2 size 1, 50 x 64 x 15, steps per second on {own_share()} processors",
        ours=f"{statistics.median(ours) / 1e3:.0f} k/s",
        other=f"step by step {statistics.median(looped) / 1e3:.2f} k/s",
        result=f"{ratio:.0f} x",
        bar=">= 50 x",
    )

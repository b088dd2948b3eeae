"""Latent planning with TD-MPC2: whole batches of plans against one plan and step at a time."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import numpy as np
import torch

from benchmarks.row import Row, cpu_seconds
from pytest_cpg.world_models import TDMPC2, inference
from pytest_cpg.world_models.binding import tiled

TESTS = Path(__file__).parent.parent / "tests"
EPISODES, CANDIDATES, HORIZON = 50, 64, 15
# Plans that the loop is measured on; each takes as long as any other.
LOOPED, TURNS = 16, 5


def tdmpc2(model_size: int = 1) -> TDMPC2:
    """Return a TD-MPC2 with random weights in the official layout."""
    sys.path.insert(0, str(TESTS))
    from official_weights import tdmpc2 as weights

    return TDMPC2.of(
        weights(model_size), obs_keys="state", action_repeat=2, simnorm_dim=8, discount=0.99
    )


def throughput() -> Row:
    """Compare a planning round, dynamics and rewards, with the same model step by step."""
    model = tdmpc2()
    rng = np.random.default_rng(0)
    rows = EPISODES * CANDIDATES
    starts = model.encode(rng.normal(size=(rows, model.sizes.observation)))
    plans = rng.uniform(-1, 1, size=(rows, HORIZON, model.sizes.action))

    def imagine(latents: np.ndarray, actions: np.ndarray) -> np.ndarray:
        given = [torch.tensor(array, dtype=torch.float32) for array in (latents, actions)]
        reached = model.rollout(*given)
        before = torch.cat([given[0][:, None], reached[:, :-1]], dim=1)
        return torch.cat([reached, model.reward(before, given[1])[..., None]], dim=-1).numpy()

    def loop() -> None:
        latents = torch.tensor(starts[:LOOPED], dtype=torch.float32)
        actions = torch.tensor(plans[:LOOPED], dtype=torch.float32)
        for latent, plan in zip(latents, actions, strict=True):
            earned = 0.0
            for action in plan:
                earned += model.reward(latent, action).item()
                latent = model.rollout(latent[None], action[None, None])[0, 0]

    ours, looped = [], []
    with inference(model):
        batch = tiled(imagine)
        batch(starts[:512], plans[:512])
        loop()
        for _ in range(TURNS):
            ours.append(rows * HORIZON / cpu_seconds(lambda: batch(starts, plans)))
            looped.append(LOOPED * HORIZON / cpu_seconds(loop))
    ratio = statistics.median(mine / other for mine, other in zip(ours, looped, strict=True))
    return Row(
        what="TD-MPC2 size 1, 50 x 64 x 15, steps per CPU second",
        ours=f"{statistics.median(ours) / 1e3:.0f} k/s",
        other=f"step by step {statistics.median(looped) / 1e3:.2f} k/s",
        result=f"{ratio:.0f} x",
        bar=">= 50 x",
    )

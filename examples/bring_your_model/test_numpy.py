"""A network in numpy: a function on a batch is a world model."""

import numpy as np
import pytest
from safetensors.numpy import load_file


@pytest.fixture(scope="session")
def learned_dynamics():
    w = load_file("../dmc_gates/models/reacher-easy.safetensors")  # your weights

    def layer(inputs, number):
        return inputs @ w[f"layers.{number}.weight"].T + w[f"layers.{number}.bias"]

    def silu(values):
        return values / (1 + np.exp(-values))

    def dynamics(observations, actions):  # [B, O] and [B, A] to the next observations [B, O]
        inputs = np.concatenate([observations, actions], axis=-1)
        hidden = silu(layer((inputs - w["input_mean"]) / w["input_scale"], 0))
        change = layer(silu(layer(hidden, 2)), 4)
        return observations + change * w["change_scale"] + w["change_mean"]

    return dynamics


@pytest.mark.cpg(task="reacher-easy", planner="preset", episodes=12)
def test_numpy(cpg): ...

"""A network in JAX: a jitted step, and a rollout in one jitted scan, which is faster."""

import pytest
from safetensors.numpy import load_file

jax = pytest.importorskip("jax")

import jax.numpy as jnp

WEIGHTS = load_file("../dmc_gates/models/reacher-easy.safetensors")  # yours: any pytree


@jax.jit
def dynamics(observations, actions):  # [B, O] and [B, A] to [B, O]
    def layer(inputs, number):
        return inputs @ WEIGHTS[f"layers.{number}.weight"].T + WEIGHTS[f"layers.{number}.bias"]

    inputs = jnp.concatenate([observations, actions], axis=-1)
    hidden = jax.nn.silu(layer((inputs - WEIGHTS["input_mean"]) / WEIGHTS["input_scale"], 0))
    change = layer(jax.nn.silu(layer(hidden, 2)), 4)
    return observations + change * WEIGHTS["change_scale"] + WEIGHTS["change_mean"]


class Scanned:
    """The same, a whole plan a call."""

    @staticmethod
    @jax.jit
    def rollout(observations, actions):  # [B, O] and [B, H, A] to [B, H, O]
        def step(observations, actions):
            reached = dynamics(observations, actions)
            return reached, reached

        _, reached = jax.lax.scan(step, observations, jnp.swapaxes(actions, 0, 1))
        return jnp.swapaxes(reached, 0, 1)


@pytest.fixture(params=["step", "scan"])
def learned_dynamics(request):
    return {"step": dynamics, "scan": Scanned()}[request.param]


@pytest.mark.cpg(task="reacher-easy", planner="preset", episodes=12)
def test_jax(cpg): ...

"""The tasks of the experiments on data, how a network is fitted, and how one is judged."""

from functools import cache

from spread import COLLECTED

import pytest_cpg
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.tasks.control.task import dmc
from pytest_cpg.world_models import train_mlp

# What results/ was found with: the numbers of presets in 2026-11, which presets may leave.
OPTIONS = {
    "cartpole-swingup": {"budget": 300, "actions": "box"},
    "acrobot-swingup": {"budget": 250, "action_repeat": 4, "actions": "box"},
    "reacher-easy": {"budget": 200},
}
PLANNERS = {
    "cartpole-swingup": CEM(
        iterations=2,
        samples=16,
        elites=4,
        horizon=30,
        smoothing=0.0,
        objective="sum",
        execute=5,
        initial_deviation=0.8,
        minimum_deviation=0.1,
        warm_start=True,
    ),
    "acrobot-swingup": CEM(
        iterations=3,
        samples=32,
        elites=8,
        horizon=40,
        smoothing=0.0,
        objective="peak-and-tail",
        execute=4,
        correlation=0.7,
        warm_start=True,
    ),
    "reacher-easy": RandomShooting(candidates=30, horizon=10),
}
# The same for all data, and tuned for none.
FITTED = {"hidden": 128, "activation": "silu", "batch_size": 512, "schedule": "one-cycle"}
STEPS = {
    "cartpole-swingup": {"steps": 1_500, "learning_rate": 2e-3},
    "acrobot-swingup": {"steps": 6_000, "learning_rate": 4e-3},
    "reacher-easy": {"steps": 3_000, "learning_rate": 4e-3},
}


@cache
def task_of(name):
    """Return a task on one thread."""
    return dmc(name, threads=1, **OPTIONS[name])


def fitted(name, data, *, seed):
    """Return a network trained on transitions; what ends it are the steps."""
    return train_mlp(data, seed=seed, epochs=10**6, **FITTED, **STEPS[name])


def judged(name, model, *, episodes, seed, **asked):
    """Return what a gate says of a model; oracle and chance arms are run once."""
    return pytest_cpg.evaluate(
        task_of(name),
        model,
        planner=PLANNERS[name],
        episodes=episodes,
        seed=seed,
        progress=False,
        cache=COLLECTED / "arms",
        **asked,
    )


def described(found):
    """Return a gate's result as a cell holds it."""
    interval = found.result.interval
    return {
        "verdict": found.label,
        "episodes": found.result.learned.episodes,
        "oracle": found.result.oracle.success_count,
        "learned": found.result.learned.success_count,
        "gap": [round(getattr(interval, end), 4) for end in ("estimate", "low", "high")],
    }

"""An episode ends the same alone, reversed, in any batch and with any number of threads."""

import functools

import numpy as np
import pytest
from runs import arm_of

from pytest_cpg.episodes.starts import sample_starts
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.world_models import OracleDynamics, bind, collect_transitions, inference

# Together they imagine more than the 512 rows that a learned model is called with at once; alone,
# so few that calls of fewer rows are tried and made.
EPISODES = 27
PLANNERS = {
    "random-shooting": RandomShooting(candidates=20, horizon=10),
    "cem": CEM(iterations=2, samples=20, elites=4, horizon=10),
}


def batches(size):
    return [np.arange(first, min(first + size, EPISODES)) for first in range(0, EPISODES, size)]


ORDERS = {
    "reversed": [np.arange(EPISODES)[::-1]],
    "one by one": batches(1),
    "by seven": batches(7),
}


def outcomes(task, planner, model, starts, orders):
    """Success, steps and every action of each episode, run in these batches."""
    bound = bind(
        model,
        task,
        probe_states=starts.states[:8],
        probe_actions=task.actions.sample([np.random.default_rng(0)], (8,))[0],
    )
    actions = {episode: [] for episode in range(EPISODES)}

    def note(episodes, taken):
        for episode, action in zip(episodes, taken, strict=True):
            actions[int(episode)].append(action.tobytes())

    ended = {}
    with inference(model):
        for rows in orders:
            arm = arm_of("oracle", task, planner, bound, starts.take(rows), seed=1, on_step=note)
            for row, success, steps in zip(rows, arm.successes, arm.steps, strict=True):
                ended[int(row)] = (bool(success), int(steps))
    return {episode: (ended[episode], actions[episode]) for episode in range(EPISODES)}


def check(make_task, planner, make_model):
    task = make_task(threads=1)
    model = make_model(task)
    starts = sample_starts(task, EPISODES, seed=1)
    together = outcomes(task, planner, model, starts, [np.arange(EPISODES)])
    for orders in ORDERS.values():
        assert outcomes(task, planner, model, starts, orders) == together
    two = make_task(threads=2)
    model = OracleDynamics(two) if isinstance(model, OracleDynamics) else model
    assert outcomes(two, planner, model, starts, [np.arange(EPISODES)]) == together


@functools.cache
def published_mlp(task):
    pytest.importorskip("torch")
    from pytest_cpg.world_models import train_mlp

    return train_mlp(collect_transitions(task, count=500, seed=0), seed=0, epochs=5)


MODELS = {"oracle": OracleDynamics, "mlp": published_mlp}
models = pytest.mark.parametrize("model", ["oracle", pytest.param("mlp", marks=pytest.mark.trains)])


@functools.cache
def short_task(name, threads):
    """Compiled once for all planners and models."""
    from pytest_cpg.tasks.control.task import control_task

    return control_task(name, budget=8, threads=threads)


@models
@pytest.mark.parametrize(
    ("task", "planner"),
    [
        ("acrobot-swingup", "cem"),
        ("cartpole-swingup", "random-shooting"),
        ("reacher-easy", "cem"),
    ],
)
def test_episodes_do_not_feel_each_other(task, planner, model):
    pytest.importorskip("dm_control")
    check(functools.partial(short_task, task), PLANNERS[planner], MODELS[model])


@pytest.mark.slow
@models
def test_whole_episodes_of_acrobot_do_not_feel_each_other(model):
    pytest.importorskip("dm_control")
    from pytest_cpg.tasks.control.task import control_task

    check(
        lambda threads: control_task("acrobot-swingup", budget=150, threads=threads),
        RandomShooting(),
        MODELS[model],
    )

"""The published world model: an MLP on transitions of random actions, nothing normalised."""

import functools

import numpy as np
import pytest

from pytest_cpg.world_models import Transitions, collect_transitions, train_mlp

EPISODE = 200


@functools.cache
def trained(task, transitions, seed, starts):
    if starts == "fixed":
        data = shaken_transitions(task, count=transitions, seed=seed)
    else:
        data = collect_transitions(task, count=transitions, seed=seed, episode_steps=EPISODE)
    return train_mlp(data, seed=seed, variant="plain")


def shaken_transitions(task, *, count, seed):
    """Return transitions of random actions that all begin where the published episodes do."""
    episodes = -(-count // EPISODE)
    starts = task.reset(np.zeros(episodes, dtype=np.int64))
    rngs = [np.random.default_rng([seed, episode]) for episode in range(episodes)]
    actions = task.actions.sample(rngs, (EPISODE,))
    after = task.observe(task.rollout(starts, actions))
    before = np.concatenate([task.observe(starts)[:, None], after[:, :-1]], axis=1)
    before, actions, after = (
        arrays.reshape(episodes * EPISODE, -1)[:count] for arrays in (before, actions, after)
    )
    return Transitions(observations=before, actions=actions, next_observations=after)


@pytest.fixture
def transitions():
    return 2_000


@pytest.fixture
def training_seed():
    return 0


@pytest.fixture
def learned_dynamics(request, oracle_dynamics, transitions, training_seed, record_property):
    marked = {}
    for marker in request.node.iter_markers("cpg"):
        marked = {**marker.kwargs, **marked}
    starts = marked.get("starts", "sampled")
    model = trained(oracle_dynamics.task, transitions, training_seed, starts)
    record_property("validation_error", model.validation_error)
    return model

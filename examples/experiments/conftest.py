"""The learned arm of every experiment: what `learned` names, for the gate's task and starts."""

import pytest
from learned import dreamer, latent_model, policy_data, published_network, random_data


@pytest.fixture
def learned():
    return "random-data"


@pytest.fixture
def transitions():
    return 2_000


@pytest.fixture
def training_seed():
    return 0


@pytest.fixture
def size():
    return 1


@pytest.fixture
def learned_dynamics(
    request, oracle_dynamics, learned, transitions, training_seed, size, record_property
):
    marked = {}
    for marker in request.node.iter_markers("cpg"):
        marked = {**marker.kwargs, **marked}
    task, starts = oracle_dynamics.task, marked.get("starts", "sampled")
    if learned in ("tdmpc2", "re-encoded", "rewards"):
        return latent_model(task, size=size, rated=learned)
    if learned in ("latent", "one-frame"):
        return dreamer(task, is_latent=learned == "latent")
    if learned in ("published-network", "policy-data"):
        if learned == "policy-data":
            model, error = policy_data(task, size=size, seed=training_seed, starts=starts)
        else:
            model, error = published_network(task, transitions=transitions, seed=training_seed)
        record_property("validation_error", error)
        return model
    model = random_data(task, transitions=transitions, seed=training_seed, starts=starts)
    record_property("validation_error", model.validation_error)
    return model

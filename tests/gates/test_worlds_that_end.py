"""Queries about environments whose episodes end early, and models of them."""

import numpy as np
import pytest
from comparisons import USUAL, label_of, running

pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

from pytest_cpg.gates.policy_comparison.generate import generate_queries
from pytest_cpg.gates.policy_comparison.measure import Spec, measure_comparison
from pytest_cpg.planners.policies import FunctionPolicy, NoiseMixture, TanhNetwork
from pytest_cpg.tasks.gymnasium import gym_task

HORIZONS = (10, 20, 30)


def graded(task):
    """Return a controller that balances a pole, and worse ones."""
    gains = np.array([[0.6], [20.0], [1.0], [4.0]])
    best = FunctionPolicy(lambda observations: np.clip(observations @ gains, -3, 3))
    shares = (0.5, 0.8, 1.0)
    return [best] + [
        NoiseMixture(policy=best, actions=task.actions, share=share, seed=0) for share in shares
    ]


def drawn(task):
    """Return networks that fall at different times."""
    rng = np.random.default_rng(0)
    return [
        TanhNetwork.drawn(task.observation_size, task.actions, rng=rng, gain=gain)
        for gain in (0.3, 1.0, 1.0, 3.0)
    ]


WORLDS = {"InvertedPendulum-v5": (graded, 1.0), "Hopper-v5": (drawn, 5.0)}


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    task, (policies, gap) = gym_task(request.param), WORLDS[request.param]
    queries = generate_queries(
        task, policies(task), gap=gap, seed=0, candidates=200, horizons=HORIZONS
    )
    return task, queries


def ruled(queries, model, training_data=None):
    result = measure_comparison(
        Spec(name="world", queries=queries, criteria=USUAL),
        model,
        running(training_data),
    )
    return label_of(result)


class Frozen:
    """Nothing moves, and being alive is paid."""

    members = 3

    def step(self, observations, actions):
        return observations, 1 + 0.01 * np.tile(np.arange(3.0)[:, None], observations.shape[1])


def test_no_query_starts_from_a_state_that_is_over_and_a_frozen_world_fails(world):
    task, queries = world
    assert len(queries) > 200
    for side in "ab":
        assert not task.terminated(getattr(queries, f"states_{side}")).any()
    assert ruled(queries, Frozen()) in ("UNINFORMED", "BROKEN")


@pytest.mark.slow
@pytest.mark.trains
def test_an_ensemble_trained_by_the_defaults_knows_its_limits(world):
    pytest.importorskip("torch")
    from pytest_cpg.world_models import collect_transitions, train_ensemble

    task, queries = world
    steps = collect_transitions(task, count=20_000, seed=1, with_rewards=True, episode_steps=100)
    assert 0.01 < steps.terminations.mean() < 0.3
    assert ruled(queries, train_ensemble(steps, seed=0), steps) == "KNOWS ITS LIMITS"

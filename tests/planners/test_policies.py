"""Policies act alike whenever they are asked, and within the action space."""

import re
from itertools import pairwise

import numpy as np
import pytest

from pytest_cpg.contracts import BoxActions, FiniteActions
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.planners.policies import NoiseMixture, PlannerPolicy, TanhNetwork
from pytest_cpg.tasks.grids import maze

BOX = BoxActions(np.array([-1.0, 0.0]), np.array([1.0, 4.0]))
LEVELS = FiniteActions(np.array([[-1.0, 0.0], [0.0, 2.0], [1.0, 4.0]]))
SEEN = np.random.default_rng(3).normal(size=(200, 3))


def drawn(actions=BOX, **options):
    return TanhNetwork.drawn(3, actions, rng=np.random.default_rng(0), **options)


@pytest.mark.parametrize("sizes", [(3, 5, 4, 2), (3, 200, 200, 2)], ids=["small", "in parts"])
def test_a_network_is_tanh_of_every_layer_rounded_at_the_end(sizes):
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=(after, before)) for before, after in pairwise(sizes)]
    biases = [rng.normal(size=size) for size in sizes[1:]]
    wanted = SEEN
    for weight, bias in zip(weights, biases, strict=True):
        wanted = np.tanh(np.einsum("oi,bi->bo", weight, wanted) + bias)
    acted = TanhNetwork(weights=weights, biases=biases).act(SEEN)
    assert acted.dtype == np.float32
    np.testing.assert_allclose(acted, wanted, rtol=1e-6)


@pytest.mark.parametrize("space", [BOX, LEVELS], ids=["box", "set"])
def test_policies_stay_in_the_action_space_and_use_it(space):
    policy = drawn(space, gain=4.0)
    for one in (policy, NoiseMixture(policy=policy, actions=space, share=0.7, seed=0)):
        actions = one.act(SEEN)
        assert space.contains(actions.astype(np.float64)).all()
        assert np.ptp(actions, axis=0) == pytest.approx([2, 4], rel=0.2)
        np.testing.assert_array_equal(one.act(SEEN), actions)


def test_noise_grows_with_its_share_and_alone_is_uniform():
    policy = drawn()
    off = [
        np.abs(NoiseMixture(policy=policy, actions=BOX, share=share, seed=0).act(SEEN)
               - policy.act(SEEN)).mean()
        for share in (0, 0.2, 0.5, 1)
    ]  # fmt: skip
    assert off[0] == 0
    assert off == sorted(off)
    many = np.random.default_rng(4).normal(size=(20000, 3))
    noise = NoiseMixture(policy=policy, actions=BOX, share=1, seed=0).act(many)
    shares = np.histogram(noise[:, 0], bins=4, range=(-1, 1))[0] / len(many)
    np.testing.assert_allclose(shares, 0.25, atol=0.02)


def test_a_planner_policy_does_what_is_first_in_its_plan_for_each_row_alone():
    task = maze()
    planner = RandomShooting(candidates=16, horizon=4)
    policy = PlannerPolicy(planner=planner, dynamics=task.step, task=task, seed=5)
    seen = task.observe(task.reset(np.arange(6)))
    together = policy.act(seen)
    assert task.actions.contains(together).all()
    alone = np.concatenate([policy.act(seen[row : row + 1]) for row in range(6)])
    np.testing.assert_array_equal(alone, together)
    plan = planner.plan(task, seen[:1], [np.random.default_rng(5)], np.array([4]))
    np.testing.assert_array_equal(together[0], plan.actions[0, 0])


def test_a_planner_with_memory_is_no_policy():
    with pytest.raises(ValueError, match="a policy has no memory: give it warm_start=False"):
        PlannerPolicy(planner=CEM(warm_start=True), dynamics=maze().step, task=maze(), seed=0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TanhNetwork(weights=[], biases=[]), "got 0 weights and 0 biases"),
        (
            lambda: TanhNetwork(weights=[np.ones((2, 3)), np.ones((1, 4))], biases=[[0, 0], [0]]),
            "layer 2 has weights (1, 4) and biases (1,): need [out, 2] and [out]",
        ),
        (
            lambda: TanhNetwork(weights=[[[np.nan]]], biases=[[0.0]]),
            "layer 1 has weights that are not finite: train it again",
        ),
        (
            lambda: TanhNetwork(weights=[[[1.0]]], biases=[[0.0]], actions=BOX),
            "the last layer gives 1 numbers, and an action has 2",
        ),
        (
            lambda: NoiseMixture(policy=drawn(), actions=BOX, share=1.5, seed=0),
            "share of noise must be from 0 to 1, got 1.5",
        ),
        (
            lambda: NoiseMixture(policy=drawn(), actions=BOX, share=0.5, seed=0, frequency=0),
            "frequency must be a positive number, got 0",
        ),
    ],
)
def test_what_cannot_be_a_policy_is_refused(make, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        make()

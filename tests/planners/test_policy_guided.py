import numpy as np
import pytest
from sliders import Forgetful, Scoring, Slider

from pytest_cpg.contracts import BoxActions, ComponentError, CpgError, FiniteActions
from pytest_cpg.planners import PolicyGuided, rollout_steps_per_plan
from pytest_cpg.world_models import OracleDynamics, bind

BOX = BoxActions(np.array([-1.0]), np.array([1.0]))
STEPS = FiniteActions(np.array([[-1.0], [0.0], [1.0]]))


class Drifting:
    """A point that is carried off by half a step, and seen from the other side."""

    def __init__(self, actions):
        self.actions = actions

    def rollout(self, latents, actions):
        return latents[:, None] + np.cumsum(actions + 0.5, axis=1)

    def observe(self, latents):
        return -latents

    def score(self, latents):
        return np.abs(latents[..., 0])


def toward_zero(observations):
    return np.clip(observations, -1, 1)


def planned(planner, actions=BOX, world=None):
    rngs = [np.random.default_rng(row) for row in range(3)]
    latents = np.array([[3.0], [-2.0], [0.2]])
    return planner.plan(world or Drifting(actions), latents, rngs, np.full(3, 100))


def test_one_candidate_is_what_the_policy_does_where_the_model_says_it_gets_to():
    plans = planned(PolicyGuided(policy=toward_zero, candidates=1, horizon=6))
    assert (plans.lengths == 1).all()
    for start, actions in zip((3.0, -2.0, 0.2), plans.actions[..., 0], strict=True):
        for action in actions:
            assert action == pytest.approx(np.clip(-start, -1, 1))
            start += action + 0.5


@pytest.mark.parametrize("actions", [BOX, STEPS], ids=["box", "finite"])
def test_noise_around_a_policy_finds_what_the_policy_misses(actions):
    def cost(candidates):
        planner = PolicyGuided(policy=toward_zero, candidates=candidates, horizon=6, noise=0.5)
        plans = planned(planner, actions)
        starts = np.array([[3.0], [-2.0], [0.2]])
        return Drifting(actions).score(Drifting(actions).rollout(starts, plans.actions)).sum()

    assert cost(40) < cost(1)


def test_a_plan_costs_the_policys_way_and_the_candidates():
    planner = PolicyGuided(policy=toward_zero, candidates=5, horizon=4)
    assert rollout_steps_per_plan(planner, BOX, budget=100) == (1 + 2 + 3) + 5 * 4


def test_a_policy_that_breaks_its_promise_is_named():
    for wrong, cure in (
        (lambda o: np.zeros(3), r"shape \(1, 1\)"),
        (lambda o: np.zeros((1, 2)), r"shape \(1, 1\)"),
        (lambda o: o * np.nan, "finite numbers"),
        (lambda o: "left", "actions"),
    ):
        with pytest.raises(CpgError, match=f"the policy of PolicyGuided gave .* return {cure}"):
            planned(PolicyGuided(policy=wrong))
    with pytest.raises(ValueError, match=r"policy must be a function .*, got 'sac'"):
        PolicyGuided(policy="sac")


@pytest.mark.parametrize("actions", [BOX, STEPS], ids=["box", "finite"])
def test_a_policy_that_draws_its_actions_is_refused(actions):
    rng = np.random.default_rng(0)
    planner = PolicyGuided(policy=lambda o: rng.uniform(-1, 1, size=(1, 1)))
    with pytest.raises(CpgError, match=r"gave .* and then .* Let it return its mean"):
        planned(planner, actions)


def test_a_policy_may_use_its_buffer_again():
    buffer = np.empty((1, 1))

    def reusing(observations):
        buffer[:] = toward_zero(observations)
        return buffer

    wanted, given = (
        planned(PolicyGuided(policy=policy, horizon=3)) for policy in (toward_zero, reusing)
    )
    np.testing.assert_array_equal(given.actions, wanted.actions)


def bound(model):
    task = Slider()
    states = task.reset(np.arange(8))
    actions = np.resize(task.actions.values, (8, 1))
    return bind(model, task, probe_states=states, probe_actions=actions)


def test_a_policy_sees_observations_in_every_arm():
    states = Slider().reset(np.arange(4))
    for model in (OracleDynamics(Slider()), lambda o, a: o + a, Forgetful()):
        world = bound(model)
        seen = world.observe(world.encode(states)[:, None])
        assert np.array_equal(seen[:, 0], Slider().observe(states))


def test_a_model_of_latents_alone_says_what_a_policy_needs():
    class Blind(Scoring):
        decode = None

    class Painting(Scoring):
        def decode(self, latents):
            return np.zeros((*latents.shape[:-1], 8, 8, 3))

    for model in (Blind(), Painting()):
        with pytest.raises(ComponentError, match="Give the model decode"):
            planned(PolicyGuided(policy=toward_zero), world=bound(model))

"""A model's own policy: bound when a planner asks it, checked, and followed by the model itself."""

import numpy as np
import pytest
import runs
from sliders import Nested, Remembering, Slider

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.planners import CEM, MPPI
from pytest_cpg.world_models import bind

TASK = Slider()
STARTS = sample_starts(TASK, 6, seed=1)
PROBE = {
    "probe_states": STARTS.states[:6],
    "probe_actions": np.resize(TASK.actions.values, (6, 1)),
}
# So few plans that only a policy can stop the puck.
BLIND = MPPI(samples=2, iterations=1, horizon=2, policy_plans=1, elites=1)


def stopping(latents):
    """Head for 0, and brake before it is reached."""
    ahead = latents[..., :1] + 2 * latents[..., 1:]
    return -np.sign(ahead)


class Able(Remembering):
    """A puck whose rewards are the task's, and who knows how to stop it."""

    def policy(self, latents):
        return stopping(latents)

    def score(self, latents):
        return np.abs(latents[..., 0]) + np.abs(latents[..., 1])


class Shaking(Able):
    def policy(self, latents, noise):
        return stopping(latents) + 0.6 * noise


class AbleNest(Nested):
    def policy(self, latents):
        return stopping(np.concatenate(latents["puck"], axis=-1))


def arm(model, planner=BLIND, starts=STARTS):
    bound = bind(model, TASK, **PROBE)
    return runs.run_of("learned", TASK, planner, bound, starts, seed=1).advance(
        len(starts.episodes)
    )


def test_a_policy_is_followed_where_it_leads_in_the_models_own_world():
    bound = bind(Able(), TASK, **PROBE)
    begun = bound.encode(STARTS.states)
    plans = bound.policy_plans(begun, np.zeros((6, 4, 1)))
    states = begun
    for step in range(4):
        assert np.array_equal(plans[:, step], stopping(states))
        states = TASK.rollout(states, plans[:, step : step + 1])[:, 0]
    assert not bound.has_noisy_policy


def test_noise_reaches_the_policy_and_the_nearest_possible_action_is_taken():
    bound = bind(Shaking(), TASK, **PROBE)
    begun, noise = bound.encode(STARTS.states), np.full((6, 1, 1), 3.0)
    assert bound.has_noisy_policy
    still = bound.policy_plans(begun, 0 * noise)
    assert np.array_equal(bound.policy_plans(begun, noise), np.minimum(still + 1 + (still < 0), 1))


@pytest.mark.parametrize("model", [Able(), Shaking(), AbleNest()], ids=lambda m: type(m).__name__)
def test_an_episode_planned_from_a_policy_ends_the_same_alone_and_among_others(model):
    together = encode(arm(model))
    for row in (0, 5):
        alone = encode(arm(model, starts=STARTS.take(np.array([row]))))
        for name in ("successes", "steps", "returns"):
            assert alone[name] == together[name][row : row + 1]


def test_a_planner_of_nothing_but_the_policy_does_what_the_policy_does():
    alone = MPPI(samples=1, iterations=1, horizon=2, policy_plans=1)
    assert arm(Able(), alone).success_count == 6
    unable = type("Unable", (Able,), {"policy": None})()
    assert arm(unable, alone).success_count < 6


def test_the_true_dynamics_rated_by_a_model_are_led_by_its_policy_too():
    witness = bind(Able(), TASK, **PROBE).witness
    begun = witness.encode(STARTS.states)
    plans = witness.policy_plans(begun, np.zeros((6, 3, 1)))
    seen, states = bind(Able(), TASK, **PROBE).encode(STARTS.states), STARTS.states
    for step in range(3):
        assert np.array_equal(plans[:, step], stopping(seen))
        states = TASK.rollout(states, plans[:, step : step + 1])[:, 0]
        seen = Able().update(seen, plans[:, step], TASK.observe(states))


class Wrong(Able):
    answer = np.zeros((1, 3))

    def policy(self, latents):
        return np.broadcast_to(self.answer, (len(latents), self.answer.shape[1]))


def test_a_policy_that_is_none_is_told_when_it_is_asked_and_not_before():
    said = r"episode 0 at step 0: policy: 'Wrong.policy' is not usable: shape \[6, 3\]"
    with pytest.raises(WorldModelError, match=said) as caught:
        arm(Wrong())
    assert "It is called as policy(latents [B, Z]) -> actions [B, 1]" in str(caught.value)
    assert "shape [6, 3] came back for [6, 2], expected [6, 1]" in str(caught.value)
    arm(Wrong(), planner=CEM(horizon=2))


def test_a_policy_of_no_number_names_the_episode():
    model = Wrong()
    model.answer = np.array([[np.nan]])
    with pytest.raises(WorldModelError, match=r"model gave NaN for policy, .* episode 0, step 0"):
        arm(model)

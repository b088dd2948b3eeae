"""MPPI beyond its usual settings: elites, a fitted deviation, and plans of the model's policy."""

import numpy as np
import pytest

from pytest_cpg.contracts import BoxActions, FiniteActions
from pytest_cpg.planners import MPPI, PLANNERS, tdmpc2
from pytest_cpg.planners.sampling import path_weights

BOX = BoxActions(np.array([-2.0]), np.array([2.0]))
SET = FiniteActions(np.array([[-1.0], [0.0], [1.5]]))
REMAINING = np.array([100])


class Line:
    """A point that moves by its action, to be where ``goal`` is."""

    def __init__(self, actions, goal):
        self.actions, self.goal = actions, goal
        self.seen = []

    def rollout(self, latents, actions):
        self.seen.append(actions)
        return latents[:, None] + np.cumsum(actions, axis=1)

    def score(self, latents):
        return np.abs(latents[..., 0] - self.goal)


class Knowing(Line):
    """The same, with a policy that steps towards the goal as far as it may, more or less."""

    has_noisy_policy = True

    def policy_plans(self, latents, noise):
        plans = np.full(noise.shape, 2.0 * np.sign(self.goal)) - 0.01 * np.abs(noise)
        return self.actions.nearest(plans)


def plan(planner, world, seed=0):
    rng = np.random.default_rng(seed)
    return planner.plan(world, np.zeros((1, 1)), [rng], REMAINING), rng.random()


def loop(planner, world, seed):
    """The same search for one episode of a box, written out as a plain loop."""
    rng, half = np.random.default_rng(seed), 2.0
    noise = rng.standard_normal((planner.policy_plans, planner.horizon, 1))
    policy = world.policy_plans(np.zeros((planner.policy_plans, 1)), noise)
    mean, spread = np.zeros((planner.horizon, 1)), np.full((planner.horizon, 1), half)
    spread *= planner.deviation
    for _ in range(planner.iterations):
        drawn = rng.standard_normal((planner.samples, planner.horizon, 1))
        plans = np.clip(mean + spread * drawn, -half, half)
        plans[: len(policy)] = policy
        costs = world.score(world.rollout(np.zeros((len(plans), 1)), plans))[:, -1]
        best = np.argsort(costs)[: planner.elites]
        shares = np.exp(-(costs[best] - costs[best].min()) / planner.temperature)
        shares /= shares.sum()
        mean = sum(w * p for w, p in zip(shares, plans[best], strict=True))
        square = sum(w * (p - mean) ** 2 for w, p in zip(shares, plans[best], strict=True))
        spread = np.clip(np.sqrt(square), 0.1 * half, planner.deviation * half)
    which = np.searchsorted(np.cumsum(shares), rng.random(), side="right")
    return plans[best][which], mean


def test_tdmpc2s_search_is_what_a_plain_loop_finds():
    planner = tdmpc2(samples=32, elites=6, policy_plans=4, iterations=3, minimum_deviation=0.1)
    world = Knowing(BOX, goal=3.0)
    for seed in range(5):
        found, _ = plan(planner, world, seed)
        chosen, mean = loop(planner, world, seed)
        assert found.actions[0] == pytest.approx(chosen, abs=1e-9)
        assert found.memory[0, :-1] == pytest.approx(mean[1:], abs=1e-9)
        assert found.lengths.tolist() == [1]


@pytest.mark.parametrize("actions", [BOX, SET], ids=["box", "finite"])
def test_a_search_that_cannot_get_there_follows_the_policy_that_can(actions):
    far = {"horizon": 8, "samples": 12, "deviation": 0.05, "objective": "terminal", "elites": 1}
    blind, _ = plan(MPPI(**far), Knowing(actions, goal=16.0))
    led, _ = plan(MPPI(**far, policy_plans=3), Knowing(actions, goal=16.0))
    assert led.actions[0, 0, 0] == pytest.approx(actions.nearest(np.array([2.0]))[0], abs=0.1)
    assert led.actions.sum() > blind.actions.sum()


def test_a_policy_without_noise_is_one_plan_and_a_world_without_policy_the_same_noise():
    world = Knowing(BOX, goal=3.0)
    world.has_noisy_policy = False
    planner = MPPI(policy_plans=5, samples=10, iterations=1)
    _, after = plan(planner, world)
    candidates = world.seen[0]
    oracle = Line(BOX, goal=3.0)
    _, oracle_after = plan(planner, oracle)
    assert (candidates[0] >= 1.9).all()
    assert np.array_equal(candidates[1:], oracle.seen[0][1:])
    assert after == oracle_after


def test_a_raw_temperature_is_in_the_unit_of_costs():
    costs = np.array([[0.0, 1.0, 4.0, np.inf]])
    expected = np.exp(-costs / 2.0)
    raw = path_weights(costs, 2.0, raw=True)
    assert raw == pytest.approx(expected / expected.sum())
    # In deviations, the scale of costs changes nothing.
    assert path_weights(10 * costs, 2.0) == pytest.approx(path_weights(costs, 2.0))
    assert path_weights(10 * costs, 20.0, raw=True) == pytest.approx(raw)


def test_an_elite_is_drawn_as_often_as_it_weighs():
    planner = MPPI(
        samples=2,
        iterations=1,
        horizon=1,
        policy_plans=1,
        temperature=1.0,
        raw_temperature=True,
        draws_elite=True,
        deviation=0.0,
    )
    world = Knowing(BOX, goal=1.6)
    world.has_noisy_policy = False
    # The policy goes to 2, a cost of 0.4; the other plan stays at 0, a cost of 1.6.
    share = np.exp(-0.4) / (np.exp(-0.4) + np.exp(-1.6))
    drawn = [plan(planner, world, seed)[0].actions[0, 0, 0].round(1) for seed in range(400)]
    assert set(drawn) <= {0.0, 1.9, 2.0}
    assert np.mean(np.array(drawn) > 1) == pytest.approx(share, abs=0.09)


def test_a_report_names_settings_beyond_the_usual_ones_only_where_they_are_set():
    assert "elites" not in repr(MPPI())
    assert repr(MPPI(elites=4)).endswith("execute=1, elites=4)")
    assert PLANNERS["tdmpc2"](horizon=5) == tdmpc2(horizon=5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"elites": 51}, "elites must not exceed samples 50, got 51"),
        ({"elites": 0}, "elites must be a whole number of at least 1, got 0"),
        ({"policy_plans": 51}, "policy_plans must not exceed samples 50, got 51"),
        ({"policy_plans": -1}, "policy_plans must be a whole number of at least 0, got -1"),
        ({"minimum_deviation": 0.6}, "minimum_deviation must not exceed deviation 0.5, got 0.6"),
        ({"minimum_deviation": "x"}, "minimum_deviation must be a number of at least 0, got 'x'"),
        ({"raw_temperature": 1}, "raw_temperature must be True or False, got 1"),
        ({"draws_elite": None}, "draws_elite must be True or False, got None"),
    ],
)
def test_settings_that_make_no_sense_say_so(settings, said):
    with pytest.raises(ValueError, match=said):
        MPPI(**settings)

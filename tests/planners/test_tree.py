from itertools import product

import numpy as np
import pytest

from pytest_cpg.contracts import FiniteActions
from pytest_cpg.planners import BeamSearch, Greedy

ACTIONS = FiniteActions(np.array([[-1.0], [0.5], [1.0]]))
EPISODES = 12


class Waves:
    """A point moved by its action over a landscape of many hills, rounded so that plans tie."""

    actions = ACTIONS

    def rollout(self, latents, actions):
        return latents[:, None] + np.cumsum(actions, axis=1)

    def score(self, latents):
        return np.round(np.sin(3 * latents[..., 0]) + 0.1 * np.abs(latents[..., 0]), 1)


LATENTS = np.linspace(-3, 3, EPISODES)[:, None]


def searched(planner, remaining=50):
    remaining = np.full(EPISODES, remaining)
    rngs = [np.random.default_rng(0) for _ in range(EPISODES)]
    return planner.plan(Waves(), LATENTS, rngs, remaining)


def by_brute_force(start, horizon, remaining):
    best, found = np.inf, None
    for plan in product(ACTIONS.values[:, 0], repeat=horizon):
        scores = Waves().score(start + np.cumsum(plan)[:remaining, None])
        if scores.min() < best:
            best, found = scores.min(), (*plan, 1 + int(scores.argmin()))
    return found


@pytest.mark.parametrize("remaining", [2, 50])
def test_a_beam_that_holds_all_plans_finds_what_brute_force_finds(remaining):
    plans = searched(BeamSearch(width=27, horizon=4), remaining)
    for start, actions, length in zip(LATENTS[:, 0], plans.actions, plans.lengths, strict=True):
        assert (*actions[:, 0], length) == by_brute_force(start, 4, remaining)


def test_a_narrow_beam_comes_near_to_all_plans_at_a_part_of_the_cost():
    def score_of(plans):
        moved = LATENTS + np.cumsum(plans.actions[..., 0], axis=1)
        return Waves().score(moved[..., None]).min(axis=1).mean()

    everything, greedy = searched(BeamSearch(width=3**5, horizon=6)), searched(Greedy())
    beam = searched(BeamSearch(width=4, horizon=6))
    assert score_of(everything) <= score_of(beam) < score_of(greedy)

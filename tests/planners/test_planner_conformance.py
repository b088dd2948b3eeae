"""What every planner must do, whoever wrote it."""

import numpy as np
import pytest

from pytest_cpg.contracts import BoxActions, ComponentError, FiniteActions, Planner
from pytest_cpg.planners import PLANNERS, Chance, PolicyGuided

MAKERS = {
    **PLANNERS,
    "chance": Chance,
    "policy-guided": lambda: PolicyGuided(policy=lambda observations: -observations),
}
SPACES = {
    "finite": FiniteActions(np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])),
    "box": BoxActions(np.array([-2.0, 0.0]), np.array([-1.0, 3.0])),
}


class Drift:
    """A world that adds the action; the score is a fixed function of the latent."""

    def __init__(self, actions):
        self.actions = actions

    def rollout(self, latents, actions):
        return latents[:, None] + np.cumsum(actions, axis=1)

    def observe(self, latents):
        return latents

    def score(self, latents):
        return np.sin(latents).sum(axis=-1)


# Searches that one kind of action space has no answer for: they refuse it, and say what has one.
REFUSED = [("beam", "box"), ("exhaustive", "box"), ("gradient", "finite")]
PAIRS = [(name, space) for name in MAKERS for space in SPACES if (name, space) not in REFUSED]


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request):
    return request.param


@pytest.fixture
def planner(pair):
    return MAKERS[pair[0]]()


@pytest.fixture
def world(pair):
    return Drift(SPACES[pair[1]])


def plan(planner, world, episodes, remaining=1000, **memory):
    latents = np.array([[0.1 * e, -0.2 * e] for e in episodes])
    rngs = [np.random.default_rng([5, e]) for e in episodes]
    return planner.plan(world, latents, rngs, np.full(len(episodes), remaining), **memory)


@pytest.mark.parametrize("name", MAKERS)
def test_planner_meets_the_protocol(name):
    assert isinstance(MAKERS[name](), Planner)


@pytest.mark.parametrize(("name", "space"), REFUSED)
def test_a_planner_that_cannot_search_a_space_names_one_that_can(name, space):
    with pytest.raises(ComponentError, match=rf'planner "{name}" .* Write planner="'):
        plan(MAKERS[name](), Drift(SPACES[space]), range(2))


def test_plans_have_their_shapes_and_lie_in_the_action_space(planner, world):
    actions, lengths, *_ = plan(planner, world, range(6))
    assert actions.shape == (6, planner.horizon, 2)
    assert lengths.shape == (6,)
    assert np.issubdtype(lengths.dtype, np.integer)
    if isinstance(world.actions, FiniteActions):
        known = {tuple(value) for value in world.actions.values}
        assert {tuple(a) for a in actions.reshape(-1, 2)} <= known
    else:
        assert (actions >= world.actions.low).all()
        assert (actions <= world.actions.high).all()


@pytest.mark.parametrize("remaining", [1, 3, 1000])
def test_plans_never_outlast_the_budget(planner, world, remaining):
    lengths = plan(planner, world, range(6), remaining).lengths
    assert (lengths >= 1).all()
    assert (lengths <= min(remaining, planner.horizon)).all()


def test_an_episode_gets_the_same_plan_alone_and_in_any_order(planner, world):
    together = plan(planner, world, range(6))
    backwards = plan(planner, world, range(5, -1, -1))
    for episode in range(6):
        alone = plan(planner, world, [episode])
        length = together.lengths[episode]
        assert alone.lengths[0] == backwards.lengths[5 - episode] == length
        assert np.array_equal(alone.actions[0], together.actions[episode])
        assert np.array_equal(backwards.actions[5 - episode], together.actions[episode])


def test_the_stream_moves_by_the_same_amount_whatever_remains(planner, world):
    after = []
    for remaining in (1, 4, 1000):
        rng = np.random.default_rng(9)
        planner.plan(world, np.zeros((1, 2)), [rng], np.array([remaining]))
        after.append(rng.random())
    assert len(set(after)) == 1


def test_plans_do_not_change_when_their_arguments_do(planner, world):
    latents = np.zeros((2, 2))
    rngs = [np.random.default_rng(e) for e in range(2)]
    before = latents.copy()
    actions, *_ = planner.plan(world, latents, rngs, np.array([10, 10]))
    assert np.array_equal(latents, before)
    assert not np.shares_memory(actions, latents)


@pytest.mark.parametrize("remaining", [1, 1000])
def test_what_the_next_plan_begins_from_is_each_episodes_own(planner, world, remaining):
    first = plan(planner, world, range(4), remaining)
    if not getattr(planner, "is_warm_started", False):
        assert first.memory is None
        return
    assert len(first.memory) == 4
    assert np.isfinite(first.memory).all()
    assert not np.shares_memory(first.memory, first.actions)
    before = first.memory.copy()
    second = plan(planner, world, range(4), memory=first.memory)
    assert np.array_equal(first.memory, before)
    assert second.memory.shape == first.memory.shape
    for episode in (3, 0):
        alone = plan(planner, world, [episode], memory=first.memory[[episode]])
        assert np.array_equal(alone.actions[0], second.actions[episode])
        assert np.array_equal(alone.memory[0], second.memory[episode])

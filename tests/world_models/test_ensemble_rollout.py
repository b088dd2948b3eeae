from types import SimpleNamespace

import numpy as np
import pytest

from pytest_cpg.contracts import EnsembleRollout, EnsembleStep, Imagined, WorldModelError
from pytest_cpg.world_models import Ensemble, Transitions
from pytest_cpg.world_models.ensembles.binding import bind_ensemble
from pytest_cpg.world_models.ensembles.rollout import ClipBounds, Stepped, imagine

RNG = np.random.default_rng(0)
OBSERVATIONS, ACTIONS = RNG.standard_normal((5, 2)), RNG.standard_normal((5, 1))
STRENGTHS = np.array([1.0, 2.0, 4.0])[:, None, None]


def each(rows, members=3):
    return np.repeat(rows[None], members, axis=0)


def pushed(observations, actions):
    after = observations + STRENGTHS * actions
    return after, after.sum(axis=-1)


def stepping(step=pushed, members=3, **others):
    return SimpleNamespace(members=members, step=step, **others)


def bound(model, **options):
    return bind_ensemble(model, observations=OBSERVATIONS, actions=ACTIONS, **options)


def always(value):
    return lambda _, observations: np.full((*observations.shape[:2], 1), value)


def test_every_member_goes_its_own_way():
    model = bound(stepping())
    acts = []

    def act(step, observations):
        acts.append(step)
        return 0.1 * observations[..., :1]

    found = model.rollout(each(OBSERVATIONS), act, 4)
    assert acts == [0, 1, 2, 3]
    for member, strength in enumerate((1.0, 2.0, 4.0)):
        current = OBSERVATIONS
        for t in range(4):
            current = current + strength * 0.1 * current[:, :1]
            np.testing.assert_allclose(found.observations[member, :, t], current)
            np.testing.assert_allclose(found.rewards[member, :, t], current.sum(axis=-1))
    assert not found.terminated.any()
    assert isinstance(stepping(), EnsembleStep)


def test_the_step_that_ends_an_episode_is_rewarded_and_none_after_it():
    """As a simulator counts: the oracle is a loop that breaks when it is done."""
    start = np.array([[0.0, 0.0], [1.5, 0.0]])

    def terminated(observations):
        return observations[..., 0] > 3.9

    found = bound(stepping(), terminated=terminated).rollout(each(start), always(1.0), 5)
    for member, strength in enumerate((1.0, 2.0, 4.0)):
        for row, begun in enumerate(start):
            current, rewards = begun, []
            for _ in range(5):
                current = current + strength
                rewards.append(current.sum())
                if current[0] > 3.9:
                    break
            steps = len(rewards)
            np.testing.assert_allclose(found.rewards[member, row, :steps], rewards)
            assert (found.rewards[member, row, steps:] == 0).all()
            assert (found.observations[member, row, steps - 1 :] == current).all()
            is_over = found.terminated[member, row]
            assert list(is_over) == [t >= steps - 1 and current[0] > 3.9 for t in range(5)]


def test_what_a_model_says_of_the_end_is_latched():
    def step(observations, actions):
        after, rewards = pushed(observations, actions)
        # It says so in one step alone.
        return after, rewards, (after[..., 0] > 1.9) & (after[..., 0] < 2.1)

    found = bound(stepping(step)).rollout(each(np.zeros((1, 2))), always(1.0), 4)
    assert found.terminated[:, 0].tolist() == [
        [False, True, True, True],
        [True, True, True, True],
        [False] * 4,
    ]
    assert found.rewards[1, 0].tolist() == [4.0, 0.0, 0.0, 0.0]


def test_bounds_over_what_came_after_a_step_let_an_episode_end():
    alive, fallen = np.array([[1.0, 0.0], [0.8, 0.0]]), np.array([[0.8, 0.0], [0.4, 0.0]])
    transitions = Transitions(
        observations=alive,
        actions=np.zeros((2, 1)),
        next_observations=fallen,
        rewards=np.array([1.0, -2.0]),
        terminations=np.array([False, True]),
    )

    def terminated(observations):
        return observations[..., 0] < 0.7

    bounds = ClipBounds.of(transitions)
    assert (bounds.low.tolist(), bounds.high.tolist()) == ([0.4, 0.0], [1.0, 0.0])
    assert (bounds.lowest_reward, bounds.highest_reward) == (-2.0, 1.0)
    assert bounds.admits(terminated, alive)
    healthy = ClipBounds(low=alive.min(axis=0), high=alive.max(axis=0))
    assert not healthy.admits(terminated, alive)

    def falling(bounds):
        model = stepping(clip_bounds=bounds)
        return bound(model, terminated=terminated).rollout(each(alive), always(-1.0), 3)

    found = falling(bounds)
    assert found.terminated.all()
    assert found.observations[..., 0].min() == 0.4
    assert found.rewards.min() == -2.0
    assert not falling(healthy).terminated.any()


def test_a_model_that_draws_gets_the_same_noise_in_every_rollout():
    def step(observations, actions, noise):
        after, rewards = pushed(observations, actions)
        return after + noise[..., :1], rewards

    model = bound(stepping(step, noise_size=2), seed=7)
    first, second = (model.rollout(each(OBSERVATIONS), always(0.0), 3) for _ in range(2))
    np.testing.assert_array_equal(first.observations, second.observations)
    other = bound(stepping(step, noise_size=2), seed=8)
    drawn = other.rollout(each(OBSERVATIONS), always(0.0), 3)
    assert (first.observations != drawn.observations).all()


def test_dynamics_of_one_row_each_are_members_with_a_reward():
    def dynamics(strength):
        return lambda observations, actions: observations + strength * actions

    def reward(observations, actions, after):
        return after.sum(axis=-1)

    members = [dynamics(strength) for strength in (1.0, 2.0, 4.0)]
    found = bound(Ensemble(members, reward=reward)).rollout(each(OBSERVATIONS), always(0.3), 3)
    expected = bound(stepping()).rollout(each(OBSERVATIONS), always(0.3), 3)
    np.testing.assert_allclose(found.rewards, expected.rewards)
    np.testing.assert_allclose(found.observations, expected.observations)


class WithReward:
    def __call__(self, observations, actions):
        return observations + actions

    def reward(self, observations, actions):
        return observations[..., 0] * actions[..., 0]


def test_members_may_bring_rewards_of_their_own():
    found = bound(Ensemble([WithReward(), WithReward()]))
    rewards = found.rollout(each(OBSERVATIONS, 2), always(2.0), 1).rewards
    np.testing.assert_allclose(rewards[..., 0], each(2 * OBSERVATIONS[:, 0], 2))


def test_torch_steps_are_given_tensors():
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):
        members = 3

        def __init__(self):
            super().__init__()
            self.strengths = torch.nn.Parameter(torch.tensor(STRENGTHS).float())

        def step(self, observations, actions):
            after = observations + self.strengths * actions
            return after, after.sum(dim=-1)

        def forward(self):
            raise AssertionError

    network = Network()
    found = bound(network).rollout(each(OBSERVATIONS), always(0.3), 3)
    expected = bound(stepping()).rollout(each(OBSERVATIONS), always(0.3), 3)
    np.testing.assert_allclose(found.rewards, expected.rewards, rtol=1e-5)
    assert network.training


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_policies_are_asked_in_the_numbers_that_a_model_imagines_in(kind):
    asked = []

    def act(_, observations):
        asked.append(observations.dtype)
        return observations[..., :1]

    def step(observations, actions):
        return tuple(part.astype(kind) for part in pushed(observations, actions))

    found = bound(stepping(step)).rollout(each(OBSERVATIONS), act, 2)
    assert asked == [kind, kind]
    assert found.observations.dtype == kind


def own_rollout(observations, act, horizon):
    rewards, after = [], []
    for t in range(horizon):
        observations, reward = pushed(observations, act(t, observations))
        rewards.append(reward)
        after.append(observations)
    rewards = np.stack(rewards, axis=2)
    return rewards, np.stack(after, axis=2), np.zeros(rewards.shape, dtype=bool)


def test_a_model_may_roll_out_by_itself_and_still_ends_where_it_must():
    def terminated(observations):
        return observations[..., 0] > 3.9

    model = SimpleNamespace(members=3, rollout=own_rollout)
    found = bound(model, terminated=terminated).rollout(each(OBSERVATIONS), always(1.0), 5)
    stepped = bound(stepping(), terminated=terminated)
    for ours, theirs in zip(
        found, stepped.rollout(each(OBSERVATIONS), always(1.0), 5), strict=True
    ):
        np.testing.assert_allclose(ours, theirs)
    assert isinstance(found, Imagined)
    assert isinstance(model, EnsembleRollout)


def short_step(observations, actions):
    return pushed(observations[:, :1], actions[:, :1])


def one_value(observations, actions):
    return observations


def drawing(observations, actions):
    return observations + np.random.default_rng().standard_normal(observations.shape), actions.sum(
        axis=-1
    )


def mixing(observations, actions):
    after, rewards = pushed(observations, actions)
    return after - after.mean(axis=1, keepdims=True), rewards


def dynamics(observations, actions):
    return observations + actions


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "None \\(does the fixture end in a return"),
        (WithReward, "the class"),
        (dynamics, "'dynamics' is one model with neither step nor rollout"),
        ([dynamics, dynamics], "a list with neither.*(?s:.*)Ensemble"),
        (SimpleNamespace(step=pushed), "does not say how many members it has"),
        (stepping(members=1), "has 1 member, and"),
        (stepping(members=[1, 2]), r"members \[1, 2\]; give their number"),
        (Ensemble([WithReward()]), "has 1 member, and"),
        (Ensemble([dynamics, dynamics]), "member 0 of the Ensemble: .* predicts no rewards"),
        (
            Ensemble([dynamics, dynamics], reward=lambda before, taken, after: after),
            r"shape \[5, 2\] came back",
        ),
        (stepping(one_value), r"a ndarray came back; return \(next observations \[3, 5, 2\]"),
        (stepping(short_step), r"next observations of shape \[3, 1, 2\] came back"),
        (stepping(drawing), "different results for identical calls"),
        (stepping(mixing), "another result for a row alone"),
        (stepping(clip_bounds=(0, 1)), r"clip_bounds \(0, 1\); give ClipBounds"),
        (
            stepping(clip_bounds=ClipBounds(low=np.zeros(3), high=np.ones(3))),
            "clips observations of size 3, and was given size 2",
        ),
        (
            SimpleNamespace(members=3, rollout=lambda *_: (1, 2)),
            "a tuple of 2 came back; return Imagined",
        ),
    ],
)
def test_what_is_no_ensemble_is_told_what_it_lacks(model, message):
    with pytest.raises(WorldModelError, match=message):
        bound(model)


@pytest.mark.parametrize("horizon", [1, 3])
def test_a_prediction_that_is_not_finite_is_named(horizon):
    def step(observations, actions):
        after, rewards = pushed(observations, actions)
        after[2, observations[2, :, 0] == OBSERVATIONS[3, 0], 1] = np.nan
        return after, rewards

    with pytest.raises(
        WorldModelError,
        match="member 2 predicted nan as number 1 of the next observation, in row 3 at imagined "
        "step 1",
    ):
        bound(stepping(step)).rollout(each(OBSERVATIONS), always(0.0), horizon)


def test_what_a_model_says_of_an_episode_that_is_over_may_be_anything():
    def step(observations, actions):
        with np.errstate(invalid="ignore"):
            after, rewards = pushed(observations, actions)
        return np.where(observations[..., :1] > 2, np.inf, after), rewards

    found = bound(stepping(step), terminated=lambda o: o[..., 0] > 2).rollout(
        each(np.zeros((1, 2))), always(1.0), 4
    )
    assert np.isfinite(found.observations).all()


def test_arguments_are_not_written_to():
    start = each(OBSERVATIONS)
    kept = start.copy()
    found = imagine(lambda *arrays: Stepped(*pushed(*arrays)), start, always(1.0), 2)
    found.observations[:] = 0
    np.testing.assert_array_equal(start, kept)

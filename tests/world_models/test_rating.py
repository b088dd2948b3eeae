"""Plans rated by rewards and values, planners of a model's own, and the true dynamics rescored."""

import numpy as np
import pytest
from faulty_models import OwnReward, Puck
from runs import run_of
from sliders import Arriving, Forgetful, Remembering, Rewarding, Scoring, Slider, Valuing

from pytest_cpg.contracts import BoxActions, FiniteActions, Plans, WorldModelError
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.planners import CEM, ICEM, MPPI, RandomShooting
from pytest_cpg.world_models import OracleDynamics, Rescored, bind

TASK, PUCK = Slider(), Puck()
STARTS = sample_starts(TASK, 20, seed=1)
PLANS = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=(20, 5, 1))
PROBE = {
    "probe_states": STARTS.states[:8],
    "probe_actions": np.resize(TASK.actions.values, (8, 1)),
}


def bound(learned, task=TASK):
    return bind(learned, task, **PROBE)


def advanced(name, model, episodes=20, **options):
    planner = RandomShooting(candidates=30, horizon=6)
    run = run_of(name, TASK, planner, model, STARTS, seed=1, **options)
    return run.advance(episodes)


class Steering(Scoring):
    """Brings a planner: push towards the goal, and let go at random."""

    def plan(self, latents, rngs, remaining):
        assert len(latents) == len(rngs) == len(remaining) == 1
        kept = rngs[0].random((1, 4, 1)) < 0.8
        return -np.sign(latents[:, None, :1]) * kept, np.minimum(remaining, 2)


def test_a_step_is_worth_its_reward_discounted_from_the_start_of_a_plan():
    model = bound(Rewarding())
    assert model.swapped == ("dynamics", "reward")
    latents = model.encode(STARTS.states)
    scores = model.score(model.rollout(latents, PLANS))
    own = Forgetful().encode(TASK.observe(STARTS.states))
    before = np.concatenate([own[:, None], TASK.rollout(own, PLANS)[:, :-1]], axis=1)
    rewards = Rewarding().reward(before, PLANS)
    np.testing.assert_allclose(scores, -(0.5 ** np.arange(5)) * rewards)


class Paying(OwnReward):
    """The true dynamics, paid by what the task's score says."""

    discount = 1.0

    def reward(self, latents, actions, reached):
        return -PUCK.score(reached)


@pytest.mark.parametrize("planner", [RandomShooting(), CEM(), ICEM(), MPPI()], ids=repr)
def test_the_true_dynamics_rated_by_true_rewards_plan_as_the_oracle_does(planner):
    starts, found = sample_starts(PUCK, 8, seed=1), []
    probe = {"probe_states": starts.states, "probe_actions": np.resize([-1.0, 0.5, 1.0], (8, 2))}
    for name, model in (("oracle", OracleDynamics(PUCK)), ("learned", Paying())):
        run = run_of(name, PUCK, planner, bind(model, PUCK, **probe), starts, seed=1)
        arm = run.advance(8)
        found.append((arm.successes.tolist(), arm.steps.tolist(), arm.returns.tolist()))
    assert found[0] == found[1]
    assert any(found[0][0])


def test_a_value_stands_for_what_comes_after_a_plan():
    model = bound(Valuing())
    assert model.swapped == ("dynamics", "reward", "value")
    imagined = model.rollout(model.encode(STARTS.states), PLANS)
    alone = bound(Rewarding())
    lost = alone.score(alone.rollout(alone.encode(STARTS.states), PLANS))
    expected = np.cumsum(lost, axis=1) + 0.5 ** np.arange(1, 6) * 2 * np.abs(imagined[..., 0])
    np.testing.assert_allclose(model.score(imagined), expected)


def test_a_plan_may_be_imagined_in_pieces():
    model = bound(Valuing())
    latents = model.encode(STARTS.states)
    whole = model.rollout(latents, PLANS)
    piece = model.rollout(latents, PLANS[:, :2])
    rest = model.rollout(piece[:, -1], PLANS[:, 2:])
    np.testing.assert_allclose(np.concatenate([piece, rest], axis=1), whole)


def test_a_reward_may_read_both_ends_of_a_step():
    model = bound(Arriving())
    imagined = model.rollout(model.encode(STARTS.states), PLANS)
    places = np.concatenate([STARTS.states[:, :1], imagined[..., 0]], axis=1)
    np.testing.assert_allclose(model.score(imagined), np.diff(places, axis=1))


def test_a_score_of_its_own_wins_over_rewards():
    class Both(Rewarding):
        def score(self, latents):
            return latents[..., 0]

    assert bound(Both()).swapped == ("dynamics", "score")


def drawing_elsewhere(self, latents, rngs, remaining, noise=np.random.default_rng(3)):  # noqa: B008
    return Steering.plan(self, latents, [noise], remaining)


def altered(base, **members):
    """Return a model of a class with these members in place of its own."""
    return type("Odd", (base,), members)()


@pytest.mark.parametrize(
    ("learned", "message"),
    [
        (
            altered(Forgetful, terminal_value=lambda self, latents: latents[:, 0]),
            r"Add reward\(latents",
        ),
        *(
            (altered(Rewarding, discount=discount), r"discount .*; give a number above 0")
            for discount in (0, 1.5, "high", float("nan"))
        ),
        (
            altered(Forgetful, reward=lambda self, latents, actions: latents),
            r"called as reward\(latents \[..., Z\], actions",
        ),
        (altered(Steering, plan=drawing_elsewhere), "Draw all noise from rngs"),
        *(
            (
                altered(Scoring, plan=lambda *_, answer=answer: answer),
                "Rename it, and the gate's planner plans",
            )
            for answer in (
                None,
                (np.zeros((1, 3)), np.ones(1)),
                (np.zeros((1, 3, 1)), np.array([0.5])),
            )
        ),
    ],
)
def test_what_rates_or_plans_otherwise_than_it_should_is_told_what_to_write(learned, message):
    with pytest.raises(WorldModelError, match=message):
        bound(learned)


@pytest.mark.parametrize("name", ["learned", "oracle", "'new'"])
def test_a_planner_of_its_own_plans_whatever_its_arm_is_called(name):
    model = bound(Steering())
    assert model.swapped == ("dynamics", "score", "planner")
    assert model.rescored.planner is None
    seen = []
    advanced(name, model, on_plan=lambda episodes, plans: seen.append(plans.actions.shape[1]))
    assert set(seen) == {4}


def test_a_planner_of_its_own_plans_an_episode_alone_as_among_others():
    model = bound(Steering())
    together, alone = advanced("learned", model), advanced("learned", model, episodes=1)
    assert together.steps[0] == alone.steps[0]
    assert together.returns[0] == alone.returns[0]


def test_a_planner_of_its_own_may_say_how_sure_it_is():
    class Sure(Steering):
        def plan(self, latents, rngs, remaining):
            actions, lengths = super().plan(latents, rngs, remaining)
            return Plans(actions, lengths, confidences=np.ones(1))

    assert (advanced("learned", bound(Sure())).confidences == 1).all()


@pytest.mark.parametrize(
    "space",
    [
        BoxActions(low=np.array([-0.3]), high=np.array([0.3])),
        FiniteActions(np.array([[-0.3], [0.0], [0.3]])),
    ],
    ids=["box", "finite"],
)
def test_a_planner_of_its_own_may_round_to_float32_and_no_further(space):
    class Narrow(Slider):
        actions = space

    class Rounding(Scoring):
        by = np.float32(0.3)

        def plan(self, latents, rngs, remaining):
            return np.full((1, 3, 1), self.by), np.ones(1)

    latents = bound(Scoring()).encode(STARTS.states)
    arguments = (latents, [np.random.default_rng(0)] * 20, np.full(20, 9))
    model = Rounding()
    planned = bound(model, Narrow()).planner.plan(None, *arguments)
    assert float(Rounding.by) != 0.3
    assert (planned.actions == 0.3).all()
    model.by = 0.301
    own = bound(model, Narrow()).planner
    with pytest.raises(
        WorldModelError, match=r"plan of .* gave the action \[0\.301\], which is out"
    ):
        own.plan(None, *arguments)


def test_rescored_dynamics_are_true_and_rated_by_the_model():
    model = bound(Scoring(goal=3.0)).rescored
    latents = model.encode(STARTS.states)
    imagined = model.rollout(latents, PLANS)
    true = TASK.rollout(STARTS.states, PLANS)
    np.testing.assert_array_equal(imagined[..., :2], true)
    np.testing.assert_array_equal(model.score(imagined), np.abs(true[..., 0] - 3))
    # The memory that was carried along the way knows the speed.
    np.testing.assert_array_equal(imagined[:, 1:, 3], true[:, 1:, 1])


def test_rescored_dynamics_of_a_model_without_memory_encode_each_true_observation():
    rescored = bound(Rewarding()).rescored
    imagined = rescored.rollout(rescored.encode(STARTS.states), PLANS)
    true = TASK.rollout(STARTS.states, PLANS)
    before = np.concatenate([STARTS.states[:, None], true[:, :-1]], axis=1)
    rewards = Rewarding().reward(before, PLANS)
    expected = -(0.5 ** np.arange(5)) * rewards
    np.testing.assert_allclose(rescored.score(imagined), expected)


def test_rescoring_a_model_that_knows_the_goal_solves_what_one_with_another_goal_does_not():
    good, bad = (
        advanced("rescored", bound(Scoring(goal=goal)).rescored).success_count
        for goal in (0.0, 40.0)
    )
    assert good == 20
    assert bad <= 5


def test_rescored_stands_for_the_same_wherever_it_is_bound():
    here, there = bound(Scoring()).rescored, bound(Rescored(Scoring()))
    assert there.swapped == here.swapped == ("score",)
    latents = here.encode(STARTS.states)
    np.testing.assert_array_equal(there.rollout(latents, PLANS), here.rollout(latents, PLANS))
    assert bound(OracleDynamics(TASK)).rescored is None
    with pytest.raises(WorldModelError, match="nothing to rescore"):
        bound(Rescored(lambda observations, actions: observations + actions))


def test_true_dynamics_as_plain_ones_see_them_are_observed_and_rated_by_the_task():
    model = bound(lambda observations, actions: observations + actions)
    assert model.rescored is None
    latents = model.witness.encode(STARTS.states)
    seen = model.witness.rollout(latents, PLANS)
    true = TASK.rollout(STARTS.states, PLANS)
    np.testing.assert_array_equal(seen, np.concatenate([true, TASK.observe(true)], axis=-1))
    np.testing.assert_array_equal(model.witness.score(seen), TASK.score(TASK.observe(true)))


def test_a_true_state_that_diverged_is_never_chosen_and_never_shown_to_the_model():
    class Breaking(Slider):
        def rollout(self, states, actions):
            after = super().rollout(states, actions)
            after[np.abs(after[..., 0]) > 7] = np.nan
            return after

    asked = []

    class Watching(Scoring):
        def score(self, latents):
            asked.append(np.isfinite(latents).all())
            return super().score(latents)

    model = bound(Watching(), Breaking()).rescored
    imagined = model.rollout(model.encode(STARTS.states), PLANS)
    lost = np.isnan(imagined[..., 0])
    assert 0 < lost.sum() < lost.size
    scores = model.score(imagined)
    # What comes back after it diverged has not come back.
    assert np.isinf(scores[np.logical_or.accumulate(lost, axis=1)]).all()
    assert all(asked)


def test_an_encoder_that_breaks_on_true_observations_is_named_with_its_episode():
    class Breaking(Remembering):
        def encode(self, observations):
            far = np.where(np.abs(observations) > 9, np.nan, observations)
            return super().encode(far)

        update = None

    imagination = Imagination("rescored", TASK.actions, bound(Breaking()).rescored)
    imagination.plans_for(np.array([4, 9]), np.array([0, 2]))
    states = np.array([[0.0, 0.0], [9.0, 3.0]])
    with pytest.raises(
        WorldModelError,
        match="rescored arm, episode 9 at step 2: rollout: the model's encode gave nan",
    ):
        imagination.rollout(imagination.encode(states), np.zeros((2, 3, 1)))


def test_a_planner_of_its_own_may_begin_where_its_last_plan_ended():
    kept = []

    class Warm(Steering):
        is_warm_started = True

        def plan(self, latents, rngs, remaining, memory):
            kept.append(memory)
            actions, lengths = super().plan(latents, rngs, remaining)
            return Plans(actions, lengths, memory=actions[:, -1])

    advanced("learned", bound(Warm()), episodes=1)
    assert kept[2] is None
    assert kept[3].shape == (1, 1)

"""Any task of the suite: bit for bit dm_control, whatever an episode changes in its model."""

import importlib
import pickle
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("dm_control")

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.episodes.arm_cache import UnkeyedError, arm_key
from pytest_cpg.episodes.design import Design
from pytest_cpg.planners import Chance
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.control import dmc
from pytest_cpg.world_models import OracleDynamics, bind

EPISODES, STEPS = 2, 25
# Motors whose gears each episode has its own of; sensors of touch, and a target that moves.
NAMES = {"point_mass-hard": ("point_mass", "hard"), "finger-turn_easy": ("finger", "turn_easy")}


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def task(name):
    return dmc(name, threads=1)


@pytest.fixture(scope="module")
def recorded(task, name):
    """Actions, and what dm_control itself observed at the start and after each, and rewarded."""
    random = np.random.RandomState(0)
    suite = importlib.import_module("dm_control.suite")
    environment = suite.load(*NAMES[name], task_kwargs={"random": random})
    rngs = [np.random.default_rng(seed) for seed in range(EPISODES)]
    actions = task.actions.sample(rngs, (STEPS,))
    observations, rewards = [], []
    for seed in range(EPISODES):
        random.seed(seed)
        steps = [environment.reset(), *map(environment.step, actions[seed])]
        observations.append(
            [np.concatenate([*map(np.ravel, s.observation.values())]) for s in steps]
        )
        rewards.append([step.reward for step in steps[1:]])
    return actions, np.array(observations), np.array(rewards)


def test_observations_and_rewards_are_those_of_dm_control_bit_for_bit(task, recorded):
    actions, observations, rewards = recorded
    states = task.reset(np.arange(EPISODES))
    imagined = task.rollout(states, actions)
    np.testing.assert_array_equal(task.observe(imagined), observations[:, 1:])
    np.testing.assert_array_equal(task.reward(imagined, actions), rewards)
    np.testing.assert_array_equal(task.observe(states), observations[:, 0])
    for t in range(STEPS):
        states = task.step(states, actions[:, t])
        np.testing.assert_array_equal(task.observe(states), observations[:, t + 1])
        np.testing.assert_array_equal(task.reward(states, actions[:, t]), rewards[:, t])
        np.testing.assert_array_equal(task.score_states(states), -rewards[:, t])


def test_a_repeated_action_adds_up_the_rewards_of_its_control_steps(task, recorded):
    actions = recorded[0]
    slow, states = replace(task, action_repeat=2), task.reset(np.arange(EPISODES))
    held = actions[:, :1].repeat(2, axis=1)
    rewards = task.reward(task.rollout(states, held), held).sum(axis=1)
    after = slow.step(slow.reset(np.arange(EPISODES)), actions[:, 0])
    np.testing.assert_array_equal(slow.reward(after, actions[:, 0]), rewards)
    np.testing.assert_array_equal(slow.score_states(after), -rewards)
    assert slow.name == f"{task.name} (action_repeat=2)"


def test_it_is_sent_as_what_it_is_built_from(task):
    received = pickle.loads(pickle.dumps(replace(task, budget=9, threshold=0.25)))  # noqa: S301
    assert (received.budget, received.threshold, received.cache_key) == (9, 0.25, task.cache_key)
    states = task.reset(np.arange(2))
    idle = np.repeat(task.actions.idle[None], 2, axis=0)
    np.testing.assert_array_equal(received.step(states, idle), task.step(states, idle))


def test_a_model_must_bring_a_score_and_the_oracle_need_not(task):
    states = task.reset(np.arange(4))
    actions = task.actions.sample([np.random.default_rng(0)], (4,))[0]
    probe = {"probe_states": states, "probe_actions": actions}
    bound = bind(OracleDynamics(task), task, **probe)
    assert np.isfinite(bound.score(task.rollout(states, actions[:, None]))).all()
    with pytest.raises(WorldModelError, match=r"rated by its reward.*or give the model rollout"):
        bind(lambda observations, actions: observations, task, **probe)
    rated = replace(task, score_of=lambda observations: observations[..., 0])
    bind(lambda observations, actions: observations + actions[:, :1], rated, **probe)
    observed = task.observe(states)
    np.testing.assert_array_equal(OracleDynamics(rated).score(states), observed[:, 0])


def test_arms_are_kept_unless_the_score_is_the_users(task):
    design = Design(task=task, planner=Chance(), episodes=1, seed=0)
    assert arm_key("oracle", design, None)
    own = replace(task, score_of=lambda observations: observations[..., 0])
    with pytest.raises(UnkeyedError, match="cache_key"):
        arm_key("oracle", replace(design, task=own), None)


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        ("cheetah-run", {"threshold": 2}, r"threshold=2 is never reached: .* 1 at most.*Give less"),
        ("ball_in_cup-catch", {"threshold": "high"}, r"threshold: need a number.*got 'high'"),
        ("walker-walk", {"threshold": 1.1}, "threshold=1.1 is never reached"),
        ("walker-walk", {"score": 3}, r"score: need a function.*score=lambda.*got 3"),
    ],
)
def test_a_threshold_that_no_reward_reaches_and_a_score_that_is_none_are_refused(
    name, asked, message
):
    with pytest.raises(ValueError, match=message):
        dmc(name, **asked)


@pytest.mark.parametrize("spelled", ["dmc:ball_in_cup-catch", "dmc:ball-in-cup-catch"])
def test_a_name_of_the_suite_may_be_spelled_either_way(spelled):
    factory = named_task(spelled, TASKS)
    assert factory is named_task(spelled, TASKS)
    task = factory(threshold=0.9, budget=3)
    assert task.name == "dmc:ball_in_cup-catch (threshold=0.9)"
    assert task.budget == 3


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dmc:chetah-run", "no DeepMind Control task 'dmc:chetah-run'. Did you mean 'dmc:cheetah"),
        ("dmc:", "no DeepMind Control task 'dmc:'. Known: acrobot-swingup, "),
        ("dcm:cheetah-run", "no task named 'dcm:cheetah-run'. Did you mean"),
    ],
)
def test_an_unknown_name_says_what_to_type(name, message):
    with pytest.raises(ComponentError) as raised:
        named_task(name, TASKS)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "message"), [("lqr-lqr_2_1", "without bounds"), ("quadruped-escape", "on a display")]
)
def test_a_task_that_cannot_be_planned_for_says_why(name, message):
    with pytest.raises(ComponentError, match=message):
        dmc(name)


def test_levels_of_a_task_without_formulas_are_refused_as_a_mistake():
    with pytest.raises(ComponentError, match=r'dmc:walker-walk has "box" only, got \'levels\''):
        dmc("walker-walk", actions="levels")

"""Environments of gymnasium's: put back into any state, and stepped from there as they would."""

import os
import pickle
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from runs import arm_of

from pytest_cpg.contracts import (
    BoxActions,
    ComponentError,
    FiniteActions,
    WorldModelError,
)
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.planners import Chance
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.gymnasium import gym_task
from pytest_cpg.tasks.gymnasium.world import World
from pytest_cpg.world_models import OracleDynamics, bind

# The ant's code reads bodies' positions and contact forces of before its last time step.
NAMES = ("CartPole-v1", "Pendulum-v1", "Ant-v5")
EPISODES, STEPS = 2, 12


@pytest.fixture(scope="module", params=NAMES)
def name(request):
    if request.param == "Ant-v5":
        pytest.importorskip("mujoco")
        pytest.importorskip("imageio")
    return request.param


@pytest.fixture(scope="module")
def task(name):
    return gym_task(name)


@pytest.fixture(scope="module")
def actions(task):
    rngs = [np.random.default_rng(seed) for seed in range(EPISODES)]
    return task.actions.sample(rngs, (STEPS,))


@pytest.fixture(scope="module")
def recorded(name, task, actions):
    """What the environment itself observed and rewarded, until it was over."""
    environment = gymnasium.make(name)
    observations, rewards = [], []
    for seed, plan in enumerate(actions):
        observation, _ = environment.reset(seed=seed)
        observations.append([observation])
        rewards.append([])
        for action in plan:
            discrete = isinstance(task.actions, FiniteActions)
            given = int(action[0]) if discrete else action.astype(np.float32)
            observation, reward, terminated, *_ = environment.step(given)
            assert not terminated
            observations[-1].append(observation)
            rewards[-1].append(reward)
    return np.array(observations, dtype=np.float64), np.array(rewards)


def test_steps_and_rollouts_are_the_environment_bit_for_bit(task, actions, recorded):
    observations, rewards = recorded
    states = task.reset(np.arange(EPISODES))
    imagined = task.rollout(states, actions)
    np.testing.assert_array_equal(task.observe(imagined), observations[:, 1:])
    np.testing.assert_array_equal(task.reward(imagined, actions), rewards)
    np.testing.assert_array_equal(task.observe(states), observations[:, 0])
    for t in range(STEPS):
        states = task.step(states, actions[:, t])
        np.testing.assert_array_equal(task.observe(states), observations[:, t + 1])
        np.testing.assert_array_equal(task.score_states(states), -rewards[:, t])


def test_a_repeated_action_adds_up_rewards(task, actions):
    slow, states = replace(task, action_repeat=2), task.reset(np.arange(EPISODES))
    held = actions[:, :1].repeat(2, axis=1)
    ended = task.rollout(states, held)
    after = slow.step(states, actions[:, 0])
    np.testing.assert_array_equal(slow.observe(after), task.observe(ended[:, -1]))
    np.testing.assert_array_equal(slow.reward(after, held), task.reward(ended, held).sum(axis=1))
    assert slow.control_period == 2 * task.control_period


def test_it_is_sent_as_its_name(task, actions):
    sent = pickle.dumps(replace(task, budget=9))
    assert len(sent) < 3000
    received = pickle.loads(sent)  # noqa: S301
    states = task.reset(np.arange(EPISODES))
    again = received.step(states, actions[:, 0])
    np.testing.assert_array_equal(again, task.step(states, actions[:, 0]))


def test_an_environment_that_is_over_stays_there_without_reward():
    task = gym_task("CartPole-v1", threshold=1.0)
    left = np.zeros((1, 40, 1))
    ended = task.rollout(task.reset(np.array([0])), left)
    rewards = task.reward(ended, left)[0]
    over = int(rewards.sum())
    assert over < 20
    assert rewards.tolist() == [1.0] * over + [0.0] * (40 - over)
    for least in (1.0, 0.0, -1.0):
        found = replace(task, threshold=least).success(ended, left)[0]
        assert found.tolist() == [True] * over + [False] * (40 - over)
    assert len(np.unique(task.observe(ended)[0, over:], axis=0)) == 1


@pytest.mark.parametrize("goal", [{}, {"least_return": 15}])
def test_an_arm_outlasts_an_environment_that_is_over(goal):
    task = gym_task("CartPole-v1", budget=60, **goal)
    starts = sample_starts(task, 6, seed=0)
    probe = {"probe_states": starts.states[:2], "probe_actions": task.actions.values[:2]}
    oracle = bind(OracleDynamics(task), task, **probe)
    arm = arm_of("chance", task, Chance(), oracle, starts, seed=0, metric="return")
    assert arm.returns.max() < 60
    assert arm.successes.tolist() == (arm.returns >= goal.get("least_return", 1e9)).tolist()
    if goal:
        assert 0 < arm.success_count < 6


def test_a_model_must_bring_a_score_and_the_oracle_need_not():
    task = gym_task("Pendulum-v1")
    states = task.reset(np.arange(4))
    actions = task.actions.sample([np.random.default_rng(0)], (4,))[0]
    probe = {"probe_states": states, "probe_actions": actions}
    bind(OracleDynamics(task), task, **probe)
    with pytest.raises(WorldModelError, match="rated by its reward"):
        bind(lambda observations, actions: observations, task, **probe)
    rated = gym_task("Pendulum-v1", score=lambda observations: -observations[..., 0])
    bind(lambda observations, actions: observations + actions, rated, **probe)


def test_names_spaces_and_defaults_follow_the_environment():
    pendulum = named_task("gym:Pendulum-v1", TASKS)(threshold=-0.1)
    assert pendulum.name == "gym:Pendulum-v1 (threshold=-0.1)"
    assert (pendulum.budget, pendulum.control_period) == (200, 0.05)
    assert isinstance(pendulum.actions, BoxActions)
    assert gym_task("CartPole-v1").actions.values.tolist() == [[0], [1]]
    assert "gym CartPole-v1" in gym_task("CartPole-v1").cache_key
    assert gym_task(lambda: gymnasium.make("CartPole-v1")).cache_key is None
    with pytest.raises(ComponentError, match="Did you mean 'gym:CartPole-v1'"):
        named_task("gym:CartPol-v1", TASKS)


@pytest.fixture
def registered():
    """Registers one id anew each time, and forgets it in the end."""

    def register(**options):
        gymnasium.registry.pop("Mine-v0", None)
        options.setdefault("entry_point", gymnasium.spec("CartPole-v1").entry_point)
        gymnasium.register(id="Mine-v0", **options)
        return gym_task("Mine-v0")

    yield register
    gymnasium.registry.pop("Mine-v0", None)


def test_all_that_an_id_stands_for_is_in_the_cache_key(registered):
    settings = [{}, {"sutton_barto_reward": False}, {"sutton_barto_reward": True}]
    tasks = [registered(kwargs=kwargs) for kwargs in settings]
    assert len({task.cache_key for task in tasks}) == 3
    held = np.zeros((1, 1))
    rewards = [task.reward(task.step(task.reset(np.array([0])), held), held)[0] for task in tasks]
    assert rewards == [1.0, 1.0, 0.0]
    wrapper = gymnasium.wrappers.TransformReward.wrapper_spec(func=abs)
    assert registered(additional_wrappers=(wrapper,)).cache_key is None
    wrapper = gymnasium.wrappers.StickyAction.wrapper_spec(repeat_action_probability=0.5)
    assert "StickyAction" in registered(additional_wrappers=(wrapper,)).cache_key


def test_a_setting_that_names_a_file_has_no_cache_key(registered):
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    task = registered(
        entry_point=gymnasium.spec("InvertedPendulum-v5").entry_point,
        kwargs={"xml_file": "inverted_pendulum.xml"},
    )
    assert task.cache_key is None


def test_states_have_the_same_bits_in_every_process():
    program = """
import hashlib
import numpy as np
from pytest_cpg.tasks.gymnasium import gym_task
task = gym_task("CartPole-v1")
states = [task.reset(np.arange(3))]
for action in (0, 1, 1):
    states.append(task.step(states[-1], np.full((3, 1), action)))
print(np.shape(states), hashlib.sha256(np.array(states).tobytes()).hexdigest())
"""
    found = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert found[0] == found[1]


def test_what_was_played_before_has_no_part_in_a_state():
    task = gym_task("CartPole-v1")
    seeds, left = np.array([4]), np.zeros((1, 1))
    first = task.step(task.reset(seeds), left)
    task.rollout(task.reset(np.array([5])), np.ones((1, 3, 1)))
    assert np.array_equal(task.step(task.reset(seeds), left), first)


class Kept(gymnasium.Env):
    """One whose pickle holds all of it."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)
    at = 0.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0.0
        return np.array([self.at]), {}

    def step(self, action):
        self.at += 0.1
        return np.array([self.at]), 0.0, False, False, {}


class Buttons(Kept):
    """One of several choices at once, of which each counts from where its space says."""

    action_space = gymnasium.spaces.MultiDiscrete([3, 2], start=[-1, 0])

    def step(self, action):
        assert action.dtype == np.int64
        self.at += 0.1 * action[0] + 0.01 * action[1]
        return np.array([self.at]), 0.0, False, False, {}


def test_several_choices_at_once_are_a_list_of_their_combinations():
    task = gym_task(Buttons, threshold=1.0)
    expected = [[-1, 0], [-1, 1], [0, 0], [0, 1], [1, 0], [1, 1]]
    np.testing.assert_array_equal(task.actions.values, expected)
    after = task.step(task.reset(np.zeros(6, dtype=int)), task.actions.values)
    seen = task.observe(after)[:, 0]
    np.testing.assert_allclose(seen, [-0.1, -0.09, 0, 0.01, 0.1, 0.11], atol=1e-12)


class Pictured(Kept):
    observation_space = gymnasium.spaces.Box(0, 255, (2, 2, 3), dtype=np.uint8)


class Misnamed(Kept):
    observation_space = gymnasium.spaces.Dict({"eye": gymnasium.spaces.Box(0, 1, (1,))})


class Elsewhere(Kept):
    """One that draws its starts from a generator of the system's."""

    def reset(self, *, seed=None, options=None):
        return np.array([random.SystemRandom().random()]), super().reset(seed=seed)[1]


class Wandering(Kept):
    """One whose rewards are drawn from a generator of the system's."""

    def step(self, action):
        observation, _, *others = super().step(action)
        return (observation, random.SystemRandom().random(), *others)


class Broken(Kept):
    def step(self, action):
        raise RuntimeError("no such joint")


class Unbounded(Kept):
    action_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))


class Short(Kept):
    """One that observes less than its space says, after its first step."""

    def step(self, action):
        return (np.zeros(3), *super().step(action)[1:])


class Undefined(Kept):
    def step(self, action):
        observation, _, *others = super().step(action)
        return (observation, float("nan"), *others)


class Blind(Kept):
    def step(self, action):
        return (np.array([np.nan]), *super().step(action)[1:])


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (Short, r"observes an array of shape \[3\], and its observation_space is Box\(.*\(1,\)"),
        (Undefined, r"gives nan as reward within its first \d+ steps"),
        (Blind, r"gives nan as observation within its first \d+ steps"),
        (Kept(), r"<Kept instance>, an environment itself.*lambda: Kept\(\.\.\.\)"),
        (lambda: None, "returned None, which is no environment.*End it in a return"),
        (3, r"was given 3\. Pass an id, gym_task\('CartPole-v1'\)"),
        (Pictured, r"a flat Box is needed.*FlattenObservation\(Pictured\(\)\)"),
        (lambda: Pictured(), r"FlattenObservation\(make\(\)\)"),
        (
            Misnamed,
            r"observes an array of shape none named 'eye', and its .*correct observation_sp",
        ),
        ("FrozenLake-v1", r"FlattenObservation\(gymnasium.make\('FrozenLake-v1', max_epi"),
        (Unbounded, "a Discrete, a bounded Box, or a MultiDiscrete of at most 1024"),
        (
            Elsewhere,
            r"by a copy of its attributes, reset by the same seed gives another start: "
            r"observation\[0\] is .* instead of .*; by a fork of its process, reset by .*np_random",
        ),
        (
            Wandering,
            r"fork of its process, the same steps differ at step 1: reward is .*np_random",
        ),
        (Broken, r"by a copy of its attributes, RuntimeError: no such joint; by a fork"),
    ],
)
def test_an_environment_that_cannot_be_a_task_says_why(made, message):
    with pytest.raises(ComponentError, match=message):
        gym_task(made)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"budget": 0}, "budget must be at least 1 step, got 0"),
        ({"threshold": "high"}, "threshold: need a number.*got 'high'"),
        ({"score": 3}, "score: need a function.*got 3"),
    ],
)
def test_settings_that_no_task_can_have_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        gym_task("CartPole-v1", **asked)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("LunarLander-v3", r"gymnasium\[box2d\]"),
        ("CartPole-v1", r"pytest-cpg\[gymnasium,control\]"),
    ],
)
def test_a_missing_engine_is_installed_by_the_extra_that_has_it(monkeypatch, name, extra):
    def make(name, **settings):
        raise gymnasium.error.DependencyNotInstalled("it is not installed")

    monkeypatch.setattr(gymnasium, "make", make)
    with pytest.raises(ComponentError, match=rf'it is not .* Type: pip install "{extra}"'):
        World(name)


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
def test_an_id_whose_code_has_moved_names_the_one_to_take():
    pytest.importorskip("mujoco")
    with pytest.raises(ComponentError, match=r"gym:Hopper-v3 .* moved .* Take gym:Hopper-v5"):
        gym_task("Hopper-v3")
    with pytest.raises(ComponentError, match=r"Hoper-v3'. Did you mean 'gym:Hopper-v5'"):
        gym_task("Hoper-v3")


class Drifting(gymnasium.Env):
    """A point on a line, in a dict, that is pushed by what a function of its own says."""

    def __init__(self):
        self.observation_space = gymnasium.spaces.Dict(
            place=gymnasium.spaces.Box(-9, 9, (1,)), speed=gymnasium.spaces.Box(-9, 9, (1,))
        )
        self.action_space = gymnasium.spaces.Discrete(2)
        self.push = lambda action: 0.1 * (action - 0.5) + 0.01 * self.steps

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.place, self.speed = 0, self.np_random.uniform(-1, 1), 0.0
        return self.observed(), {}

    def step(self, action):
        self.steps += 1
        self.speed += self.push(action)
        self.place += self.speed
        return self.observed(), -abs(self.place), False, False, {}

    def observed(self):
        return {"place": np.array([self.place]), "speed": np.array([self.speed])}


def _wrapped():
    """Return it with wrappers whose functions no module has, one of which reads its state."""
    environment = Drifting()
    flat = gymnasium.wrappers.FlattenObservation(environment)
    return gymnasium.wrappers.TransformReward(flat, lambda reward: reward + environment.steps)


def test_functions_that_no_module_has_read_the_environment_that_was_put_back():
    task = gym_task(_wrapped, threshold=1e9, budget=9)
    environment = _wrapped()
    observed, _ = environment.reset(seed=7)
    states = task.reset(np.array([7]))
    assert task.observe(states)[0] == pytest.approx(observed)
    for action in (1, 0, 1, 1, 0):
        observed, reward, *_ = environment.step(action)
        # Another episode between two steps leaves its own state in the environment.
        task.step(task.reset(np.array([8])), np.array([[0.0]]))
        states = task.step(states, np.array([[float(action)]]))
        assert task.observe(states)[0] == pytest.approx(observed)
        assert task.reward(states, np.array([[0.0]]))[0] == pytest.approx(reward)


def test_a_dict_of_observations_is_joined_in_the_order_of_its_space():
    task = gym_task(Drifting)
    environment = Drifting()
    seen, _ = environment.reset(seed=3)
    assert task.observation_keys == {"place": 1, "speed": 1}
    assert task.observe(task.reset(np.array([3])))[0].tolist() == [seen["place"], seen["speed"]]


def test_a_task_of_a_registered_function_needs_no_name_for_it():
    gymnasium.register("cpg-test/Lambda-v0", lambda: gymnasium.make("CartPole-v1").unwrapped)
    try:
        task = gym_task("cpg-test/Lambda-v0", threshold=1.5)
        states = task.reset(np.arange(2))
        assert task.step(states, np.array([[0.0], [1.0]])).shape == states.shape
    finally:
        del gymnasium.registry["cpg-test/Lambda-v0"]

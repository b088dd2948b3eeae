"""Success and goals of environments of gymnasium's: found, named, and told where they are wrong."""

import os
import sys
from types import ModuleType

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium")

from runs import arm_of

from pytest_cpg.contracts import ComponentError, TaskError
from pytest_cpg.episodes.design import sample_starts
from pytest_cpg.planners import CEM
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.gymnasium import gym_task
from pytest_cpg.world_models import OracleDynamics, bind

BOX = gymnasium.spaces.Box


class Told(gymnasium.Env):
    """A point that is to reach a goal which info tells, as OGBench's do."""

    observation_space, action_space = BOX(-9, 9, (2,)), BOX(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        task = (options or {}).get("task_id", 1)
        if task not in (1, 2):
            raise ValueError("task_id must be 1 or 2.")
        self.place = self.np_random.uniform(-1, 1, 2)
        self.goal = self.place + task
        return self.place.copy(), {"goal": self.goal.copy()}

    def step(self, action):
        self.place = self.place + 0.5 * np.asarray(action, float)
        away = float(np.linalg.norm(self.place - self.goal))
        return (
            self.place.copy(),
            0.0,
            away < 0.2,
            False,
            {"success": float(away < 0.3), "away": 1.0},
        )


class Ending(Told):
    """One that ends where it succeeds, and says so nowhere else."""

    def step(self, action):
        return (*super().step(action)[:4], {"success": float("nan")})


class Goals(Told):
    """One whose observations are a dict with its goal, as in gymnasium-robotics."""

    observation_space = gymnasium.spaces.Dict(
        achieved_goal=BOX(-9, 9, (2,)), desired_goal=BOX(-9, 9, (2,)), observation=BOX(-9, 9, (1,))
    )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.seen(), {}

    def step(self, action):
        return (self.seen(), *super().step(action)[1:4], {"is_success": False})

    def seen(self):
        return {"achieved_goal": self.place, "desired_goal": self.goal, "observation": np.zeros(1)}


class Anew(Told):
    """One whose action space is made anew, and unseeded, whenever it is asked for, as OGBench's."""

    @property
    def action_space(self):
        return BOX(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        place, _ = super().reset(seed=seed)
        self.goal = place + self.action_space.sample()
        return place, {"goal": self.goal.copy()}


class Nowhere(Told):
    """One that tells of no goal."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0], {"goal": None}


def test_goals_repeat_where_spaces_that_nobody_seeds_draw_them():
    task = gym_task(Anew)
    states = task.reset(np.arange(3))
    assert task.observe(states).shape == (3, 4)
    assert np.array_equal(task.observe(gym_task(Anew).reset(np.arange(3))), task.observe(states))
    # A user's own spaces draw as ever.
    assert BOX(-1, 1, (2,)).sample().tolist() != BOX(-1, 1, (2,)).sample().tolist()


def test_a_goal_that_is_none_is_no_goal():
    assert gym_task(Nowhere).observation_size == 2


class Changing(Told):
    """One whose goals are of another shape in another episode."""

    def reset(self, *, seed=None, options=None):
        seen, _ = super().reset(seed=seed)
        return seen, {"goal": np.zeros(2 + (seed or 0) % 2)}


def ahead(task, plan=((1.0, 1.0),) * 2):
    states = task.reset(np.arange(1))
    for action in plan:
        states = task.step(states, np.array([action]))
    return states


def test_a_goal_that_info_tells_is_part_of_what_is_observed_and_rates_states():
    task = gym_task(Told)
    states = task.reset(np.arange(3))
    assert task.observation_keys == {"observation": 2, "goal": 2}
    seen = task.observe(states)
    np.testing.assert_allclose(seen[:, 2:], seen[:, :2] + 1)
    np.testing.assert_allclose(task.score_states(states), np.sqrt(2))
    np.testing.assert_allclose(task.score(seen), np.sqrt(2))
    np.testing.assert_array_equal(task.observe(ahead(task))[0, 2:], seen[0, 2:])


def test_desired_goals_are_held_against_achieved_ones():
    task = gym_task(Goals)
    assert task.observation_keys == {"achieved_goal": 2, "desired_goal": 2, "observation": 1}
    np.testing.assert_allclose(task.score_states(task.reset(np.arange(2))), np.sqrt(2))


@pytest.mark.parametrize(
    ("make", "success", "is_told"),
    [
        (Told, None, True),
        (Told, "terminated", True),
        (Told, "away", True),
        (Told, lambda seen: np.linalg.norm(seen[..., :2] - seen[..., 2:], axis=-1) < 0.3, True),
        (Goals, None, True),
        (Ending, None, False),
        (Ending, "terminated", True),
    ],
)
def test_success_is_what_the_environment_tells_or_what_is_asked_for(make, success, is_told):
    task = gym_task(make, success=success)
    assert task.tells_success is is_told
    states, idle = ahead(task), np.zeros((1, 2))
    is_reached = is_told and make is not Goals
    assert task.success(states, idle).tolist() == [is_reached]
    assert task.success(ahead(task, ((0.0, 0.0),)), idle).tolist() == [success == "away"]


def test_an_oracle_plans_to_the_goal():
    assert oracle_arm(gym_task(Told, budget=10)).success_count == 4


class Named(Told):
    """One that tells of its steps by what is no success."""

    def step(self, action):
        return (*super().step(action)[:4], {"name": "near", "pair": [1, 0]})


class Shaken(Told):
    """One that draws from the system where it is near its goal, which only a planner sees."""

    def step(self, action):
        seen, *rest = super().step(action)
        if np.linalg.norm(self.place - self.goal) < 0.25:
            seen[0] += 1e-9 * os.urandom(1)[0]
        return (seen, *rest)


def oracle_arm(task, episodes=4):
    starts = sample_starts(task, episodes, seed=0)
    probe = {"probe_states": starts.states, "probe_actions": np.zeros((episodes, 2))}
    oracle = bind(OracleDynamics(task), task, **probe)
    return arm_of("oracle", task, CEM(samples=24, horizon=5), oracle, starts, seed=0)


def test_what_cannot_be_repeated_only_near_the_goal_is_told_with_its_step():
    task = gym_task(Shaken, budget=10, success="terminated")
    with pytest.raises(TaskError, match=r"lead elsewhere at step \d+ of episode \d, so that"):
        oracle_arm(task)


def test_a_success_that_is_drawn_is_told_from_an_environment_that_is():
    rng = np.random.default_rng(0)
    task = gym_task(Told, budget=10, success=lambda seen: rng.random(seen.shape[:-1]) < 0.2)
    with pytest.raises(TaskError, match=r"its success another at step .* Let success= draw no"):
        oracle_arm(task)


def test_nan_of_a_score_of_the_users_is_told_as_the_scores():
    def score(observations):
        return np.where(observations[..., 0] > 0, np.nan, 1.0)

    task = gym_task(Told, budget=10, score=score)
    with pytest.raises(TaskError, match=r"its score= gives nan for an observation of numbers, \["):
        oracle_arm(task)


def test_options_are_what_every_start_is_reset_with():
    task = gym_task(Told, options={"task_id": 2})
    assert task.name.endswith(",task_id=2")
    np.testing.assert_allclose(task.score_states(task.reset(np.arange(2))), np.sqrt(8))
    drawn = gym_task(Told, options=lambda seed: {"task_id": 1 + seed % 2})
    np.testing.assert_allclose(drawn.score_states(drawn.reset(np.arange(2))), np.sqrt([2, 8]))


@pytest.fixture
def field(monkeypatch):
    """A module that registers an environment once it is imported."""
    module = ModuleType("field")
    monkeypatch.setitem(sys.modules, "field", module)
    gymnasium.register(id="Told-v0", entry_point=lambda: Told(), max_episode_steps=30)
    yield "gym:field:Told-v0"
    gymnasium.registry.pop("Told-v0")


def test_a_name_says_module_success_and_options(field):
    task = named_task(f"{field},success=terminated,task_id=2", TASKS)()
    assert (task.name, task.budget) == (f"{field},success=terminated,task_id=2", 30)
    np.testing.assert_allclose(task.score_states(task.reset(np.arange(1))), np.sqrt(8))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gym:nowhere_at_all:Told-v0", "registered by the module 'nowhere_at_all', .*pip install"),
        ("gym:field:Tolld-v0", "Did you mean 'gym:field:Told-v0'"),
        ("gym:field:Told-v0,task_id", "need name=value after a comma, .* got 'task_id'"),
    ],
)
def test_a_name_that_means_nothing_says_what_to_write(field, name, message):
    with pytest.raises(ComponentError, match=message):
        named_task(name, TASKS)


@pytest.mark.parametrize(
    ("make", "asked", "message"),
    [
        (Named, {"success": "name"}, "has 'name' in its info, which success= names, as 'near'"),
        (Named, {"success": "pair"}, r"which success= names, as \[1, 0\]\. Name one that is true"),
        (Told, {"success": "sucess"}, "has no 'sucess' in its info.*That has 'success', 'away'"),
        (
            Told,
            {"options": {"task_id": 3}},
            r"ValueError: task_id must be 1 or 2\. Correct options",
        ),
        (Changing, {}, "a goal of 3 numbers in this episode, and of 2 in its first"),
    ],
)
def test_what_an_environment_does_not_know_says_what_to_write(make, asked, message):
    with pytest.raises(ComponentError, match=message):
        gym_task(make, **asked)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"success": 3}, 'success: need "terminated", a key of info, or a function.* got 3'),
        ({"options": 3}, "options: need what reset.* got 3"),
    ],
)
def test_values_of_another_kind_are_refused(asked, message):
    with pytest.raises(ValueError, match=message):
        gym_task(Told, **asked)


def test_options_that_no_text_stands_for_have_no_cache_key():
    def task(options):
        return gym_task("Pendulum-v1", name="p", options=options, threshold=0.0)

    plain = [task(options).cache_key for options in (None, {"x_init": 1.0}, {"x_init": 2.0})]
    assert None not in plain
    assert len(set(plain)) == 3
    assert task(lambda seed: {"x_init": 1.0}).cache_key is None
    assert task({"x_init": np.float64(1)}).cache_key is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (lambda seed: 1 / seed and {}, "the function options= raises ZeroDivisionError"),
        (lambda seed: 5, "cannot be reset with options=5: .* Correct options="),
    ],
)
def test_a_function_of_options_that_breaks_is_told(options, message):
    with pytest.raises(ComponentError, match=message):
        gym_task(Told, options=options)

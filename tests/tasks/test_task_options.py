"""What a marker says of its task: budget, actions, goal."""

import math
import pickle
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from usual_settings import usual_settings

from pytest_cpg.contracts import BoxActions, ComponentError, FiniteActions
from pytest_cpg.gates import GATES
from pytest_cpg.gates.kind import Components
from pytest_cpg.planners import PLANNERS
from pytest_cpg.plugin.marker import gate_of
from pytest_cpg.tasks import TASKS


@dataclass(frozen=True, kw_only=True)
class Own:
    """A task of a user, with a budget, repeats and actions that can be replaced."""

    budget: int = 30
    action_repeat: int = 1
    actions: object = FiniteActions(np.array([[-1.0], [1.0]]))
    name = "own"
    observation_size, control_period = 1, 0.1
    versions: object = None

    def reset(self, seeds): ...
    def step(self, states, actions): ...
    def rollout(self, states, actions): ...
    def observe(self, states): ...
    def score(self, observations): ...
    def reward(self, states, actions): ...
    def success(self, states, actions): ...


@dataclass(frozen=True, kw_only=True)
class Wordy(Own):
    """One that knows a word for its actions."""

    def __post_init__(self):
        if self.actions == "box":
            object.__setattr__(self, "actions", BoxActions([-1.0], [1.0]))


def spec_of(**marked):
    components = Components(tasks=TASKS, planners=PLANNERS, world_models={})
    marker = SimpleNamespace(args=(), kwargs=marked)
    return gate_of([marker], GATES["cpg"], usual_settings(), components, nodeid="gate").spec


def made(**marked):
    spec = spec_of(**marked)
    return spec.task.make(**dict(spec.task.options))


def test_a_task_of_a_user_is_made_with_the_fields_of_the_marker():
    task = made(task=Own(), budget=9)
    assert task.budget == 9
    assert isinstance(made(task=Wordy(), actions="box").actions, BoxActions)


def test_what_a_marker_leaves_open_stays_as_the_task_has_it():
    own = Own()
    assert made(task=own) is own
    assert spec_of(task=own).task.options == ()


@pytest.mark.parametrize(("option", "marked"), [("actions", "box"), ("goal", 0.5)])
def test_a_task_of_a_user_that_cannot_do_it_says_where_it_is_set(option, marked):
    field = {"goal": "threshold"}.get(option, option)
    with pytest.raises(ValueError, match=rf"{field}: set it on the task itself"):
        made(task=Own(), **{option: marked})


def test_the_options_of_a_named_task_are_checked_before_it_is_built():
    spec = spec_of(task="cheetah-run", actions="box", goal=0.2, budget=7)
    assert dict(spec.task.options) == {
        "budget": 7,
        "actions": "box",
        "threshold": 0.2,
    }
    with pytest.raises(ValueError, match="task 'two-room' does not know it"):
        spec_of(task="two-room", goal=0.2)


def test_an_environment_without_a_goal_asks_for_one():
    pytest.importorskip("gymnasium")
    with pytest.raises(ValueError, match='Write metric="return", goal=1 with the reward'):
        spec_of(task="gym:CartPole-v1")
    assert spec_of(task="gym:CartPole-v1", metric="return").task.options == ()
    for goal in (2, "return>=50"):
        assert spec_of(task="gym:CartPole-v1", goal=goal).task.name == "gym:CartPole-v1"
    with pytest.raises(ValueError, match="Leave one of them out"):
        spec_of(task="gym:CartPole-v1", goal="return >= 50", metric="return")


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("cheetah-run", "dm_control"),
        ("dmc:walker-walk", "dm_control"),
        ("dmc:cheetah-run", "dm_control"),
        ("gym:CartPole-v1", "gymnasium"),
    ],
)
def test_a_return_can_be_the_goal_of_a_task(name, package):
    pytest.importorskip(package)
    task = made(task=name, goal="return >= 12.5", budget=20)
    assert task.least_return == 12.5
    assert task.name == f"{name} (least_return=12.5)"
    sent = pickle.loads(pickle.dumps(task))  # noqa: S301  # written here
    assert sent.least_return == 12.5
    for goal in ("much", "0.6", "return>=much", "reward>=1", True, math.nan):
        with pytest.raises(ValueError, match=r"goal: need the reward .* or the return of an"):
            spec_of(task=name, goal=goal)


def test_a_number_reaches_the_task_and_the_planner():
    spec = spec_of(task="cheetah-run", goal=0.5, budget=7, horizon=4)
    assert dict(spec.task.options) == {"threshold": 0.5, "budget": 7}
    assert spec.design(None).planner.horizon == 4


def test_a_task_without_its_prefix_is_found_in_its_family():
    pytest.importorskip("gymnasium")
    with pytest.raises(ComponentError, match=r"no task named 'CartPole-v1'\. Did you mean 'gym:C"):
        spec_of(task="CartPole-v1")
    with pytest.raises(ComponentError, match=r"no task named 'two-rom'\. Did you mean 'two-room'"):
        spec_of(task="two-rom")


def test_a_task_of_the_suite_without_its_prefix_is_found_there():
    pytest.importorskip("dm_control")
    with pytest.raises(ComponentError, match="Did you mean 'dmc:walker-walk'"):
        spec_of(task="walker-walk")


def test_a_planner_that_takes_a_policy_says_how_to_give_it():
    with pytest.raises(ValueError, match=r"Write planner=PolicyGuided\(policy=...\), from"):
        spec_of(task="maze", planner="policy-guided")


def test_what_makes_tasks_is_imported_without_a_simulator(tmp_path):
    script = (
        "import sys; from pytest_cpg.tasks.control import dmc; "
        "from pytest_cpg.tasks.gymnasium import gym_task; "
        "sys.exit(', '.join({'dm_control', 'mujoco', 'gymnasium'} & {*sys.modules}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert result.stderr.strip() == ""

"""Control tasks: bit for bit the DeepMind Control suite."""

import importlib
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dm_control")

import pytest_cpg
from pytest_cpg.contracts import BoxActions, ComponentError
from pytest_cpg.tasks.control import suite
from pytest_cpg.tasks.control import task as task_module
from pytest_cpg.tasks.control.task import control_task

# Of each the threshold, actuators, actions in all, and seconds of a step.
TASKS = {
    "acrobot-swingup": (0.6, 1, 5, 0.01),
    "cartpole-swingup": (0.6, 1, 5, 0.01),
    "reacher-easy": (0.5, 2, 9, 0.02),
    "pendulum-swingup": (0.6, 1, 5, 0.02),
    "ball-in-cup-catch": (0.6, 2, 9, 0.02),
    "cheetah-run": (0.6, 6, None, 0.01),
}
IN_SUITE = {
    name: (name.rpartition("-")[0].replace("-", "_"), name.rpartition("-")[2]) for name in TASKS
}
TOUCHABLE = {"ball-in-cup-catch", "cheetah-run"}
EPISODES, STEPS = 12, 300


@pytest.fixture(scope="module", params=TASKS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def task(name):
    return control_task(name, threads=2)


@pytest.fixture(scope="module")
def physics(task):
    """Columns of a state that are physics: time, positions, velocities."""
    return slice(0, 1 + task.world.simulator.model.nq + task.world.simulator.model.nv)


class Recording:
    """What dm_control itself did: starts, then states, observations and rewards of each step."""

    def __init__(self, name):
        # Imported here, after a task was made: on its own it would look for a display.
        dm_suite = importlib.import_module("dm_control.suite")
        random = np.random.RandomState(0)
        environment = dm_suite.load(*IN_SUITE[name], task_kwargs={"random": random})
        physics = environment.physics
        size = environment.action_spec().shape[0]
        rng = np.random.default_rng(0)
        self.actions = rng.uniform(-1.5, 1.5, (EPISODES, STEPS, size))
        levels = np.array([-1, -0.5, 0, 0.5, 1])
        self.actions[::2] = rng.choice(levels, (EPISODES // 2, STEPS, size))
        self.states, self.observations, self.rewards, self.speeds = [], [], [], []
        for seed, plan in enumerate(self.actions):
            random.seed(seed)
            steps = [environment.reset()]
            states, speeds = [self._state(physics)], [physics.data.sensordata[:1].copy()]
            for action in plan:
                steps.append(environment.step(action))
                states.append(self._state(physics))
                speeds.append(physics.data.sensordata[:1].copy())
            self.states.append(states)
            self.observations.append(
                [np.concatenate([np.ravel(v) for v in s.observation.values()]) for s in steps]
            )
            self.rewards.append([step.reward for step in steps[1:]])
            self.speeds.append(speeds)
        self.states = np.array(self.states)
        self.observations = np.array(self.observations)
        self.rewards = np.array(self.rewards)
        # Of the cheetah, whose only sensor is that of its speed.
        self.speeds = np.array(self.speeds)[..., 0] if name == "cheetah-run" else None

    @staticmethod
    def _state(physics):
        data, own = physics.data, [[physics.data.time], physics.data.qpos, physics.data.qvel]
        if "target" in physics.named.model.geom_pos.axes.row.names:
            own += [data.qacc_warmstart, physics.named.model.geom_pos["target", :2]]
        else:
            own += [data.qacc_warmstart]
        return np.concatenate(own)


@pytest.fixture(scope="module")
def recorded(task, name):
    return Recording(name)


def test_repeated_steps_are_the_environment_bit_for_bit(task, recorded):
    states = task.reset(np.arange(EPISODES))
    np.testing.assert_array_equal(states, recorded.states[:, 0])
    for t in range(STEPS):
        states = task.step(states, recorded.actions[:, t])
        np.testing.assert_array_equal(states, recorded.states[:, t + 1])


def test_a_rollout_is_the_environment_bit_for_bit(task, physics, recorded):
    ahead = task.rollout(recorded.states[:, 0], recorded.actions)
    np.testing.assert_array_equal(ahead[..., physics], recorded.states[:, 1:, physics])


def test_a_rollout_from_the_middle_keeps_the_solvers_warm_start(task, physics, recorded):
    ahead = task.rollout(recorded.states[:, 200], recorded.actions[:, 200:250])
    np.testing.assert_array_equal(ahead[..., physics], recorded.states[:, 201:251, physics])


def test_observations_are_those_of_dm_control(task, recorded):
    observed = task.observe(recorded.states)
    assert observed.shape[-1] == task.observation_size
    np.testing.assert_allclose(observed, recorded.observations, rtol=1e-12, atol=1e-12)


def test_rewards_are_those_of_dm_control(task, recorded):
    rewards = task.reward(recorded.states[:, 1:], recorded.actions)
    np.testing.assert_allclose(rewards, recorded.rewards, rtol=0, atol=1e-12)


def test_success_is_the_reward_that_the_task_asks_for(task, name, recorded):
    success = task.success(recorded.states[:, 1:], recorded.actions)
    np.testing.assert_array_equal(success, recorded.rewards >= TASKS[name][0])


def test_scores_follow_their_definition(task, name, recorded):
    def state(column):
        return recorded.states[..., column]

    expected = {
        "acrobot-swingup": lambda: -(np.cos(state(1)) + np.cos(state(1) + state(2))),
        "cartpole-swingup": lambda: -np.cos(state(2)),
        "reacher-easy": lambda: np.linalg.norm(recorded.observations[..., 2:4], axis=-1),
        "pendulum-swingup": lambda: -np.cos(state(1)),
        # Cup and ball have origins 0.4 m apart, and the cup's middle is 0.05 m below its own.
        "ball-in-cup-catch": lambda: np.hypot(state(3) - state(1), state(4) - state(2) - 0.35),
        # It falls by as much as dm_control's sensor says that the cheetah is faster.
        "cheetah-run": lambda: -recorded.speeds,
    }[name]()
    scores = task.score(recorded.observations)
    np.testing.assert_allclose(scores, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", [0, 7, 2**32 - 1])
def test_a_start_is_that_of_a_fresh_environment(task, name, seed):
    dm_suite = importlib.import_module("dm_control.suite")
    environment = dm_suite.load(*IN_SUITE[name], task_kwargs={"random": seed})
    environment.reset()
    task.reset(np.array([1, 2]))
    fresh = Recording._state(environment.physics)
    np.testing.assert_array_equal(task.reset(np.array([seed])), fresh[None])


def test_bits_do_not_depend_on_the_threads(task, name, recorded):
    states, actions = recorded.states[:, 100], recorded.actions[:, 100:110]
    single = control_task(name, threads=1)
    assert task.rollout(states, actions).tobytes() == single.rollout(states, actions).tobytes()


def test_the_simulated_model_is_stripped_where_nothing_can_touch(task, name):
    assert task.world.suite.model.ngeom > 0
    assert task.world.simulator.model.ngeom == (
        task.world.suite.model.ngeom if name in TOUCHABLE else 0
    )


def test_actions_periods_and_versions_are_stated(task, name):
    _, size, count, period = TASKS[name]
    if count is None:
        assert task.actions.low.tolist() == [-1] * size
        assert task.actions.high.tolist() == [1] * size
    else:
        assert task.actions.values.shape == (count, size)
        assert abs(task.actions.values).max() == 1
    assert task.control_period == period
    assert task.budget == 500
    assert set(task.versions) == {"mujoco", "dm-control"}


def test_a_budget_is_replaced_without_compiling_again(task):
    shorter = replace(task, budget=9)
    assert shorter.budget == 9
    assert shorter.world.simulator is task.world.simulator


def test_a_task_is_sent_as_what_it_is_built_from(task):
    sent = pickle.dumps(replace(task, name="mine", budget=9))
    assert len(sent) < 2000
    received = pickle.loads(sent)  # noqa: S301
    assert (received.name, received.budget) == ("mine", 9)
    assert pickle.loads(sent).world.simulator is received.world.simulator  # noqa: S301
    states = task.reset(np.arange(3))
    actions = np.repeat(task.actions.idle[None], 3, axis=0)
    assert np.array_equal(received.step(states, actions), task.step(states, actions))


def test_a_task_with_formulas_of_its_own_is_not_sent(task):
    own = replace(
        task, world=replace(task.world, formulas=replace(task.world.formulas, threshold=0.1))
    )
    with pytest.raises(TypeError, match="formulas of its own"):
        pickle.dumps(own)


def test_a_task_of_other_versions_is_refused_where_it_is_received(task):
    sent = pickle.dumps(replace(task, versions={"mujoco": "3.0.0", "dm-control": "1.0"}))
    with pytest.raises(ComponentError, match=r"there mujoco 3\.0\.0 .* Install the same"):
        pickle.loads(sent)  # noqa: S301


def test_a_task_is_simulated_on_the_share_of_this_process(monkeypatch):
    monkeypatch.setattr(task_module, "own_share", lambda: 5)
    assert control_task("acrobot-swingup").world.simulator.threads == 5


@pytest.mark.parametrize("package", ["dm_control", "mujoco"])
def test_a_missing_package_names_the_extra(monkeypatch, package):
    def missing(name):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(suite.importlib, "import_module", missing)
    with pytest.raises(ComponentError, match=rf'{package}.*pip install "pytest-cpg\[control\]"'):
        control_task("acrobot-swingup")


@pytest.mark.parametrize(
    "error",
    [
        AttributeError("module 'mujoco' has no attribute\n 'mjtGone'"),
        ImportError("cannot import name 'gone'"),
        ModuleNotFoundError("No module named 'mujoco.gone'", name="mujoco.gone"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_packages_that_do_not_fit_are_named_in_one_line(monkeypatch, error):
    def fail(*_, **__):
        raise error

    versions = {"mujoco": "4.0.0", "dm-control": "1.0.50"}
    monkeypatch.setattr(suite, "version", versions.__getitem__)
    monkeypatch.setattr("dm_control.suite.load", fail)
    with pytest.raises(ComponentError) as raised:
        control_task("reacher-easy")
    message = str(raised.value)
    assert "\n" not in message
    assert "dm-control 1.0.50 does not work with mujoco 4.0.0" in message
    assert 'pip install "dm-control>=1.0.50,<1.1" "mujoco>=3.17,<4"' in message


def test_an_opengl_that_is_not_there_is_told_by_its_variable(tmp_path):
    script = """
        from pytest_cpg.contracts import ComponentError
        from pytest_cpg.tasks import TASKS

        for _ in range(2):
            try:
                TASKS["acrobot-swingup"]()
            except ComponentError as error:
                print(error)
    """
    told = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        timeout=60,
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "MUJOCO_GL": "nonsense"},
    ).stdout
    first, again = told.splitlines()
    assert first == again
    assert first.startswith("mujoco cannot be imported with MUJOCO_GL=nonsense (RuntimeError: ")
    assert "Type: unset MUJOCO_GL." in first
    assert "pip install" not in first


def test_nothing_looks_for_a_display_until_something_is_rendered(tmp_path):
    script = """
        import os, sys

        os.environ.pop("MUJOCO_GL", None)
        before = dict(os.environ)
        from pytest_cpg.tasks import TASKS
        assert not {"mujoco", "dm_control", "torch"} & set(sys.modules)
        task = TASKS["acrobot-swingup"]()
        task.step(task.reset([0]), task.actions.values[:1])
        assert not any(module.startswith("OpenGL") for module in sys.modules)
        assert dict(os.environ) == before
        # Somebody else's rendering finds the backend that it would have found alone.
        import dm_control._render as rendering
        os.environ["MUJOCO_GL"] = "off"
        try:
            rendering.Renderer(64, 64)
        except RuntimeError as error:
            assert "No OpenGL rendering backend" in str(error)
        else:
            sys.exit("the backend was not looked for")
    """
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
    result = subprocess.run(
        command, timeout=60, cwd=tmp_path, check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_the_key_of_an_arm_follows_the_physics_and_not_the_threads():
    first, again = (control_task("acrobot-swingup", threads=threads) for threads in (1, 2))
    assert first.cache_key == again.cache_key
    again.world.simulator.model.opt.timestep *= 2
    assert first.cache_key != again.cache_key
    assert (
        replace(first, world=replace(first.world, formulas=replace(first.world.formulas))).cache_key
        is None
    )


@pytest.mark.parametrize("scales", [{"mass": 1.2}, {"friction": 3.0}, {"gravity": 0.9}])
def test_other_physics_move_otherwise_from_the_same_starts(scales):
    task = control_task("acrobot-swingup", threads=1)
    other, seeds = task.with_physics(**scales), np.arange(3)
    starts, pushes = task.reset(seeds), np.ones((3, 1))
    assert np.array_equal(other.reset(seeds), starts)
    moved = task.step(starts, pushes)
    # Both positions and velocities of every row, and none of the task's own.
    assert (other.step(starts, pushes) != moved)[:, task.measured].all()
    assert np.array_equal(task.step(starts, pushes), moved)


def test_what_is_heavier_falls_as_fast_and_is_harder_to_push():
    task = control_task("cartpole-swingup", threads=1)
    heavy = task.with_physics(mass=2.0)
    starts, push = task.reset(np.arange(1)), np.ones((1, 1))
    velocity = task.measured[2]
    gained = [world.step(starts, push)[0, velocity] for world in (task, heavy)]
    assert 0 < gained[1] < gained[0]


def test_unscaled_physics_are_those_of_the_task_in_every_substep(task):
    starts = task.reset(np.arange(2))
    pushes = np.ones((2, task.actions.size))
    moved = task.step(starts, pushes)
    assert np.array_equal(task.with_physics(mass=1.0).step(starts, pushes), moved)
    heavier = task.with_physics(mass=1.5).step(starts, pushes)
    assert not np.array_equal(heavier, moved)
    # The same time has passed.
    assert np.array_equal(heavier[:, 0], moved[:, 0])


def test_only_positions_and_velocities_are_measured(task, physics):
    assert task.measured.tolist() == list(range(1, physics.stop))
    assert task.reset(np.arange(1)).shape[1] > physics.stop


def test_a_repeated_action_is_so_many_control_steps(task, name, physics, recorded):
    slow = replace(task, action_repeat=3, budget=40, actions="box")
    plans = recorded.actions[:, 0:60:3]
    inner, states = recorded.states[:, 0], slow.reset(np.arange(EPISODES))
    ahead = slow.rollout(states, plans)
    for t, actions in enumerate(np.moveaxis(plans, 1, 0)):
        states, rewards, successes = slow.step(states, actions), [], []
        for _ in range(3):
            inner = task.step(inner, actions)
            rewards.append(task.reward(inner, actions))
            successes.append(task.success(inner, actions))
        np.testing.assert_array_equal(states[:, : inner.shape[1]], inner)
        np.testing.assert_array_equal(slow.observe(states), task.observe(inner))
        for reached in (states, ahead[:, t]):
            np.testing.assert_array_equal(slow.observe(reached), task.observe(inner))
            np.testing.assert_array_equal(slow.reward(reached, actions), sum(rewards))
            np.testing.assert_array_equal(slow.success(reached, actions), np.any(successes, axis=0))
    assert slow.control_period == 3 * task.control_period
    assert isinstance(slow.actions, BoxActions)
    assert slow.name.startswith(f"{name} (")
    assert "action_repeat=3" in slow.name
    assert replace(slow, action_repeat=1, actions=task.actions).name == name


def test_a_lost_row_stays_lost_when_actions_are_repeated(task):
    slow = replace(task, action_repeat=2)
    states = slow.reset(np.arange(3))
    states[1] = np.nan
    plans = np.repeat(slow.actions.idle[None, None], 3, axis=0)
    for after in (slow.step(states, plans[:, 0]), slow.rollout(states, plans)[:, 0]):
        assert np.isnan(after[1]).all()
        assert not slow.success(after, plans[:, 0])[1]


def test_arms_of_other_repeats_actions_or_thresholds_have_other_keys(task):
    from pytest_cpg.episodes.arm_cache import arm_key
    from pytest_cpg.episodes.design import Design
    from pytest_cpg.planners import Chance

    def key(**options):
        changed = replace(task, **options)
        return arm_key("oracle", Design(task=changed, planner=Chance(), episodes=1, seed=0), None)

    other = "levels" if isinstance(task.actions, BoxActions) else "box"
    keys = [key(), key(action_repeat=2), key(actions=other), key(threshold=0.3)]
    assert None not in keys
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actions": "boxes"}, 'actions: need "levels" or "box", got \'boxes\''),
        ({"action_repeat": 0}, "action_repeat must be at least 1, got 0"),
    ],
)
def test_an_impossible_option_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        control_task("acrobot-swingup", **options)


def test_what_is_called_a_speed_is_that_of_what_bears_its_name(task):
    rng = np.random.default_rng(0)
    before = task.reset(np.arange(40))
    # Not at rest.
    for _ in range(5):
        before = task.step(before, task.actions.sample([rng] * 40, ()))
    after = task.step(before, task.actions.sample([rng] * 40, ()))
    changes = task.observe(after) - task.observe(before)
    means = (task.observe(after) + task.observe(before)) / 2
    pairs = [
        (place, speed)
        for speed, text in enumerate(task.observed)
        for place, other in enumerate(task.observed)
        if text.startswith("speed of the ") and text.endswith("/s")
        if other.removeprefix("angle of the ") == text.removeprefix("speed of the ")[:-2]
    ]
    assert pairs or "sine" in " ".join(task.observed)
    for place, speed in pairs:
        ratio = np.polyfit(means[:, speed] * task.control_period, changes[:, place], 1)[0]
        # A collision within the step is in no mean; degrees or another joint would be far off.
        assert ratio == pytest.approx(1, abs=0.4)


NEW_TASK = """
import numpy as np

from pytest_cpg.tasks.control.formulas import Formulas, Preset


def away(states):
    return np.hypot(states[..., 1], states[..., 2])


FORMULAS = Formulas(
    domain="point_mass",
    name="easy",
    levels=(-1, 0, 1),
    threshold=0.9,
    observed=("x, m", "y, m", "speed in x, m/s", "speed in y, m/s"),
    observe=lambda states: states[..., 1:5].copy(),
    score=lambda observations: np.hypot(observations[..., 0], observations[..., 1]),
    reward=lambda states, actions: np.maximum(0, 1 - away(states)),
)
PRESET = Preset(
    planner="beam",
    settings={"width": 3},
    options={"budget": 50},
    solved=100,
)
"""
GATE_OF_NEW_TASK = """
import pytest


@pytest.mark.cpg(
    task="point-mass-easy",
    planner="preset",
    model="oracle",
    episodes=12,
    horizon=2,
    budget=4,
    max_verdict="MODEL BOTTLENECK",
)
def test_gate(cpg):
    assert cpg.oracle.episodes == 12
"""


def test_a_task_is_added_by_one_file(tmp_path):
    copy = shutil.copytree(Path(pytest_cpg.__file__).parent, tmp_path / "pytest_cpg")
    (copy / "tasks/control/formulas/point_mass_easy.py").write_text(NEW_TASK)
    (tmp_path / "test_gate.py").write_text(GATE_OF_NEW_TASK)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "test_gate.py", "--cpg-json=gates.json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=120,
        check=False,
        capture_output=True,
        text=True,
    )
    found = (tmp_path / "gates.json").read_text()
    assert '"task": "point-mass-easy"' in found, result.stdout
    assert "BeamSearch(width=3, horizon=2" in found

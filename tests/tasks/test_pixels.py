"""Tasks that models see in pixels: what is drawn, of which states, and how often."""

import os
import pickle
import signal
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest

import pytest_cpg
from pytest_cpg.contracts import ComponentError, TaskError
from pytest_cpg.planners import BeamSearch, RandomShooting
from pytest_cpg.tasks import TASKS, renderer
from pytest_cpg.tasks.goal_task import GoalTask
from pytest_cpg.tasks.goals import Goals
from pytest_cpg.tasks.pixel_task import PixelTask, seen_as_pixels
from pytest_cpg.tasks.pixels import Pixels
from pytest_cpg.tasks.renderer import View, renderer_of
from pytest_cpg.world_models import collect_transitions

try:
    import gymnasium
except ModuleNotFoundError:
    gymnasium = None


class Dim:
    """Latents are a few pixels of the last frame, and where they lead is a guess."""

    def encode(self, pictures):
        return pictures[:, -1, ::8, ::8, 0].reshape(len(pictures), -1) / 255

    def rollout(self, latents, plans):
        return latents[:, None] + np.cumsum(plans.mean(-1, keepdims=True), axis=1)

    def score(self, latents):
        return latents.sum(-1)


@pytest.fixture(scope="module")
def cartpole():
    """The cartpole, where MuJoCo can draw."""
    pytest.importorskip("dm_control")
    task = TASKS["cartpole-swingup"](budget=12)
    try:
        renderer_of(task.world.drawn, View(height=8, width=8))
    except ComponentError as error:
        pytest.skip(str(error))
    return task


@pytest.fixture
def walk(cartpole):
    """States of a stack of three along four steps of two episodes."""
    task = PixelTask(inner=cartpole, pixels=Pixels(size=32))
    states = [task.reset(np.array([3, 4]))]
    for _ in range(4):
        states.append(task.step(states[-1], np.ones((2, 1))))
    return task, states


def test_transitions_keep_what_models_see_and_goals_of_pictures_are_not_relabelled(cartpole):
    goals = GoalTask(inner=cartpole, goals=Goals(offset=3, within=0.1))
    task = PixelTask(inner=goals, pixels=Pixels(size=32))
    kept = collect_transitions(task, count=6, seed=0, episode_steps=3, with_frames=True)
    assert (kept.frames.dtype, kept.frames.shape) == (np.uint8, (6, *task.picture_shape))
    np.testing.assert_array_equal(kept.next_frames[0], kept.frames[1])
    with pytest.raises(ComponentError, match="has no goals to relabel"):
        collect_transitions(task, count=6, seed=0, relabel=0.5)


def test_a_stack_is_of_the_last_steps_oldest_first_and_begins_with_the_first_frame(walk):
    task, states = walk
    alone = PixelTask(inner=task.inner, pixels=Pixels(size=32, stack=1))
    shown = [alone.pictures(task._inner(at))[:, 0] for at in states]
    for step, at in enumerate(states):
        stack = task.pictures(at)
        assert (stack.dtype, stack.shape) == (np.uint8, (2, 3, 32, 32, 3))
        for place in range(3):
            np.testing.assert_array_equal(stack[:, place], shown[max(0, step - 2 + place)])
    # A step of a hundredth of a second is seen.
    assert (shown[0] != shown[4]).any(axis=(1, 2, 3)).all()
    # Two starts, and as many frames as steps.
    assert task.frames_drawn == alone.frames_drawn == 2 * 5


def test_the_same_state_gives_the_same_bits_alone_in_any_order_and_in_another_process(walk):
    task, states = walk
    rows = np.concatenate(states)
    pictures = task.pictures(rows)
    sent = pickle.loads(pickle.dumps(task))  # noqa: S301 - our own
    np.testing.assert_array_equal(sent.pictures(rows[::-1])[::-1], pictures)
    np.testing.assert_array_equal(sent.pictures(rows[7:8]), pictures[7:8])
    assert (sent.name, sent.versions) == (task.name, task.versions)
    assert sent.frames_drawn == 10
    assert task.versions["renderer"]


def test_pictures_are_those_of_dm_control(walk):
    task, states = walk
    program = """
import sys, mujoco, numpy as np
from dm_control import suite
state = np.array(eval(sys.argv[1]))
environment = suite.load("cartpole", "swingup")
environment.reset()
physics = environment.physics
model, data = physics.model.ptr, physics.data.ptr
kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
mujoco.mj_setState(model, data, state[: mujoco.mj_stateSize(model, kind)], kind)
mujoco.mj_forward(model, data)
sys.stdout.buffer.write(physics.render(32, 32, camera_id=0).tobytes())
"""
    backend = renderer_of(task.inner.world.drawn, task.pixels.view)._backend
    environment = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    command = [sys.executable, "-c", program, repr(states[4][0].tolist())]
    expected = subprocess.run(command, env=environment, capture_output=True, check=True).stdout
    assert task.pictures(states[4])[0, -1].tobytes() == expected


def test_a_film_shows_what_the_model_sees_beside_the_task(walk):
    task, states = walk
    film, alone = task.render(states[4]), task.inner.render(task._inner(states[4]))
    height, width = alone.shape[1:3]
    assert film.shape == (2, height, width + height // 3, 3)
    np.testing.assert_array_equal(film[:, :, :width], alone)
    # The corners of the oldest frame and of the present one.
    seen = task.pictures(states[4])
    np.testing.assert_array_equal(film[:, 0, width], seen[:, 0, 0, 0])
    np.testing.assert_array_equal(film[:, -1, -1], seen[:, -1, -1, -1])


def test_shadows_are_part_of_what_a_task_is_called_and_of_its_key(cartpole):
    usual, *others = (
        PixelTask(inner=cartpole, pixels=Pixels(size=32, stack=1, **changed))
        for changed in ({}, {"shadows": False}, {"shadow_map": 512}, {"samples": 0}, {"camera": 1})
    )
    states = usual.reset(np.arange(3))
    assert len({task.name for task in (usual, *others)}) == 5
    assert len({task.cache_key for task in (usual, *others)}) == 5
    assert others[0].name == "cartpole-swingup (pixels=32x32x1, shadows=False)"
    for task in (others[0], others[3]):
        assert (task.pictures(states) != usual.pictures(states)).mean() > 0.01


@pytest.mark.parametrize("execute", [1, 4])
def test_a_gate_draws_real_steps_and_nothing_else(cartpole, execute):
    task = PixelTask(inner=cartpole, pixels=Pixels(size=16, shadows=False))
    gate = pytest_cpg.evaluate(
        task,
        Dim(),
        planner=BeamSearch(width=1, horizon=4, objective="terminal", execute=execute),
        episodes=10,
        cache=None,
        max_verdict="BAD",
    )
    steps = int(gate.learned.steps.sum())
    # Two plans of the probe, which asks the model again once its arm has run.
    assert task.frames_drawn <= 1.05 * steps + 20
    assert gate.rescored is None
    assert gate.result.design.versions["renderer"]


def test_the_true_dynamics_draw_nothing_and_plan_as_they_do_without_pictures(cartpole):
    task = PixelTask(inner=cartpole, pixels=Pixels(size=16))
    planner = RandomShooting(candidates=8, horizon=5)
    oracles = [
        pytest_cpg.evaluate(
            world,
            "oracle",
            planner=planner,
            episodes=5,
            cache=None,
            diagnose="never",
            max_verdict="BAD",
        ).oracle
        for world in (task, cartpole)
    ]
    assert oracles[0].returns.tolist() == oracles[1].returns.tolist()
    assert task.frames_drawn == 0


def test_grids_and_blocks_are_seen_through_their_own_render_and_a_marker_says_how():
    task = seen_as_pixels("maze", size=24, stack=2)
    assert task.pictures(task.reset(np.arange(3))).shape == (3, 2, 24, 24, 3)
    gate = pytest_cpg.evaluate(
        "blocks:3,k=2",
        Dim(),
        planner="greedy",
        observe={"size": 24, "stack": 1},
        episodes=5,
        cache=None,
        max_verdict="BAD",
    )
    assert gate.result.design.task == "blocks:3,k=2 (pixels=24x24x1)"


@pytest.mark.skipif(gymnasium is None, reason="needs gymnasium")
def test_an_environment_whose_model_has_another_name_makes_its_renderer_again():
    from pytest_cpg.tasks.gymnasium.player import Player

    # As a class of MuJoCo's says where it is from.
    parts = {"__module__": "mujoco.rendering.classic", "_model": object(), "close": lambda _: None}
    kind, drawn = type("Renderer", (), parts), []

    class Unnamed(Dotted):
        drawing = None

        def render(self):
            if self.drawing is None:
                self.drawing = kind()
                drawn.append(self.drawing)
            return super().render()

    player = Player(Unnamed)
    player.draw()
    del player.environment.unwrapped.drawing
    assert player.draw().shape == (40, 40, 3)
    assert len(drawn) == 2


class Dotted(gymnasium.Env if gymnasium else object):
    """A dot that moves along a line, and is drawn by numpy."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}

    def __init__(self, render_mode="rgb_array"):
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,))
        self.action_space = gymnasium.spaces.Discrete(2)
        self.render_mode, self.place = render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(8))
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place = (self.place + int(action) + 1) % 40
        return np.array([self.place], np.float32), 0.0, False, False, {}

    def render(self):
        frame = np.zeros((40, 40, 3), np.uint8)
        frame[:, self.place] = 255
        return frame


@pytest.mark.skipif(gymnasium is None, reason="needs gymnasium")
def test_environments_are_drawn_by_their_own_render_in_whatever_order():
    from pytest_cpg.tasks.gymnasium import gym_task

    task = seen_as_pixels(gym_task(Dotted, budget=12), size=40)
    states = [task.reset(np.arange(3))]
    for _ in range(5):
        states.append(task.step(states[-1], np.array([[0.0], [1.0], [0.0]])))
    for at in states[::-1]:
        places = task.pictures(at)[:, -1, 0, :, 0].argmax(axis=1)
        np.testing.assert_array_equal(places, task.observe(at)[:, 0])
    # A film shows what models see where the environment has no other pictures: 6 times as large.
    film, seen = task.render(states[4]), task.pictures(states[4])
    assert film.shape == (3, 240, 720, 3)
    np.testing.assert_array_equal(film[:, ::6, ::6], np.concatenate([*seen.swapaxes(0, 1)], axis=2))
    sent = pickle.loads(pickle.dumps(task))  # noqa: S301 - our own
    np.testing.assert_array_equal(sent.pictures(states[4]), task.pictures(states[4]))
    with pytest.raises(ComponentError, match='Let it make one with render_mode="rgb_array"'):
        seen_as_pixels(gym_task(lambda: Dotted(None), budget=12))
    with pytest.raises(ComponentError, match=r"which knows no camera=1\. Leave it out"):
        seen_as_pixels(task.inner, camera=1)


@pytest.mark.skipif(gymnasium is None, reason="needs gymnasium")
def test_an_environment_that_observes_pictures_says_what_to_take():
    from pytest_cpg.tasks.gymnasium import gym_task

    def make():
        environment = Dotted()
        environment.observation_space = gymnasium.spaces.Box(0, 255, (40, 40, 3), np.uint8)
        return environment

    with pytest.raises(ComponentError, match='as it observes numbers, with observe="pixels" in'):
        gym_task(make)


@pytest.mark.skipif(gymnasium is None, reason="needs gymnasium")
def test_an_environment_of_pictures_whose_code_can_tell_numbers_is_seen_as_it_draws_itself():
    from pytest_cpg.tasks.gymnasium import gym_task

    class Visual(Dotted):
        """As OGBench's: what is observed is decided in one method, by an attribute."""

        _ob_type = "pixels"

        def __init__(self):
            super().__init__()
            self.observation_space = gymnasium.spaces.Box(0, 255, (40, 40, 3), np.uint8)

        def get_ob(self):
            if self._ob_type == "pixels":
                return self.render()
            return np.array([self.place], np.float32)

        def reset(self, **given):
            super().reset(**given)
            return self.get_ob(), {}

        def step(self, action):
            return self.get_ob(), *super().step(action)[1:]

    plain, visual = gym_task(Dotted, budget=9), gym_task(Visual, budget=9)
    starts = [task.reset(np.arange(3)) for task in (plain, visual)]
    assert np.array_equal(plain.observe(starts[0]), visual.observe(starts[1]))
    frames = [
        seen_as_pixels(task, size=40, stack=1).pictures(begun)
        for task, begun in zip((plain, visual), starts, strict=True)
    ]
    assert np.array_equal(*frames)


@pytest.mark.skipif(gymnasium is None, reason="needs gymnasium")
def test_a_goal_of_an_environments_own_that_its_frames_hide_is_the_last_frame():
    from pytest_cpg.tasks.gymnasium import gym_task

    class Hiding(Dotted):
        """As OGBench's: what its goal looks like is drawn by reset, where that is asked for."""

        _ob_type, _reward_task_id = "pixels", None

        def reset(self, *, seed=None, options=None):
            seen, info = super().reset(seed=seed)
            begun, self.place = self.place, int(self.np_random.integers(20, 40))
            info["goal"] = np.array([self.place], np.float32)
            if (options or {}).get("render_goal"):
                info["goal_rendered"] = self.render()
            self.place = begun
            return seen, info

    task = seen_as_pixels(gym_task(Hiding, budget=9), size=40, stack=2)
    states = task.reset(np.arange(4))
    assert task.picture_shape == (3, 40, 40, 3)
    for _ in range(3):
        places = task.pictures(states)[:, :, 0, :, 0].argmax(axis=2)
        np.testing.assert_array_equal(places[:, 1:], task.observe(states))
        states = task.step(states, np.ones((4, 1)))
    assert len({*places[:, 2].tolist()}) > 1
    # Of one task alone a model knows the goal.
    Hiding._reward_task_id = 1
    assert seen_as_pixels(gym_task(Hiding, budget=9), size=40).picture_shape == (3, 40, 40, 3)


@pytest.mark.skipif(gymnasium is None, reason="needs gymnasium")
def test_what_cannot_draw_is_told_each_time_and_of_mujoco_with_its_settings():
    pytest.importorskip("mujoco")
    from gymnasium.envs.mujoco.inverted_pendulum_v5 import InvertedPendulumEnv

    from pytest_cpg.tasks.gymnasium import gym_task

    def fail(self):
        raise OSError("no window")

    class Dark(Dotted):
        render = fail

    class Pendulum(InvertedPendulumEnv):
        render = fail

    for make, fix in ((Dark, ""), (lambda: Pendulum(render_mode="rgb_array"), "MUJOCO_GL=osmesa")):
        task = gym_task(make, budget=9)
        for _ in range(2):
            with pytest.raises(ComponentError, match=f"raises OSError: no window.*{fix}") as caught:
                seen_as_pixels(task)
            assert ("MUJOCO_GL" in str(caught.value)) == bool(fix)


@pytest.mark.parametrize("name", ["cube-single-v0", "antmaze-medium-v0"])
def test_visual_ids_of_ogbench_move_as_those_of_numbers_and_look_as_they_do(cartpole, name):
    pytest.importorskip("ogbench")
    program = f"""
import gymnasium
import numpy as np
import ogbench
from pytest_cpg.tasks.gymnasium import environments, gym_task
from pytest_cpg.tasks.gymnasium.player import generators
from pytest_cpg.tasks.pixel_task import seen_as_pixels

visual, plain = (gym_task("ogbench:" + prefix + "{name}") for prefix in ("visual-", ""))
assert (visual.hides_goal, plain.hides_goal) == (True, False)
assert {{"ogbench", "mujoco"}} < set(visual.versions)
actions = visual.actions.sample([np.random.default_rng(0)], (3,))[0]
seen = seen_as_pixels(visual, size=64, stack=1)
states = [task.reset(np.array([7])) for task in (seen, plain)]
frames, renderers = [], []
for action in actions:
    states = [t.step(s, action[None]) for t, s in zip((seen, plain), states, strict=True)]
    assert (seen.observe(states[0]) == plain.observe(states[1])).all()
    frames.append(seen.pictures(states[0])[0, 0])
    renderers.append(len(environments._HELD))
assert (frames[0] != frames[2]).any()
# Each takes 170 MB of a cube, and is held until the process ends.
assert len(set(renderers)) == 1, renderers
# Alone, as its own observation.
alone = gymnasium.make("visual-{name}", width=64, height=64)
for seed in (0, 7):
    with generators(seed):
        alone.action_space.seed(seed)
        observed, info = alone.reset(seed=seed, options=dict(render_goal=True))
begun, goal = seen.pictures(seen.reset(np.array([7])))[0]
assert observed.shape == begun.shape
assert (observed == begun).all(), (observed != begun).mean()
# And its own goal.
assert (info["goal_rendered"] == goal).all()
assert (observed != goal).mean() > 0.1
one = gym_task("ogbench:visual-" + "{name}".replace("-v0", "-singletask-v0"))
assert not one.hides_goal
"""
    backend = renderer_of(cartpole.world.drawn, View(height=8, width=8))._backend
    environment = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_an_environment_of_mujoco_looks_as_it_does_by_itself(cartpole, monkeypatch):
    if gymnasium is None:
        pytest.skip("needs gymnasium")
    pytest.importorskip("imageio")
    program = """
import numpy as np
import gymnasium
from pytest_cpg.tasks.pixel_task import seen_as_pixels

task = seen_as_pixels("gym:InvertedPendulum-v5", size=32, stack=1)
states = [task.reset(np.array([4, 5]))]
for _ in range(6):
    states.append(task.step(states[-1], np.full((2, 1), 0.5)))
pictures = [task.pictures(at)[:, 0] for at in states[::-1]][::-1]
alone = gymnasium.make(
    "InvertedPendulum-v5", render_mode="rgb_array", width=32, height=32, max_episode_steps=-1
)
# Where its camera looks is decided by its first frame.
alone.reset(seed=0)
alone.render()
for row, seed in enumerate((4, 5)):
    alone.reset(seed=seed)
    for step, shown in enumerate(pictures):
        assert (alone.render() == shown[row]).all(), (seed, step)
        alone.step(np.array([0.5]))
assert task.frames_drawn == 14
"""
    backend = renderer_of(cartpole.world.drawn, View(height=8, width=8))._backend
    environment = {**os.environ, "MUJOCO_GL": backend, "PYOPENGL_PLATFORM": backend}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


class Comparing:
    """Rates plans by the distance of the agent's pixels to those of the goal's picture."""

    def __init__(self, task):
        self.inner, shape = task.inner.inner, task.picture_shape
        cells = task.inner.inner.layout.split()
        self.cells = np.array([len(cells[0]), len(cells)]) / shape[1]

    def places(self, frames):
        is_agent = np.abs(frames - np.array([214, 106, 48])).sum(axis=-1) < 40
        rows, columns = np.mgrid[: frames.shape[1], : frames.shape[2]] + 0.5
        count = np.maximum(1, is_agent.sum(axis=(1, 2)))
        both = [(part * is_agent).sum(axis=(1, 2)) / count for part in (columns, rows)]
        return np.rint(np.stack(both, axis=1) * self.cells - 0.5)

    def encode(self, pictures):
        return np.concatenate([self.places(pictures[:, -2]), self.places(pictures[:, -1])], axis=1)

    def rollout(self, latents, plans):
        reached = self.inner.rollout(np.ascontiguousarray(latents[:, :2]), plans)
        goals = np.repeat(latents[:, None, 2:], plans.shape[1], axis=1)
        return np.concatenate([reached, goals], axis=2)

    def score(self, latents):
        return np.linalg.norm(latents[..., :2] - latents[..., 2:], axis=-1)


def test_a_goal_of_the_gate_is_the_last_frame_and_a_model_may_reach_it_by_that_alone():
    goals = GoalTask(inner=TASKS["maze"](budget=30), goals=Goals(offset=6, within=0.5).loaded())
    task = PixelTask(inner=goals, pixels=Pixels(size=96, stack=2))
    states = task.reset(np.arange(4))
    assert task.picture_shape == task.pictures(states).shape[1:] == (3, 96, 96, 3)
    # As the page of a gate names a lost start.
    np.testing.assert_array_equal(task.at_episodes(task.reset([3]), [3]), states[3:])
    latents = Comparing(task).encode(task.pictures(states))
    np.testing.assert_array_equal(latents, task.observe(states))
    after = task.step(states, task.actions.values[[0, 1, 2, 3]])
    np.testing.assert_array_equal(task.pictures(after)[:, 2], task.pictures(states)[:, 2])
    gate = pytest_cpg.evaluate(
        task,
        Comparing(task),
        planner=RandomShooting(candidates=60, horizon=8),
        episodes=10,
        cache=None,
        max_verdict="BAD",
    )
    assert gate.learned.successes.tolist() == gate.oracle.successes.tolist()
    assert gate.learned.success_rate >= 0.8


def test_a_goal_that_is_numbers_in_a_file_is_no_picture(tmp_path):
    np.savez(tmp_path / "goals.npz", goals=np.ones((5, 2)), within=0.5)
    goals = Goals(file=str(tmp_path / "goals.npz")).loaded()
    task = PixelTask(inner=GoalTask(inner=TASKS["maze"](), goals=goals), pixels=Pixels())
    with pytest.raises(
        ComponentError, match=r"no steps to a state that could be drawn\. Write rec"
    ):
        task.reset(np.arange(2))


@pytest.mark.skipif(gymnasium is None, reason="needs gymnasium")
def test_goals_of_recorded_starts_of_an_environment_are_drawn_where_they_were_recorded(tmp_path):
    from pytest_cpg.tasks.gymnasium import gym_task

    class Placed(Dotted):
        def set_state(self, place):
            self.place = int(place[0])

    places = np.array([[3, 4, 6, 7, 9, 10], [20, 22, 24, 25, 26, 28]])[..., None]
    actions = np.append(np.diff(places, axis=1) - 1, [[[0]], [[0]]], axis=1)
    np.savez(
        tmp_path / "data.npz", place=places, observations=places.astype(float), actions=actions
    )
    goals = Goals(file=str(tmp_path / "data.npz"), offset=3, within=0.5).loaded()
    inner = GoalTask(inner=gym_task(Placed, budget=12), goals=goals)
    task = PixelTask(inner=inner, pixels=Pixels(size=40, stack=2))
    states = task.reset(np.arange(9))
    seen = task.pictures(states)[:, :, 0, :, 0].argmax(axis=2)
    np.testing.assert_array_equal(seen[:, 1], task.observe(states)[:, 0])
    np.testing.assert_array_equal(seen[:, 2], task.goal(states)[:, 0])
    assert len({*seen[:, 2].tolist()}) > 3
    after = task.pictures(task.step(states, np.zeros((9, 1))))[:, :, 0, :, 0].argmax(axis=2)
    np.testing.assert_array_equal(after, np.stack([seen[:, 1], seen[:, 1] + 1, seen[:, 2]], 1))


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"size": 0}, ValueError, "size: need a whole number from 8 to 512, got 0"),
        ({"stack": 1.5}, ValueError, "stack: need a whole number from 1 to 16, got 1.5"),
        ({"shadow_map": 3}, ValueError, "shadow_map: need a whole number from 16 to"),
        ({"shadows": "no"}, ValueError, "shadows: need True or False, got 'no'"),
        ({"camra": 1}, ValueError, "no setting 'camra' of pixels. Did you mean 'camera'?"),
        ({"camera": None}, ValueError, "camera: need its number or name, got None"),
        (64, ValueError, 'need "pixels", or some of size, stack, camera,'),
        ({"camera": 9}, ComponentError, "camera=9: the model's cameras are 0 (fixed), 1 (looka"),
        ({"camera": "side"}, ComponentError, "camera='side': the model's cameras are 0 (fixed)"),
    ],
)
def test_what_cannot_be_seen_is_told_what_can(cartpole, settings, error, said):
    with pytest.raises(error) as caught:
        PixelTask(inner=cartpole, pixels=Pixels.of(settings))
    assert said in str(caught.value)


def test_settings_add_to_those_of_a_marker_and_may_be_numbers_of_numpy():
    task = seen_as_pixels("maze", {"stack": 1, "size": 16}, size=np.int64(24))
    assert task.pixels == Pixels(stack=1, size=24)
    assert repr(task.pixels) == "Pixels(size=24, stack=1)"
    with pytest.raises(ValueError, match="no setting 'camra' of pixels"):
        seen_as_pixels("maze", camra=1)


def test_a_task_without_pictures_or_with_others_says_what_to_write():
    class Plain:
        name = "plain"

    class Floats(Plain):
        def render(self, states):
            return np.zeros((len(states), 4, 4, 3))

    with pytest.raises(ComponentError, match=r"'plain' has no pictures\. Give it render\(states"):
        PixelTask(inner=Plain(), pixels=Pixels())
    with pytest.raises(ComponentError, match="render must return uint8, 0 to 255, got float64"):
        PixelTask(inner=Floats(), pixels=Pixels()).pictures(np.zeros((1, 3)))

    class Moody(Plain):
        drawn = 0

        def render(self, states):
            self.drawn += 1
            return np.full((len(states), 4, 4, 3), self.drawn, dtype=np.uint8)

    class Ragged(Plain):
        def render(self, states):
            return [np.zeros((4, 4 + row, 3), dtype=np.uint8) for row in range(len(states))]

    with pytest.raises(ComponentError, match="'plain' draws a state otherwise when it is asked"):
        PixelTask(inner=Moody(), pixels=Pixels()).pictures(np.zeros((1, 3)))
    with pytest.raises(ComponentError, match=r"frames \[2, H, W, 3\] of one size"):
        PixelTask(inner=Ragged(), pixels=Pixels(stack=2)).pictures(np.arange(6.0).reshape(1, 6))
    with pytest.raises(ValueError, match="no setting '1' of pixels"):
        Pixels.of({1: 2})
    with pytest.raises(ComponentError, match=r"which knows no camera=1\. Leave it out"):
        seen_as_pixels("maze", camera=1)


def test_a_machine_without_opengl_says_what_to_do(cartpole, monkeypatch):
    task = PixelTask(inner=cartpole, pixels=Pixels(size=16))
    for value, said in {
        "disable": "MUJOCO_GL=disable lets MuJoCo draw nothing: unset it, or set MUJOCO_GL=osmesa",
        "nonsense": r"no OpenGL .* install libosmesa6 .*=egl\. MuJoCo could not draw with "
        r"MUJOCO_GL=nonsense: RuntimeError: invalid value",
    }.items():
        monkeypatch.setenv("MUJOCO_GL", value)
        with pytest.raises(ComponentError, match=said):
            task.pictures(task.reset(np.arange(1)))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs alarms")
def test_a_renderer_that_was_interrupted_answers_no_later_question_by_an_earlier_one(walk):
    task, states = walk
    expected = task.pictures(states[4])

    def interrupt(*_):
        raise KeyboardInterrupt

    asked, many = renderer_of(task.inner.world.drawn, task.pixels.view), task.reset(np.arange(300))
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            # Seconds of drawing.
            task.pictures(many)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not asked.is_alive()
    again = PixelTask(inner=task.inner, pixels=task.pixels)
    np.testing.assert_array_equal(again.pictures(states[4]), expected)


def test_a_renderer_is_asked_for_some_frames_at_a_time(walk, monkeypatch):
    task, states = walk
    rows = np.concatenate([task._inner(at) for at in states])
    drawing = renderer_of(task.inner.world.drawn, task.pixels.view)
    at_once = drawing.draw(rows)
    asked, ask = [], drawing._ask
    monkeypatch.setattr(drawing, "_ask", lambda question: asked.append(question) or ask(question))
    monkeypatch.setattr(renderer, "_AT_ONCE", 4)
    np.testing.assert_array_equal(drawing.draw(rows), at_once)
    assert [len(physics) for physics, *_ in asked] == [4, 4, 2]
    assert drawing.draw(rows[:0]).shape == (0, 32, 32, 3)


def test_a_renderer_that_died_is_begun_again(walk):
    task, states = walk
    before = task.pictures(states[0])
    renderer_of(task.inner.world.drawn, task.pixels.view).close()
    again = PixelTask(inner=task.inner, pixels=task.pixels)
    np.testing.assert_array_equal(again.pictures(states[0]), before)


def test_too_few_recorded_starts_are_told_in_pixels_too(tmp_path):
    maze = TASKS["maze"]()
    states = np.repeat(maze.reset(np.arange(3))[:, None], 5, axis=1)
    np.savez(tmp_path / "data.npz", states=states)
    goals = Goals(file=str(tmp_path / "data.npz"), offset=2, within=0.5).loaded()
    task = PixelTask(inner=GoalTask(inner=maze, goals=goals), pixels=Pixels(size=32))
    starts = task.reset(np.array([7, 8]))
    np.testing.assert_array_equal(task.at_episodes(starts, np.array([0, 1])), starts)
    with pytest.raises(TaskError, match="has 9 recorded starts, and the gate 10"):
        task.at_episodes(starts, np.array([0, 9]))

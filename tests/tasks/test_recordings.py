"""Recorded episodes: their layouts, their starts, and how they put a task into a state."""

import re

import numpy as np
import pytest

from pytest_cpg.contracts import ComponentError
from pytest_cpg.tasks import TASKS, named_task
from pytest_cpg.tasks.goal_task import GoalTask
from pytest_cpg.tasks.goals import Goals
from pytest_cpg.tasks.recordings import Recording

gymnasium = pytest.importorskip("gymnasium")
BOX = gymnasium.spaces.Box


@pytest.fixture
def file(tmp_path):
    def write(**arrays):
        path = tmp_path / "data.npz"
        np.savez(path, **arrays)
        return str(path)

    return write


def walked(episodes=4, steps=12):
    """Walks through a maze, as a program that knows nothing of this one keeps them."""
    task = TASKS["maze"]()
    states = task.reset(np.arange(episodes))
    actions = task.actions.sample([np.random.default_rng(i) for i in range(episodes)], (steps,))
    after = task.rollout(states, actions)
    states = np.concatenate([states[:, None], after[:, :-1]], axis=1)
    return {"states": states, "actions": actions}


@pytest.mark.parametrize("layout", ["stacked", "joined", "short"])
def test_a_start_is_a_recorded_state_and_its_goal_was_seen_later(file, layout):
    arrays = walked()
    states = arrays["states"]
    if layout == "joined":
        arrays = {name: array.reshape(48, 2) for name, array in arrays.items()}
        arrays["timeouts"] = np.arange(48) % 12 == 11
    if layout == "short":
        arrays["actions"] = arrays["actions"][:, :-1]
    goals = Goals(file=file(**arrays), offset=5, within=0.5).loaded()
    task = GoalTask(inner=TASKS["maze"](), goals=goals)
    starts = task.reset(np.arange(9))
    rows = goals.recording.rows(np.arange(9))
    assert (rows % 12 < 7).all()
    assert len(set(rows.tolist())) > 4
    np.testing.assert_array_equal(starts[:, :2], states.reshape(48, 2)[rows])
    np.testing.assert_array_equal(task.goal(starts), states.reshape(48, 2)[rows + 5])
    # A seed is one start, whichever others are drawn beside it.
    np.testing.assert_array_equal(task.reset(np.array([3])), starts[3:4])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"states": np.ones((4, 2))}, r"does not say where .* Write terminals \[M\]"),
        ({"states": np.ones((0, 2))}, r"has no states: they are of shape \[0, 2\]"),
        ({"states": np.array([["a"]])}, "states must be numbers, got type <U1"),
        ({"states": np.full((1, 4, 2), np.nan)}, "states must be finite, step 0 is"),
        (
            {"states": np.ones((2, 4, 2)), "actions": np.ones((8, 2))},
            r"actions of shape \[8, 2\], and others of \[2, 4\] steps",
        ),
        ({"states": np.ones((4, 2)), "terminals": np.ones(4)}, "has no episode of two steps"),
        (
            {"states": np.ones((4, 2)), "terminals": np.ones(3)},
            r"terminals of shape \[3\], and others of \[4\] steps",
        ),
        (
            {"states": np.ones((9, 2)), "terminals": np.zeros(9), "timeouts": np.zeros(9)},
            r"no terminals or timeouts are true. Write timeouts \[M\].*: timeouts\[-1\] = True",
        ),
        ({"states": np.ones((2, 3, 2))}, "episodes has 3 steps. Write offset=2"),
        ({"states": np.ones((2, 3, 2)), "goals": np.ones((2, 2))}, r"needs goals \[N, G\], act"),
    ],
)
def test_what_makes_up_no_episodes_is_told(file, arrays, message):
    with pytest.raises(ValueError, match=message):
        Goals(file=file(**arrays), offset=3, within=1).loaded()


def test_actions_of_one_number_need_no_axis_for_it():
    held = {"states": np.ones((2, 4, 2)), "actions": np.ones((2, 3), dtype=np.int64)}
    actions = Recording.of(held, name="data.npz", offset=1).arrays["actions"]
    assert actions.shape == (8, 1)
    # Nobody acts on the last observation.
    assert np.flatnonzero(np.isnan(actions)).tolist() == [3, 7]


def test_a_single_episode_has_its_last_step_marked():
    held = {"states": np.ones((9, 2)), "timeouts": np.arange(9) == 8}
    assert Recording.of(held, name="data.npz", offset=5).starts.tolist() == [0, 1, 2, 3]


class Kept(gymnasium.Env):
    """A point with a goal of its own, which can be put anywhere."""

    observation_space, action_space = BOX(-9, 9, (4,)), BOX(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        return self.seen(), {}

    def set_state(self, place):
        self.place = np.array(place)

    def step(self, action):
        self.place = self.place + 0.5 * np.asarray(action, float)
        return self.seen(), 0.0, False, False, {}

    def seen(self):
        return np.concatenate([self.place, self.goal])


def played(make=Kept, episodes=3, steps=10):
    rows = {name: [] for name in ("observations", "actions", "states")}
    env = make()
    for episode in range(episodes):
        seen, _ = env.reset(seed=episode)
        for _ in range(steps):
            action = env.action_space.sample()
            for values, value in zip(rows.values(), (seen, action, env.place), strict=True):
                values.append(value)
            seen = env.step(action)[0]
    return {name: np.reshape(values, (episodes, steps, -1)) for name, values in rows.items()}


def begun(file, arrays, make=Kept):
    from pytest_cpg.tasks.gymnasium import gym_task

    goals = Goals(file=file(**arrays), offset=4, within=0.5, columns=(0, 1)).loaded()
    return GoalTask(inner=gym_task(make, budget=20), goals=goals)


def test_what_is_of_an_episode_and_not_of_its_state_is_the_starts_own(file):
    arrays = played()
    task = begun(file, arrays)
    states, rows = task.reset(np.arange(5)), task.goals.recording.rows(np.arange(5))
    seen = task.observe(states)
    env = Kept()
    np.testing.assert_allclose(seen[:, :2], arrays["states"].reshape(30, 2)[rows])
    np.testing.assert_allclose(seen[:, 2:4], [env.reset(seed=i)[0][2:] for i in range(5)])
    after = task.observe(task.step(states, np.ones((5, 2))))
    np.testing.assert_allclose(after[:, :2], seen[:, :2] + 0.5)
    np.testing.assert_array_equal(after[:, 2:], seen[:, 2:])
    np.testing.assert_allclose(task.goal(states)[:, :2], arrays["states"].reshape(30, 2)[rows + 4])


def test_some_recorded_steps_that_lead_elsewhere_are_told_and_many_refused(file):
    # What is only rounded is no other step, be it far away and hardly moving.
    arrays = played(make=Far, episodes=20)
    rounded = {name: array.astype(np.float32) for name, array in arrays.items()}
    assert "agree" not in begun(file, rounded, Far).note_on_starts

    arrays = played(episodes=20)
    rows = begun(file, arrays).goals.recording.rows(np.arange(16))
    actions = arrays["actions"].reshape(200, 2)
    actions[rows[:3]] *= -1
    assert re.search(r"1[23] of 16 recorded steps agree with", begun(file, arrays).note_on_starts)
    arrays = played(episodes=20)
    arrays["actions"][::2] *= -1
    with pytest.raises(ComponentError, match=r"Of 16 recorded steps \d+ lead elsewhere. Record of"):
        begun(file, arrays)


def test_episodes_that_are_cut_in_the_middle_are_told(file):
    arrays = {name: array.reshape(240, 2) for name, array in walked(episodes=20).items()}
    ends = np.arange(240) % 12 == 11
    arrays["terminals"] = ends
    maze = TASKS["maze"]()
    goals = Goals(file=file(**arrays), offset=5, within=0.5).loaded()
    assert "agree" not in GoalTask(inner=maze, goals=goals).note_on_starts
    # The first step of the next episode in place of the last one.
    goals = Goals(file=file(**arrays | {"terminals": np.roll(ends, 1)}), offset=5, within=0.5)
    with pytest.raises(ComponentError, match=r"cut at wrong places: its action of step \d+ leads"):
        GoalTask(inner=maze, goals=goals.loaded())


class Broken(Kept):
    def step(self, action):
        if self.place.dtype == np.float32:
            raise IndexError("need integers.")
        return super().step(action)


def test_a_state_that_cannot_be_stepped_from_is_told(file):
    arrays = played()
    arrays["states"] = arrays["states"].astype(np.float32)
    with pytest.raises(
        ComponentError, match=r"step \d+ of 'data.npz', raises IndexError: need int"
    ):
        begun(file, arrays, Broken)


class Far(Kept):
    """Where a float32 hardly holds how far a step leads."""

    def reset(self, **settings):
        super().reset(**settings)
        self.place = self.place + 100
        return self.seen(), {}

    def step(self, action):
        self.place = self.place + 1e-6 * np.asarray(action, float)
        return self.seen(), 0.0, False, False, {}


class Unkept(Kept):
    set_state = property()


class Refusing(Kept):
    def set_state(self, place):
        raise ValueError("no.")


@pytest.mark.parametrize(
    ("make", "left_out", "message"),
    [
        (Unkept, (), "it has neither a method set_state nor an attribute state"),
        (Refusing, (), r"was given set_state\(place\) of step \d+ .* raises ValueError: no"),
        (Kept, ("states",), "its set_state takes place"),
        (Kept, ("observations",), r"observes 4 numbers, and 'data.npz' has actions \[2\], states"),
    ],
)
def test_an_environment_that_cannot_be_put_there_is_told(file, make, left_out, message):
    arrays = {name: array for name, array in played().items() if name not in left_out}
    with pytest.raises(ComponentError, match=message):
        begun(file, arrays, make)


def test_positions_and_velocities_put_a_control_task_there(file):
    suite = pytest.importorskip("dm_control.suite")
    environment = suite.load("pendulum", "swingup", task_kwargs={"random": 1})
    rows = {name: [] for name in ("qpos", "qvel", "actions")}
    environment.reset()
    rng = np.random.default_rng(0)
    for _ in range(30):
        action = rng.uniform(-1, 1, 1)
        data = environment.physics.data
        for values, value in zip(rows.values(), (data.qpos, data.qvel, action), strict=True):
            values.append(value.copy())
        environment.step(action)
    path = file(**{name: np.array(values)[None] for name, values in rows.items()})
    goals = Goals(file=path, offset=5, within=0.1).loaded()
    task = GoalTask(inner=named_task("dmc:pendulum-swingup", TASKS)(), goals=goals)
    row = goals.recording.rows(np.array([0]))[0]
    angle = rows["qpos"][row + 5][0]
    np.testing.assert_allclose(task.goal(task.reset(np.array([0])))[0, 0], np.cos(angle))
    # Other physics are no other recording.
    task.with_physics(mass=3.0)
    shifted = {**rows, "qpos": np.roll(rows["qpos"], 4, axis=0)}
    path = file(**{name: np.array(values)[None] for name, values in shifted.items()})
    with pytest.raises(ComponentError, match="was not recorded of dmc:pendulum-swingup"):
        GoalTask(inner=task.inner, goals=Goals(file=path, offset=5, within=0.1).loaded())


def test_recordings_of_other_content_are_told_apart():
    arrays = walked()
    one = Recording.of(arrays, name="data.npz", offset=2)
    arrays["states"] = arrays["states"] + 1
    assert repr(one) != repr(Recording.of(arrays, name="data.npz", offset=2))

import dataclasses

import numpy as np
import pytest
from sliders import Slider

from pytest_cpg.contracts import TaskError
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import Transitions, collect_transitions

NAMES = ("observations", "actions", "next_observations")


def collected(count=350, **options):
    return collect_transitions(TASKS["two-room"](), **{"count": count, "seed": 3, **options})


def test_rows_are_exactly_as_many_as_asked_for_and_follow_the_task():
    task = TASKS["two-room"]()
    transitions = collect_transitions(task, count=350, seed=3)
    assert len(transitions) == 350
    after = task.step(transitions.observations, transitions.actions)
    np.testing.assert_array_equal(after, transitions.next_observations)


def test_rows_of_an_episode_follow_each_other():
    transitions = collected(episode_steps=100)
    same = (transitions.next_observations[:-1] == transitions.observations[1:]).all(axis=1)
    assert np.delete(same, [99, 199, 299]).all()


def test_same_seed_gives_same_bits_and_another_seed_others():
    first, again, other = collected(), collected(), collected(seed=4)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert (first.actions != other.actions).any()


@pytest.mark.parametrize("fewer", [1, 200, 349])
def test_fewer_rows_are_the_first_of_more(fewer):
    more, less = collected(), collected(fewer)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(more, name)[:fewer], getattr(less, name))


def test_an_action_is_held_for_as_long_as_asked_for():
    actions = collected(count=200, episode_steps=100, hold=3).actions
    for episode in actions.reshape(2, 100, -1):
        assert (episode[:99].reshape(33, 3, -1) == episode[:99:3, None]).all()
        assert len(np.unique(episode[::3], axis=0)) > 1
    assert np.array_equal(collected(hold=1).next_observations, collected().next_observations)
    for options in ({"count": 0}, {"episode_steps": 0}, {"hold": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            collected(**options)


def test_episodes_go_on_behind_the_goal():
    task = TASKS["maze"]()
    transitions = collect_transitions(task, count=20_000, seed=7)
    solved = task.success(transitions.observations, transitions.actions)
    assert solved.any()


def test_actions_of_episodes_are_not_those_of_a_gate():
    task = TASKS["two-room"]()
    own = collect_transitions(task, count=200, seed=0).actions
    for first in range(8):
        key = np.random.SeedSequence(0, spawn_key=(first, 0))
        gate = task.actions.sample([np.random.default_rng(key)], (200,))[0]
        assert (own != gate).any(axis=1).mean() > 0.5


def test_values_cannot_be_written_to_and_do_not_alias_arguments():
    observations = np.zeros((2, 1))
    transitions = Transitions(
        observations=observations, actions=np.zeros((2, 1)), next_observations=observations
    )
    observations[:] = 9
    assert (transitions.observations == 0).all()
    with pytest.raises(ValueError, match="read-only"):
        transitions.actions[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        transitions.actions = observations


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"actions": np.zeros((3, 1))}, r"actions must have shape \[T, size\] with T = 2"),
        ({"observations": np.zeros(2)}, r"observations must have shape"),
        ({"next_observations": np.zeros((2, 5))}, "must have the same shape"),
        ({"actions": np.array([[0.0], [np.nan]])}, "actions must be finite, row 1"),
        ({"rewards": np.zeros((2, 1))}, r"rewards must have shape \[T\] with T = 2"),
        ({"rewards": np.array([0.0, np.inf])}, "rewards must be finite, row 1 is inf"),
        ({"terminations": np.array([True])}, r"terminations must have shape \[T\]"),
        ({"terminations": np.array([0, 2])}, "terminations must be true or false, got"),
    ],
)
def test_wrong_arrays_are_named(changed, message):
    arrays = dict.fromkeys(NAMES, np.zeros((2, 1)))
    with pytest.raises(ValueError, match=message):
        Transitions(**{**arrays, **changed})


def test_rewards_are_kept_where_they_are_asked_for_and_change_nothing_else(monkeypatch):
    task = TASKS["maze"]()
    monkeypatch.setattr(
        type(task), "reward", lambda _, states, actions: states[..., 0] + actions[..., 1]
    )
    options = {"count": 60, "seed": 3, "episode_steps": 25}
    plain = collect_transitions(task, **options)
    rewarded = collect_transitions(task, with_rewards=True, **options)
    for name in NAMES:
        np.testing.assert_array_equal(getattr(plain, name), getattr(rewarded, name))
    assert plain.rewards is None
    # What the maze sees is its state.
    expected = rewarded.next_observations[:, 0] + rewarded.actions[:, 1]
    np.testing.assert_array_equal(rewarded.rewards, expected)


def test_an_episode_is_left_where_the_task_says_that_it_is_over():
    class Ending(Slider):
        """A puck whose episode ends where it leaves a range."""

        def terminated(self, states):
            return np.abs(states[..., 0]) > 10

    options = {"seed": 3, "episode_steps": 50, "with_rewards": True}
    few, many = (collect_transitions(Ending(), count=count, **options) for count in (150, 700))
    assert few.terminations.any()
    assert (np.abs(few.observations) <= 10).all()
    np.testing.assert_array_equal(np.abs(few.next_observations[:, 0]) > 10, few.terminations)
    for name in (*NAMES, "rewards", "terminations"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:150])
    assert collect_transitions(Slider(), count=50, seed=3).terminations is None


def test_diverged_simulator_names_episode_and_step():
    class Diverging:
        name = "diverging"
        actions = TASKS["maze"]().actions

        def reset(self, seeds):
            return np.zeros((len(seeds), 1))

        def rollout(self, states, actions):
            after = np.zeros((*actions.shape[:2], 1))
            after[1, 4:] = np.nan
            return after

        def observe(self, states):
            return states

        def reward(self, states, actions):
            return states[..., 0]

    with pytest.raises(TaskError, match=r"diverging.*episode 1 at step 5"):
        collect_transitions(Diverging(), count=30, seed=0, episode_steps=10)

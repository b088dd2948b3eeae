import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from sliders import Slider

from pytest_cpg.contracts import CpgError, TaskError
from pytest_cpg.planners import CEM, RandomShooting
from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.goal_task import with_goals
from pytest_cpg.tasks.goals import Goals
from pytest_cpg.world_models import OracleDynamics, Transitions, collect_transitions

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
    actions = collected(count=200, episode_steps=100, policy="held-3").actions
    for episode in actions.reshape(2, 100, -1):
        assert (episode[:99].reshape(33, 3, -1) == episode[:99:3, None]).all()
        assert len(np.unique(episode[::3], axis=0)) > 1
    for options in ({"count": 0}, {"count": 10.5}, {"episode_steps": 0}, {"seed": None}):
        with pytest.raises(ValueError, match="to be a whole number of at least"):
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


def test_frames_are_kept_as_the_rest_is():
    frames = np.zeros((2, 4, 4), np.uint8)
    rows = dict.fromkeys(NAMES, np.zeros((2, 1)))
    kept = Transitions(**rows, frames=frames, next_frames=list(frames))
    frames[:] = 9
    assert (kept.frames == 0).all()
    for name in ("frames", "next_frames"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(kept, name)[0] = 1


def test_only_transitions_of_one_form_are_joined():
    two, five = (
        Transitions(
            observations=np.zeros((2, size)),
            actions=np.zeros((2, 1)),
            next_observations=np.zeros((2, size)),
        )
        for size in (2, 5)
    )
    with pytest.raises(ValueError, match="observations have 2 and 5 numbers cannot be joined"):
        two + five
    rewarded = dataclasses.replace(two, rewards=np.zeros(2))
    with pytest.raises(
        ValueError, match=r"only the first .* rewards.*replace\(first, rewards=None"
    ):
        rewarded + two
    with pytest.raises(ValueError, match="only the second transitions have rewards"):
        two + rewarded
    assert len(dataclasses.replace(rewarded, rewards=None) + two) == 4


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
        ({"frames": [[0.5], [1.0]]}, r"frames must be T = 2 pictures in uint8, got float64"),
        ({"next_frames": np.zeros((3, 4), np.uint8)}, r"next_frames must be .* shape \(3, 4\)"),
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


MAZE = TASKS["maze"]()


def by(policy, *, task=MAZE, count=120, **options):
    return collect_transitions(
        task, **{"count": count, "seed": 3, "episode_steps": 20, "policy": policy, **options}
    )


def is_same(first, second):
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in NAMES)


def test_a_name_says_for_how_long_random_actions_are_kept():
    assert is_same(by("random"), collected_in_maze())
    assert is_same(by("held-1"), by("random"))
    assert not is_same(by("held-4"), by("random"))


def collected_in_maze(**options):
    return collect_transitions(MAZE, count=120, seed=3, episode_steps=20, **options)


def test_a_planner_goes_where_random_actions_do_not_with_the_truth_and_with_a_model():
    planner = RandomShooting(candidates=20, horizon=8)
    distances = {
        name: MAZE.score(by(policy).observations).mean()
        for name, policy in {
            "random": "random",
            "oracle": planner,
            "model": (planner, OracleDynamics(MAZE)),
            "wrong": (planner, lambda observations, actions: observations - actions),
        }.items()
    }
    assert distances["oracle"] == distances["model"] < distances["random"]
    assert distances["wrong"] > distances["oracle"]


def test_a_function_sees_observations_and_its_actions_are_done():
    seen = []

    def east(observations):
        seen.append(observations)
        return np.tile(MAZE.actions.values[1], (len(observations), 1))

    walked = by(east)
    assert (walked.actions == MAZE.actions.values[1]).all()
    assert all(part.shape[1] == MAZE.observation_size for part in seen)
    np.testing.assert_array_equal(
        MAZE.step(walked.observations, walked.actions), walked.next_observations
    )


def test_a_models_own_policy_acts_where_it_is_named():
    class Model:
        def rollout(self, latents, actions):
            return MAZE.rollout(latents, actions)

        def policy(self, latents):
            return np.tile(MAZE.actions.values[2], (len(latents), 1))

    assert (by(Model()).actions == MAZE.actions.values[2]).all()


def test_a_policy_with_noise_is_given_its_step_and_noise():
    told = []

    class Noisy:
        noise_size = 2

        def act(self, observations, step, noise):
            told.append((step, noise.shape))
            return MAZE.actions.nearest(noise)

    walked = by(Noisy(), count=40)
    assert told == [(step, (2, 2)) for step in range(20)]
    assert len(np.unique(walked.actions, axis=0)) > 1
    assert is_same(walked, by(Noisy(), count=40))


def test_a_planner_without_steps_is_told_so():
    class Idle(RandomShooting):
        def plan(self, world_model, latents, rngs, remaining):
            plans = super().plan(world_model, latents, rngs, remaining)
            return plans._replace(lengths=0 * plans.lengths)

    with pytest.raises(CpgError, match=r"plans \[0\] steps: return lengths from 1"):
        by(Idle())


def test_a_mapping_gives_each_policy_its_share_of_the_episodes():
    first, second = (
        lambda observations, value=value: np.tile(value, (len(observations), 1))
        for value in MAZE.actions.values[:2]
    )
    mixed = by({first: 0.75, second: 0.25}, count=160)
    episodes = mixed.actions.reshape(8, 20, -1)
    assert (episodes == episodes[:, :1]).all()
    assert (episodes[:, 0] == MAZE.actions.values[1]).all(axis=1).mean() == 0.25
    assert is_same(
        by({first: 0.75, second: 0.25}, count=40), by({first: 0.75, second: 0.25}, count=40)
    )
    for name in NAMES:
        fewer = getattr(by({first: 0.75, second: 0.25}, count=50), name)
        np.testing.assert_array_equal(fewer, getattr(mixed, name)[:50])


def test_a_list_gives_shares_also_to_what_is_no_key_or_is_equal():
    class Still(OracleDynamics):
        __hash__ = None

    planner = RandomShooting(candidates=4, horizon=3)
    pair = (planner, Still(MAZE))
    assert is_same(by([(pair, 0.5), (pair, 0.5)]), by(pair))
    assert is_same(by([("random", 0.5), ("held-4", 0.5)]), by({"random": 0.5, "held-4": 0.5}))


def test_shares_are_kept_over_more_episodes_than_are_collected_at_once():
    first, second = (
        lambda observations, value=value: np.tile(value, (len(observations), 1))
        for value in MAZE.actions.values[:2]
    )
    actions = by({first: 0.7, second: 0.3}, count=150, episode_steps=1).actions
    counts, turns = np.zeros(2), []
    for episode in range(1, 151):
        behind = np.round(np.array([0.7, 0.3]) * episode - counts, 9)
        turns.append(int(np.argmax(behind)))
        counts[turns[-1]] += 1
    np.testing.assert_array_equal(actions, MAZE.actions.values[turns])


def test_an_episode_of_a_planner_is_the_same_whatever_is_collected_beside_it():
    planner = CEM(samples=8, elites=2, iterations=2, horizon=6, warm_start=True)
    few, many = (by(planner, task=Slider(), count=count, noise=0.2) for count in (30, 1400))
    assert all(np.array_equal(getattr(few, n), getattr(many, n)[:30]) for n in NAMES)


def test_noise_is_the_share_of_steps_that_are_random():
    still = MAZE.actions.values[0]

    def stay(observations):
        return np.tile(still, (len(observations), 1))

    actions = by(stay, noise=0.5, count=2000).actions
    # Of four actions one is the policy's own.
    assert (actions != still).any(axis=1).mean() == pytest.approx(0.375, abs=0.05)
    assert (by(stay, noise=0.0).actions == still).all()


def test_episodes_begin_in_turn_where_they_are_told_to():
    starts = MAZE.reset(np.arange(3))
    begun = by("random", starts=starts).observations[::20]
    np.testing.assert_array_equal(begun, np.tile(MAZE.observe(starts), (2, 1)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": {"random": 0.5, "held-4": 0.4}}, r"shares \[0.5, 0.4\], which add up to 0.9"),
        ({"policy": {"random": 1.5, "held-4": -0.5}}, "numbers above 0"),
        ({"policy": {}}, "add up to 0"),
        ({"policy": {"random": 50, "held-4": 50}}, "parts of 1, so write 0.5 for 50"),
        ({"policy": {"random": np.nan}}, "add up to nan"),
        ({"policy": {"random": "half"}}, r"\('random', 'half'\), which is no policy with a share"),
        ({"policy": ["random", "held-4"]}, r"write \(policy, 0.5\) in a list"),
        ({"policy": {CEM(): 0.5, CEM(): 0.5}}, "equal policies .*list of"),
        ({"policy": lambda seen, actions: seen}, r"model without a policy: write \(planner, model"),
        ({"policy": OracleDynamics(MAZE)}, r"model without a policy: write \(planner, model"),
        ({"policy": "holding"}, 'no policy named \'holding\'. Give "random", "held-8"'),
        ({"policy": "held-0"}, "no policy named 'held-0'"),
        ({"policy": RandomShooting}, r"class RandomShooting.*write RandomShooting\(\.\.\.\)"),
        ({"policy": 3}, "policy is 3. Give"),
        (
            {"policy": lambda seen: np.zeros((1, 2))},
            r"shape \(1, 2\) for 6 .*return shape \(6, 2\)",
        ),
        ({"policy": lambda seen: np.zeros(len(seen))}, r"shape \(6,\) for 6"),
        ({"policy": lambda seen: np.full((len(seen), 2), 9.0)}, "possible is .*clip"),
        ({"policy": lambda seen: np.full((len(seen), 2), np.nan)}, r"action \[nan nan\]"),
        ({"noise": 1.5}, "noise is a share from 0 to 1, got 1.5"),
        ({"noise": "0.1"}, "noise is a share from 0 to 1, got '0.1'"),
        ({"task": "maze"}, "task is 'maze', and no task: write oracle_dynamics.task"),
        ({"policy": {"random": 0.99, "held-0": 0.01}}, "no policy named 'held-0'"),
        ({"relabel": 0.5}, "has no goals to relabel"),
        ({"with_frames": True, "task": Slider()}, "draws no pictures"),
        ({"starts": [[0, 0], [0, 1], [0, np.nan]]}, r"starts\[2, 1\] is nan: leave out"),
        ({"starts": np.zeros((4, 9))}, r"starts must be states \[N, 2\].*not observations"),
    ],
)
def test_what_cannot_act_or_be_kept_is_told_with_what_to_write(options, message):
    with pytest.raises((ValueError, CpgError), match=message):
        by(**{"policy": "random", **options})


def test_goals_are_taken_to_be_where_episodes_ended():
    task = with_goals(TASKS["maze"], Goals(offset=5, within=0.1))()
    plain, half = (by("random", task=task, relabel=share) for share in (0.0, 0.5))
    size = MAZE.observation_size
    for before, after, relabelled in zip(
        plain.next_observations.reshape(6, 20, -1),
        half.next_observations.reshape(6, 20, -1),
        [False, True] * 3,
        strict=True,
    ):
        np.testing.assert_array_equal(before[:, :size], after[:, :size])
        goal = before[-1, :size] if relabelled else before[0, size:]
        assert (after[:, size:] == goal).all()


def test_frames_are_what_is_drawn_before_and_after_each_step(monkeypatch):
    def render(_, states):
        return np.repeat((states[:, :1] * 9).astype(np.uint8)[:, None, :, None], 3, axis=3)

    monkeypatch.setattr(type(MAZE), "render", render, raising=False)
    kept = by("random", with_frames=True)
    np.testing.assert_array_equal(kept.frames, render(None, kept.observations))
    np.testing.assert_array_equal(kept.next_frames, render(None, kept.next_observations))


def test_files_are_mapped_and_hold_what_was_saved(tmp_path):
    kept, path = by("random", with_rewards=True), tmp_path / "new" / "data.npz"
    kept.save(path)
    loaded = Transitions.load(path)
    for name in (*NAMES, "rewards"):
        assert isinstance(getattr(loaded, name), np.memmap)
        np.testing.assert_array_equal(getattr(loaded, name), getattr(kept, name))
    assert loaded.terminations is None
    packed = tmp_path / "packed.npz"
    np.savez_compressed(packed, **{name: getattr(kept, name) for name in NAMES})
    assert is_same(Transitions.load(packed), kept)
    both = loaded + kept
    assert len(both) == 240
    assert (both.rewards[120:] == kept.rewards).all()
    assert is_same(both[120:], kept)
    np.savez(packed, observations=np.zeros((2, 2)))
    with pytest.raises(CpgError, match=r"packed.npz' holds no transitions: .*actions"):
        Transitions.load(packed)
    with pytest.raises(
        CpgError, match=r"cannot write the transitions .*packed.npz/data.npz: .* is no folder"
    ):
        kept.save(packed / "data.npz")


def test_the_page_on_training_data_collects_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("broken.npz", states=MAZE.reset(np.arange(3)))
    page = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
    section = page.partition("## Training data")[2].partition("\n## ")[0]
    names = {"task": MAZE, "model": OracleDynamics(MAZE), "np": np}
    for text in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(re.sub(r"count=[\d_]+", "count=60", text), names)  # noqa: S102  # what a reader types
    assert len(names["data"]) == 120
    assert len(names["more"]) == 60


def test_progress_counts_the_rows():
    told = []
    by("random", count=3000, progress=lambda *counts: told.append(counts))
    assert told == [(1280, 3000), (2560, 3000), (3000, 3000)]

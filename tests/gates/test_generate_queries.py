"""Queries about policies of one's own are answered by the task, each by its seed and index."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
from queries import returns_of, simulated
from sliders import Slider

from pytest_cpg.contracts import BoxActions, ComponentError, CpgError, TaskError
from pytest_cpg.gates.policy_comparison.generate import generate_queries, reached_states
from pytest_cpg.gates.policy_comparison.queries import ARRAYS, PolicyQueries
from pytest_cpg.planners import RandomShooting
from pytest_cpg.planners.policies import (
    FunctionPolicy,
    NoiseMixture,
    PlannerPolicy,
    TanhNetwork,
)


@dataclass(frozen=True)
class Track(Slider):
    """A slider that is pushed by any force and costs its distance at every step."""

    name: str = "track"
    actions = BoxActions(-np.ones(1), np.ones(1))

    def reward(self, states, actions):
        return -0.1 * np.abs(states[..., 0])


TASK = Track()
HOME = FunctionPolicy(lambda observations: np.clip(-observations, -1, 1))
AWAY = FunctionPolicy(lambda observations: np.clip(observations, -1, 1))
POLICIES = (HOME, NoiseMixture(policy=HOME, actions=TASK.actions, share=0.6, seed=0), AWAY)


def generated(task=TASK, policies=POLICIES, **options):
    given = {"gap": 0.5, "seed": 3, "candidates": 100, "horizons": (5, 10)} | options
    return generate_queries(task, policies, **given)


@pytest.fixture(scope="module")
def queries():
    return generated()


def assert_same(found, wanted, rows=slice(None)):
    for name in ARRAYS:
        if name != "episodes":
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name)[rows])


def test_returns_are_what_the_task_pays_step_by_step(queries):
    for query in range(0, len(queries), 25):
        for side in "ab":
            state = getattr(queries, f"states_{side}")[query : query + 1]
            action = getattr(queries, f"actions_{side}")[query : query + 1]
            policy = POLICIES[getattr(queries, f"policy_{side}")[query]]
            total = 0.0
            for _ in range(queries.horizons[query]):
                state = TASK.step(state, action)
                total += TASK.reward(state, action)[0]
                action = policy.act(TASK.observe(state))
            assert total == pytest.approx(getattr(queries, f"returns_{side}")[query])


def test_a_discount_of_nothing_counts_the_first_reward_alone():
    first_only = generated(discount=0.0, gap=0.0)
    step = TASK.step(first_only.states_a, first_only.actions_a)
    np.testing.assert_allclose(first_only.returns_a, TASK.reward(step, None))


def test_a_simulator_confirms_the_labels(queries):
    np.testing.assert_allclose(simulated(queries, TASK), returns_of(queries))


def test_ambiguous_pairs_are_left_out_by_the_gap(queries):
    all_but_ties = generated(gap=0.0)
    assert np.abs(queries.returns_a - queries.returns_b).min() > 0.5
    large = np.abs(all_but_ties.returns_a - all_but_ties.returns_b) > 0.5
    assert_same(queries, all_but_ties, large)
    assert 0 < large.sum() < len(large)


def test_a_candidate_depends_on_seed_horizon_and_index_alone(queries):
    more = generated(candidates=300, horizons=(10, 12))
    at_ten = queries.take(queries.horizons == 10)
    assert_same(at_ten, more, slice(len(at_ten)))
    assert generated(seed=4).returns_a[0] != queries.returns_a[0]


def test_the_better_policies_are_side_a_and_mostly_win(queries):
    assert (queries.policy_a < queries.policy_b).all()
    assert set(zip(queries.policy_a, queries.policy_b, strict=True)) == {(0, 1), (0, 2), (1, 2)}
    assert queries.labels.mean() < 0.45


@dataclass(frozen=True)
class Pit(Track):
    """A track that ends beyond 6, where a puck stays for nothing."""

    name: str = "pit"

    def step(self, states, actions):
        return np.where(self.terminated(states)[..., None], states, super().step(states, actions))

    def reward(self, states, actions):
        return np.where(self.terminated(states), -3.0, super().reward(states, actions))

    def terminated(self, states):
        return np.abs(states[..., 0]) > 6


def test_no_query_starts_where_an_episode_is_over_and_what_is_left_out_is_told(capsys):
    found = generated(task=Pit())
    for side in "ab":
        assert not Pit().terminated(getattr(found, f"states_{side}")).any()
    line = capsys.readouterr().err
    left_out, states = map(int, re.findall(r"\d+", line)[:2])
    assert 0 < left_out < states
    assert "states are left out as starts of queries: their episode is over." in line
    assert_same(generated(task=Pit()), found)
    # What ends an episode is paid, and nothing after it.
    np.testing.assert_allclose(simulated(found, Pit()), returns_of(found), atol=1e-9)
    assert min(found.returns_a.min(), found.returns_b.min()) > -3 - 10 * 0.6


def test_a_task_that_is_over_everywhere_is_refused():
    class Nowhere(Track):
        def terminated(self, states):
            return np.ones(states.shape[:-1], dtype=bool)

    with pytest.raises(ComponentError, match=r"all \d+ states that queries could start from are"):
        generated(task=Nowhere())


@pytest.mark.parametrize("share", [0.0, 0.2, 1.0])
def test_both_kinds_of_query_are_asked(share):
    asked = generated(same_start=share, gap=0.0, candidates=200)
    alike = (asked.states_a == asked.states_b).all(axis=1)
    assert alike.mean() == pytest.approx(share, abs=0.08)
    assert (asked.actions_a != asked.actions_b).any(axis=1)[alike].all()


def test_starts_are_what_each_behaviour_reached():
    def reached(behaviour):
        given = {"policies": 2, "seed": 0, "behaviour": behaviour}
        return np.abs(reached_states(TASK, lambda _, seen, *__: AWAY.act(seen), **given)[:, 0])

    random, learned, mixed = map(reached, ("random", "learned", "mixed"))
    assert len(random) == 200 * (TASK.budget + 1)
    assert random.mean() < mixed.mean() < learned.mean()
    # Away from 0 by at most 3 a step.
    assert learned.max() <= 8 + 3 * TASK.budget


def test_generated_queries_are_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    networks = [TanhNetwork.drawn(1, TASK.actions, rng=rng) for _ in range(2)]
    made = generated(policies=networks, gap=0.0)
    made.save(tmp_path / "made.npz")
    assert_same(PolicyQueries.load(tmp_path / "made.npz"), made)


def ladder(task, budgets=(2, 16), horizon=4):
    return [
        PlannerPolicy(
            planner=RandomShooting(candidates=budget, horizon=horizon),
            dynamics=lambda seen, actions: seen + actions,
            task=task,
            seed=0,
        )
        for budget in budgets
    ]


def test_planners_are_graded_by_their_budget():
    class Walk(Track):
        def step(self, states, actions):
            return states + np.pad(actions, ((0, 0), (0, 1)))

    task, options = Walk(), {"same_start": 1.0, "horizons": (10,)}
    made = generated(task, ladder(task, (40, 1), 1), **options)
    assert made.labels.mean() < 0.1


def test_where_no_state_is_over_nothing_is_announced(capsys):
    generated()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"task": "maze"}, "task must be a task such as TASKS['maze'](), got 'maze'"),
        ({"policies": HOME}, "policies must be a sequence of at least one policy, got Function"),
        ({"horizons": 10}, "horizons must be several, got 10: write (10,)"),
        ({"policies": [HOME]}, "need at least two policies to compare, got 1"),
        ({"policies": [HOME, len]}, "give FunctionPolicy(policies[1])"),
        ({"candidates": 150}, "candidates must be a multiple of 100, which are simulated at once"),
        ({"candidates": 0}, "need candidates to be a whole number of at least 1, got 0"),
        ({"horizons": (10, 5)}, "horizons must increase, got (10, 5): write (5, 10)"),
        ({"horizons": (5, 5)}, "horizons must increase, got (5, 5): write (5,)"),
        ({"horizons": (5.0,)}, "need horizons to be a whole number of at least 1, got 5.0"),
        ({"horizons": ()}, "horizons must be at least one, got none"),
        ({"gap": -1}, "gap must be a number at least 0, got -1"),
        ({"gap": float("nan")}, "gap must be a number at least 0, got nan"),
        ({"discount": 2}, "discount must be a number from 0 to 1, got 2"),
        ({"same_start": "all"}, "same_start must be a number from 0 to 1, got 'all'"),
        (
            {"starts": "expert"},
            "('random', 'learned', 'mixed'), got 'expert'",
        ),
        ({"seed": -1}, "need seed to be a whole number of at least 0, got -1"),
    ],
)
def test_an_impossible_setting_is_refused(changed, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        generated(**changed)


def test_whole_numbers_may_be_numpys(queries):
    whole = {"seed": np.int64(3), "candidates": np.int64(100), "horizons": (np.int64(5), 10)}
    assert_same(generated(**whole), queries)


def test_a_gap_that_no_pair_has_is_said_with_the_largest_difference():
    with pytest.raises(ComponentError, match=r"more than gap=1000\.0: the largest .* is \d.*Lower"):
        generated(gap=1000.0)


def test_a_policy_that_leaves_the_action_space_on_its_way_is_named():
    far = FunctionPolicy(lambda seen: np.where(np.abs(seen) > 12, 2.0, np.sign(seen)))
    with pytest.raises(CpgError, match=r"policy 1 left the action space: row \d+ is \[2\.\]"):
        generated(policies=(HOME, far))


def test_a_task_that_diverges_is_no_query():
    class Diverging(Track):
        def step(self, states, actions):
            after = super().step(states, actions)
            return np.where(np.abs(after[:, :1]) > 20, np.nan, after)

    with pytest.raises(TaskError, match="track: the simulator diverged at step"):
        generated(task=Diverging())

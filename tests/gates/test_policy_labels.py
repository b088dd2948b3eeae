"""Labels are checked by simulating again, and every simulator is the world it stands for."""

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from queries import Push, line_queries

from pytest_cpg.contracts import ComponentError, TaskError
from pytest_cpg.gates.policy_comparison.environments import ENVIRONMENTS, environment
from pytest_cpg.gates.policy_comparison.labels import relabelled, verify_labels
from pytest_cpg.gates.policy_comparison.published import published_queries
from pytest_cpg.gates.policy_comparison.simulators import (
    TaskSimulator,
    side_of,
    simulator_of,
    true_returns,
)
from pytest_cpg.tasks.grids import maze

SHARED = Path(__file__).parents[3] / "shared" / "data" / "opcc"
BODIES = ("hopper", "halfcheetah", "walker2d")
needs_folder = pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the folder with all published queries"
)


class Line:
    """A point that moves by its action, is paid where it is, and falls off beyond 3."""

    def begin(self, states):
        return np.array(states)

    def observe(self, inner):
        return inner[:, :1]

    def step(self, inner, actions):
        after = inner + actions
        return after, after[:, 0], np.abs(after[:, 0]) > 3


def walked(start, first, action, horizon, discount):
    """Return what the point earns, in plain words."""
    total, place = 0.0, start
    for step in range(horizon):
        place += first if step == 0 else action
        total += discount**step * place
        if abs(place) > 3:
            break
    return total


def asked(**changed):
    states = np.linspace(-2, 2, 6)[:, None]
    horizons = np.array([1, 2, 3, 4, 7, 9])
    sides = {"observations": states, "states": states, "actions": -0.5 * np.ones((6, 1))}
    given = {f"{name}_{side}": array for name, array in sides.items() for side in "ab"}
    return line_queries(**(given | {"horizons": horizons, "discount": 0.9} | changed))


def test_returns_stop_at_the_horizon_and_where_the_world_ends():
    queries = asked()
    for side, action in (("a", 1.0), ("b", -1.0)):
        wanted = [
            walked(start, -0.5, action, horizon, 0.9)
            for start, horizon in zip(queries.states_a[:, 0], queries.horizons, strict=True)
        ]
        found = true_returns(Line(), side_of(queries, side, np.arange(6)), queries.act, 0.9)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_without_first_actions_the_policy_acts_at_once():
    queries = asked(actions_a=None, actions_b=None)
    starts = zip(queries.states_a[:, 0], queries.horizons, strict=True)
    wanted = [walked(start, 1.0, 1.0, horizon, 0.9) for start, horizon in starts]
    side = side_of(queries, "a", np.arange(6))
    np.testing.assert_allclose(true_returns(Line(), side, queries.act, 0.9), wanted)


def true_queries():
    queries = asked(policies=(Push(1.0), Push(0.25)), actions_a=None, actions_b=None)
    return relabelled(queries, Line())


def test_labels_made_by_a_simulator_are_confirmed_by_it():
    queries = true_queries()
    found = verify_labels(queries, Line())
    assert found.share == 1
    assert not found.errors.any()


def test_a_label_that_the_simulator_denies_is_named():
    queries = true_queries()
    a, b = queries.returns_a.copy(), queries.returns_b.copy()
    a[3], b[3] = b[3], a[3]
    found = verify_labels(replace(queries, returns_a=a, returns_b=b), Line())
    assert found.flipped.tolist() == [False, False, False, True, False, False]
    assert found.per_horizon == {1: (1, 1), 2: (1, 1), 3: (1, 1), 4: (0, 1), 7: (1, 1), 9: (1, 1)}
    assert "5 of 6 labels agree (83.33 %)" in str(found)
    assert "horizon 4: 0 of 1, not query 3" in str(found)


def test_some_labels_are_checked_evenly():
    found = verify_labels(true_queries(), Line(), count=3)
    assert found.rows.tolist() == [0, 2, 5]
    with pytest.raises(ValueError, match="count must be from 1 to 6, got 7"):
        verify_labels(true_queries(), Line(), count=7)


def test_relabelled_queries_lose_their_ties():
    other = np.array([-2.0, 0, 0, 0, 0, 0])[:, None]
    pushes = (Push(1.0), Push(1.0))
    alike = asked(policies=pushes, actions_a=None, actions_b=None, states_b=other)
    assert len(relabelled(alike, Line())) == 5


def test_what_cannot_be_simulated_says_why():
    with pytest.raises(ValueError, match="these queries have no states"):
        verify_labels(line_queries(), Line())
    with pytest.raises(ComponentError, match=r"'line'\. .* For a task, give TaskSimulator\(task\)"):
        verify_labels(asked())

    class Diverging(Line):
        def step(self, inner, actions):
            return inner, np.where(inner[:, 0] > 1, np.nan, 0), np.zeros(len(inner), dtype=bool)

    with pytest.raises(TaskError, match="diverged in row 4 at step 1, after"):
        verify_labels(asked(), Diverging())


def test_a_task_is_a_simulator():
    task = maze()
    starts = task.reset(np.arange(4))
    simulator = TaskSimulator(task)
    after, rewards, ended = simulator.step(simulator.begin(starts), task.actions.values)
    np.testing.assert_array_equal(after, task.step(starts, task.actions.values))
    np.testing.assert_array_equal(rewards, task.reward(after, task.actions.values))
    assert not ended.any()


@pytest.mark.parametrize("name", ["maze-open", "maze-umaze"])
def test_labels_of_the_shipped_mazes_agree_without_a_simulator_installed(name):
    found = verify_labels(published_queries(name), count=250)
    assert found.share == 1
    assert (found.errors == 0).mean() > 0.98


@pytest.mark.parametrize("name", BODIES)
def test_bodies_move_and_earn_as_in_their_environment(name):
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("mujoco")
    world = environment(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bare = gymnasium.make(world.body).unwrapped
    rng = np.random.default_rng(0)
    simulator = simulator_of(name)
    ended = 0
    for seed in range(3):
        bare.reset(seed=seed)
        positions, velocities = bare.data.qpos.copy(), rng.normal(size=bare.model.nv)
        bare.set_state(positions, velocities)
        inner = simulator.begin(np.concatenate([positions, velocities])[None])
        np.testing.assert_allclose(simulator.observe(inner)[0], bare._get_obs())
        for _ in range(60):
            action = rng.uniform(-1, 1, size=(1, world.actions.size))
            inner, rewards, has_ended = simulator.step(inner, action)
            seen, reward, terminated, _, _ = bare.step(action[0])
            np.testing.assert_allclose(simulator.observe(inner)[0], seen, atol=1e-9)
            assert rewards[0] == pytest.approx(reward)
            assert has_ended[0] == terminated
            if terminated:
                ended += 1
                break
    assert (ended > 0) == (name != "halfcheetah")


def test_a_body_that_is_none_is_refused():
    pytest.importorskip("gymnasium")
    from pytest_cpg.tasks.gymnasium.bodies import Bodies

    with pytest.raises(ComponentError, match="gym:CartPole-v1 has no MuJoCo body; take one such"):
        Bodies("CartPole-v1")


@needs_folder
@pytest.mark.slow
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_all_published_labels_agree_as_documented(name):
    found = verify_labels(published_queries(name, SHARED))
    # Per mille; HalfCheetah's is what is measured, and nobody knows why.
    least = {"hopper": 999, "walker2d": 995, "halfcheetah": 940}.get(name, 1000)
    assert found.share >= least / 1000
    page = (Path(__file__).parents[2] / "docs" / "policy-queries.md").read_text(encoding="utf-8")
    median, largest = np.median(found.errors), found.errors.max()
    wanted = rf"{name}.*{100 * found.share:.2f} %.*{median:.3g}, {largest:.3g} "
    assert re.search(wanted, page), str(found)

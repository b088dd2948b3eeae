"""Queries from recorded episodes: no simulator, no policy, and none of the tool's own files."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from comparisons import Carts, moved, paid
from queries import side_of

from pytest_cpg.contracts import ComponentError
from pytest_cpg.gates.policy_comparison.generate import true_returns
from pytest_cpg.gates.policy_comparison.logs import (
    Episode,
    Episodes,
    queries_from_episodes,
    read_episodes,
)
from pytest_cpg.gates.policy_comparison.measure import digest_of
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries

# Beyond this an episode of the cart is over.
EDGE = 6.0


def recorded(count=60, *, steps=80, seed=0):
    """Return D4RL's arrays of carts that are pushed about: cut after some steps, or at the edge."""
    rng = np.random.default_rng(seed)
    rows = {name: [] for name in ("observations", "actions", "rewards", "terminals", "timeouts")}
    rows["next_observations"] = []
    for _ in range(count):
        state, wish = rng.normal(size=(1, 2)), rng.uniform(-1, 1)
        for step in range(steps):
            action = np.clip(wish + 0.5 * rng.normal(size=(1, 1)), -1, 1)
            wish = wish if rng.random() < 0.9 else rng.uniform(-1, 1)
            after = moved(state, 4 * action)
            is_over = bool(abs(after[0, 0]) > EDGE)
            for name, value in (
                ("observations", state[0]),
                ("actions", action[0]),
                ("rewards", paid(after)[0]),
                ("terminals", is_over),
                ("timeouts", step == steps - 1 and not is_over),
                ("next_observations", after[0]),
            ):
                rows[name].append(value)
            state = after
            if is_over:
                break
    return {name: np.array(values) for name, values in rows.items()}


ARRAYS = recorded()


class Strong(Carts):
    """The carts of the logs, which are pushed four times as hard."""

    def step(self, observations, actions):
        return super().step(observations, 4 * actions)


def without(*names):
    return {name: values for name, values in ARRAYS.items() if name not in names}


def assert_same(first, second):
    assert len(first) == len(second)
    for one, other in zip(first.episodes, second.episodes, strict=True):
        np.testing.assert_array_equal(one.observations, other.observations)
        np.testing.assert_array_equal(one.actions, other.actions)
        np.testing.assert_array_equal(one.rewards, other.rewards)
        assert one.terminated == other.terminated


def test_episodes_are_cut_where_they_ended_and_where_they_were_left():
    found = read_episodes(ARRAYS)
    assert len(found) == 60
    ended = [one.terminated for one in found.episodes]
    assert 5 < sum(ended) < 55
    for one in found.episodes:
        is_out = np.abs(one.observations[:, 0]) > EDGE
        assert is_out[-1] == one.terminated
        assert not is_out[:-1].any()
        np.testing.assert_array_equal(
            one.observations[1:], moved(one.observations[:-1], 4 * one.actions)
        )
    assert_same(read_episodes(without("timeouts")), found)


def test_transitions_lead_to_where_their_own_episode_went_on():
    whole = read_episodes(ARRAYS).transitions
    for steps in (whole, read_episodes(without("next_observations")).transitions):
        np.testing.assert_array_equal(
            steps.next_observations, moved(steps.observations, 4 * steps.actions)
        )
    assert len(whole) == len(ARRAYS["actions"])
    np.testing.assert_array_equal(whole.terminations, ARRAYS["terminals"])
    # The last step of each episode is left out where nobody wrote down where it led to.
    assert len(whole) - len(steps) == 60


def test_every_kind_of_log_is_the_same_episodes(tmp_path):
    found = read_episodes(ARRAYS)
    minari = [
        SimpleNamespace(
            observations=one.observations,
            actions=one.actions,
            rewards=one.rewards,
            terminations=one.ends,
            truncations=None,
        )
        for one in found.episodes
    ]
    assert_same(read_episodes(minari), found)
    assert_same(read_episodes(vars(one) for one in minari), found)


def test_a_file_of_d4rl_is_read_as_its_arrays_are(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "cart-medium-v0.hdf5", "w") as file:
        for name, values in ARRAYS.items():
            file.create_dataset(name, data=values, compression="gzip")
        file.create_group("infos").create_dataset("qpos", data=np.zeros(3))
        file.create_group("metadata")["algorithm"] = "SAC"
    found = read_episodes(tmp_path / "cart-medium-v0.hdf5")
    assert found.name == "cart-medium-v0"
    assert_same(found, read_episodes(ARRAYS))
    (tmp_path / "damaged.hdf5").write_bytes(b"no file of its kind")
    with pytest.raises(ValueError, match=r"cannot read .*damaged\.hdf5 as HDF5"):
        read_episodes(tmp_path / "damaged.hdf5")


def test_without_h5py_the_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ComponentError, match=r'Type: pip install "pytest-cpg\[hdf5\]"'):
        read_episodes(tmp_path / "logs.hdf5")


def test_returns_are_what_was_logged_and_what_the_world_pays():
    queries = queries_from_episodes(ARRAYS, seed=0, discount=0.99)
    assert len(queries) > 600
    assert 0.4 < queries.labels.mean() < 0.6
    assert queries.actions_a.shape == (len(queries), 50, 1)

    class World:
        def step(self, states, actions):
            return moved(states, 4 * actions)

        def observe(self, states):
            return states

        def reward(self, states, actions):
            return paid(states)

        def terminated(self, states):
            return np.abs(states[..., 0]) > EDGE

    for side, earned in (("a", queries.returns_a), ("b", queries.returns_b)):
        states = {f"states_{one}": getattr(queries, f"observations_{one}") for one in "ab"}
        given = side_of(PolicyQueries(**(fields(queries) | states)), side)
        found = true_returns(World(), given, None, queries.discount)
        np.testing.assert_allclose(found, earned)


def fields(queries):
    return {name: getattr(queries, name) for name in PolicyQueries.__dataclass_fields__}


def test_sides_begin_near_one_another_so_that_actions_decide():
    queries = queries_from_episodes(ARRAYS, seed=0)
    apart = np.abs(queries.observations_a - queries.observations_b).mean()
    other = np.abs(queries.observations_a - queries.observations_b[::-1]).mean()
    assert apart < 0.3 * other


def test_queries_of_one_episode_are_one_group_and_the_seed_decides():
    queries = queries_from_episodes(ARRAYS, seed=0, horizons=(20,))
    assert queries.groups.max() + 1 == len(np.unique(queries.episodes)) <= 60
    again, other = (queries_from_episodes(ARRAYS, seed=seed, horizons=(20,)) for seed in (0, 1))
    assert digest_of(again) == digest_of(queries) != digest_of(other)
    # A horizon has its own stream.
    both = queries_from_episodes(ARRAYS, seed=0, horizons=(10, 20))
    np.testing.assert_array_equal(both.returns_a[both.horizons == 20], queries.returns_a)


def test_they_are_kept_in_a_file_without_policies(tmp_path):
    queries = queries_from_episodes(ARRAYS, seed=0)
    queries.save(tmp_path / "logged.npz")
    loaded = PolicyQueries.load(tmp_path / "logged.npz")
    assert loaded.policies == ()
    assert digest_of(loaded) == digest_of(queries)
    np.testing.assert_array_equal(loaded.groups, queries.groups)


def test_nobody_is_asked_about_what_was_trained_on():
    logs = read_episodes(ARRAYS)
    train, held = logs.split()
    assert (len(train), len(held)) == (48, 12)
    assert not {id(one) for one in train.episodes} & {id(one) for one in held.episodes}
    with pytest.raises(ValueError, match="3 episodes leave none to ask about"):
        Episodes(logs.episodes[:3]).split()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (without("rewards"), "there is no 'rewards' among actions, next_observations, obs"),
        (without("timeouts", "next_observations"), "neither timeouts nor next_observations"),
        (3, "need a path, arrays by name or episodes, got 3"),
        ([{"observations": {"image": 0}}], "an episode has observations of dict: give arrays"),
        (
            [
                {
                    "observations": np.zeros((5, 2)),
                    "actions": np.zeros((3, 1)),
                    "rewards": np.zeros(3),
                    "terminations": np.zeros(3),
                }
            ],
            "an episode has 5 observations, 3 actions and 3 rewards",
        ),
    ],
)
def test_what_has_another_layout_is_refused_with_what_to_give(given, said):
    with pytest.raises(ValueError, match=said):
        read_episodes(given)


def test_horizons_that_no_episode_has_are_left_out_or_refused():
    short = Episodes(
        tuple(
            Episode(
                observations=np.arange(13.0)[:, None] + n,
                actions=np.ones((12, 1)),
                rewards=np.arange(12.0) + n,
                terminated=False,
            )
            for n in range(5)
        )
    )
    assert set(queries_from_episodes(short, seed=0).horizons) == {10}
    with pytest.raises(ValueError, match="ask about shorter horizons, or lower the gap"):
        queries_from_episodes(short, seed=0, horizons=(50,))


GATE = """
import numpy as np
import pytest
from test_logged_queries import EDGE, Strong, recorded
from comparisons import Frozen

from pytest_cpg.gates.policy_comparison.logs import queries_from_episodes, read_episodes

TRAIN, HELD = read_episodes(recorded(240)).split()


@pytest.fixture
def training_data():
    return TRAIN.transitions


@pytest.fixture
def learned_dynamics(request):
    return Frozen() if "frozen" in request.node.name else Strong()


@pytest.mark.cpg_opcc(
    queries=queries_from_episodes(HELD, seed=0), terminated=lambda seen: np.abs(seen[:, 0]) > EDGE
)
def test_good(cpg_opcc):
    assert cpg_opcc.loss.estimate < 0.03


@pytest.mark.cpg_opcc(queries=queries_from_episodes(HELD, seed=0))
def test_frozen(cpg_opcc): ...
"""


def test_a_gate_on_logs_passes_a_good_model_and_fails_a_world_in_which_nothing_moves(pytester):
    pytester.makeini("[pytest]\naddopts = -p no:hypothesispytest\n")
    pytester.makepyfile(test_logs=GATE)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*KNOWS ITS LIMITS (1)*"])
    result.stdout.fnmatch_lines(["BROKEN: the model is wrong on *"])


NO_SIMULATOR = """
import sys


def pytest_sessionfinish():
    assert not {"gymnasium", "mujoco", "dm_control"} & {*sys.modules}
"""


@pytest.mark.trains
def test_a_file_of_d4rl_becomes_a_gate_in_ten_lines_without_a_simulator(pytester):
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("torch")
    page = (Path(__file__).parents[2] / "docs" / "policy-queries.md").read_text(encoding="utf-8")
    (typed,) = re.findall(r"```python\n# test_logs\.py\n(.*?)```", page, re.DOTALL)
    assert len([line for line in typed.splitlines() if line.strip()]) <= 10
    with h5py.File(pytester.path / "hopper-medium-v2.hdf5", "w") as file:
        for name, values in recorded(200).items():
            file[name] = values
    quick = typed.replace("seed=0)\n\n\n@", "seed=0, members=5, updates=300, hidden=64)\n\n\n@")
    assert quick != typed
    pytester.makeini("[pytest]\naddopts = -p no:hypothesispytest\n")
    pytester.makeconftest(NO_SIMULATOR)
    pytester.makepyfile(test_logs=quick)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*KNOWS ITS LIMITS (1)*"])

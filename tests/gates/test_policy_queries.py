"""Queries are frozen, checked when they are made, and kept without pickles."""

import contextlib
import pickle
import re

import numpy as np
import pytest
from queries import SPACE, Push, arrays, line_queries

from pytest_cpg.contracts import BoxActions, CpgError, FiniteActions
from pytest_cpg.gates.policy_comparison.queries import ARRAYS, PolicyQueries
from pytest_cpg.machine.files import FileError
from pytest_cpg.planners.policies import FunctionPolicy, NoiseMixture, TanhNetwork

# Without policies, all actions have to be there.
ALONE = {"policies": (), "policy_a": np.zeros(6, int), "policy_b": np.zeros(6, int)}
LEVELS = FiniteActions(np.array([[-1.0], [1.0]]))


def network(seed=0, actions=SPACE):
    return TanhNetwork.drawn(1, actions, rng=np.random.default_rng(seed), hidden=(4,))


def test_labels_say_whether_side_b_is_better():
    queries = line_queries()
    assert len(queries) == 6
    assert queries.labels.tolist() == [True, True, True, False, False, False]


def test_queries_copy_what_they_are_given_and_cannot_be_written_to():
    given = arrays()
    queries = PolicyQueries(**given)
    given["returns_a"][0] = 99
    assert queries.returns_a[0] == 1
    for name in ARRAYS:
        array = getattr(queries, name)
        if array is not None:
            assert not array.flags.writeable, name


def test_queries_from_one_start_are_one_group():
    starts = np.array([0.0, 1.0, 0.0, 2.0, 1.0, 0.0])[:, None]
    groups = line_queries(observations_a=starts).groups
    assert groups.tolist() == [0, 1, 0, 2, 1, 0]
    states = np.arange(6.0)[:, None]
    seen_alike = line_queries(observations_a=starts, states_a=states, states_b=states)
    assert seen_alike.groups.tolist() == [0, 1, 2, 3, 4, 5]


def test_some_queries_are_taken_by_index_or_mask():
    queries = line_queries()
    assert queries.take([4, 0]).returns_a.tolist() == [5, 1]
    assert queries.take(queries.labels).returns_a.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="no query is taken: give at least one index"):
        queries.take([])


def test_a_rule_for_the_end_of_episodes_is_asked_in_any_shape_and_no_query_starts_there(tmp_path):
    def is_far(observations):
        assert observations.shape == (len(observations), 1)
        return np.abs(observations[:, 0]) > 2

    queries = line_queries(terminated=is_far)
    places = np.array([[[0.0], [3.0]], [[-2.5], [2.0]]])
    assert queries.ended(places).tolist() == [[False, True], [True, False]]
    assert queries.take([0, 5]).terminated is is_far
    # A function is in no file, and is given again as policies are.
    queries.save(tmp_path / "q.npz")
    policies = queries.policies
    assert PolicyQueries.load(tmp_path / "q.npz", policies).terminated is None
    assert PolicyQueries.load(tmp_path / "q.npz", policies, is_far).terminated is is_far
    with pytest.raises(ValueError, match=r"query 0 starts where .* and so do 1 more: leave them"):
        line_queries(terminated=lambda observations: np.abs(observations[:, 0]) > 0.9)
    with pytest.raises(ValueError, match=r"terminated gave float64 of shape \(6, 1\) for"):
        line_queries(terminated=np.abs)


@pytest.mark.parametrize(
    ("spoiled", "said"),
    [
        ({"environment": ""}, "environment must be a name, got ''"),
        ({"policies": ()}, "policies must be a sequence of at least one policy, got ()"),
        (
            {**ALONE, "actions_a": np.zeros((6, 9, 1)), "actions_b": np.zeros((6, 9, 1))},
            "there are no policies, and actions of 9 of 10 steps: give policies, or actions_a and "
            "actions_b [N, 10, A]",
        ),
        ({"policies": Push(1)}, "policies must be a sequence of at least one policy"),
        ({"policies": [Push(1), len]}, "[B, A]: give FunctionPolicy(policies[1])"),
        ({"observations_b": np.zeros((6, 2))}, "observations_b must have shape (6, 1), got (6, 2)"),
        ({"observations_b": np.zeros((5, 1))}, "observations_b must have shape (6, 1), got (5, 1)"),
        ({"observations_a": np.zeros(6)}, "observations_a must have shape (6, 1), got (6,)"),
        (
            {"observations_a": np.zeros((0, 1))},
            "observations_a has no rows: give at least one query",
        ),
        ({"observations_a": None}, "observations_a is missing: give an array"),
        ({"observations_a": "start"}, "observations_a must be an array of numbers, got 'start'"),
        ({"returns_a": np.arange(5.0)}, "returns_a must have shape (6,), got (5,)"),
        (
            {"returns_b": [1, 2, np.nan, 4, 5, 6]},
            "returns_b must be finite, and query 2 has nan: leave it out, or compute it again",
        ),
        (
            {"returns_b": [1, 9, 9, 4, 9, 9]},
            "query 0 has the return 1.0 on both sides, and so have 1 more: neither policy is "
            "better. Leave out where returns_a == returns_b",
        ),
        ({"horizons": np.full(6, 10.0)}, "horizons must be whole numbers of shape (6,), got float"),
        ({"horizons": [1, 2, 3, 0, 5, 6]}, "horizons must be at least 1, and query 3 has 0"),
        ({"policy_b": np.full(6, 2)}, "policy_b must be from 0 to 1, and query 0 has 2"),
        ({"policy_a": np.full(6, -1)}, "policy_a must be from 0 to 1, and query 0 has -1"),
        ({"discount": 1.5}, "discount must be from 0 to 1, got 1.5"),
        ({"discount": float("nan")}, "discount must be from 0 to 1, got nan"),
        ({"discount": "1"}, "discount must be from 0 to 1, got '1'"),
        ({"states_a": np.zeros((6, 2))}, "states_b is missing: give both sides, or neither"),
        ({"actions_b": np.zeros((6, 1))}, "actions_a is missing: give both sides, or neither"),
        (
            {"actions_a": np.zeros((6, 2)), "actions_b": np.zeros((6, 2))},
            "actions_a must have shape [N, 1], got (6, 2)",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_value_and_the_cure(spoiled, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        line_queries(**spoiled)


class Flat:
    def act(self, observations):
        return observations[:, 0]


RNG = np.random.default_rng(0)
DRAWING = FunctionPolicy(lambda observations: RNG.uniform(-1, 1, size=observations.shape))
OUTSIDE = np.array([[0.0], [0.0], [-2.0], [0.0], [0.0], [0.0]])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"policies": (Push(1.5), Push(0.0))},
            "policy 0 left the action space: row 0 is [1.5], and possible is [-1.] to [1.]. Clip",
        ),
        (
            {"policies": (Push(np.nan), Push(0.0))},
            "policy 0 gave the action [nan] for observation 0, [-1.]: return finite numbers",
        ),
        ({"policies": (Push("left"), Push(0.0))}, "policy 0 gave array([['left']"),
        ({"policies": (Push(0.0), DRAWING)}, "Draw from the noise"),
        (
            {"actions_a": np.zeros((6, 1)), "actions_b": OUTSIDE},
            "actions_b left the action space: row 2 is [-2.]",
        ),
        (
            {"action_space": LEVELS, "policies": (Push(0.0), Push(1.0))},
            "possible is one of 2 actions such as [-1.]. Return the",
        ),
        (
            {"action_space": None, "policies": (Flat(), Push(0.0))},
            "actions of shape (6,) for 6 observations: return shape",
        ),
    ],
)
def test_a_policy_that_does_the_impossible_is_refused(changed, said):
    with pytest.raises(CpgError, match=re.escape(said)):
        line_queries(**changed)


def test_what_is_possible_is_what_the_action_space_says():
    assert len(line_queries(action_space=LEVELS)) == 6
    assert len(line_queries(action_space=None, policies=(Push(1e9), Push(0.0)))) == 6


@pytest.mark.parametrize(
    "space", [SPACE, FiniteActions(np.array([[-1.0], [1.0]]))], ids=["box", "set"]
)
def test_queries_about_networks_come_back_whole_from_their_file(tmp_path, space):
    path = tmp_path / "made" / "queries.npz"
    first = np.sign(np.arange(6) - 2.5)[:, None]
    policies = (network(0, space), network(1, space))
    before = line_queries(
        policies=policies, action_space=space, discount=0.9, actions_a=first, actions_b=-first
    )
    before.save(path)
    after = PolicyQueries.load(path)
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert (after.environment, after.discount) == ("line", 0.9)
    assert type(after.action_space) is type(space)
    seen = np.linspace(-3, 3, 20)[:, None]
    for old, new in zip(before.policies, after.policies, strict=True):
        np.testing.assert_array_equal(new.act(seen), old.act(seen))


def test_policies_that_no_file_holds_are_given_again_and_recognised(tmp_path):
    path = tmp_path / "queries.npz"
    policies = [network(), NoiseMixture(policy=network(), actions=SPACE, share=0.5, seed=1)]
    line_queries(policies=policies).save(path)
    assert len(PolicyQueries.load(path, policies)) == 6
    with pytest.raises(FileError, match=r"holds no policy 1: only networks .* all 2: ") as told:
        PolicyQueries.load(path)
    call, _, line = str(told.value).partition("queries=")[2].partition(", from ")
    names = {}
    exec(f"from {line}", names)  # noqa: S102  # what a reader types
    given = eval(call.replace("[...]", "given"), {**names, "given": policies})  # noqa: S307
    assert len(given) == 6
    with pytest.raises(FileError, match="asks about 2 policies, and 1 were given: give all"):
        PolicyQueries.load(path, policies[:1])
    with pytest.raises(FileError, match=r"policy 0 is not the one whose returns are in .*: it d"):
        PolicyQueries.load(path, policies[::-1])


def rewritten(path, **changed):
    with np.load(path) as stored:
        content = dict(stored) | changed
    np.savez(path, **{name: value for name, value in content.items() if value is not None})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"returns_b": None}, "it has no array 'returns_b', only"),
        ({"returns_a": np.full(6, np.nan)}, "returns_a must be finite, and query 0 has nan"),
        ({"format": None}, "it does not say its format, and so is not from PolicyQueries.save"),
        ({"format": 2}, "its format is 2, and this pytest-cpg reads 1. Upgrade: pip install"),
        ({"policy0_bias0": np.zeros(3)}, "layer 1 has weights (4, 1) and biases (3,)"),
        ({"horizons": np.array([None] * 6)}, "its array 'horizons' cannot be read (Object arrays"),
        ({"space_box": np.zeros((3, 1))}, "cannot use the queries"),
    ],
)
def test_a_spoiled_file_is_refused_by_its_name(tmp_path, changed, said):
    path = tmp_path / "queries.npz"
    line_queries(policies=(network(0), network(1))).save(path)
    rewritten(path, **changed)
    with pytest.raises(FileError, match=re.escape(said)) as refused:
        PolicyQueries.load(path)
    assert str(path) in str(refused.value)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was read",))


@pytest.mark.parametrize("name", ["queries.npz", "queries.p"])
def test_a_pickle_is_never_read(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps({"queries": Bomb()}))
    with pytest.raises(FileError, match=r"it is no \.npz .* no pickle is ever read"):
        PolicyQueries.load(path)
    np.save(tmp_path / "one.npy", np.array([Bomb()]), allow_pickle=True)
    with pytest.raises(FileError, match="no pickle is ever read"):
        PolicyQueries.load(tmp_path / "one.npy")


def test_a_file_that_is_not_there_or_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileError, match=r"there is no file of queries .*none\.npz. Check the path"):
        PolicyQueries.load(tmp_path / "none.npz")
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"cannot write .*Name another path"):
        line_queries(policies=(network(), network())).save(tmp_path / "file" / "queries.npz")


def test_a_box_of_other_bounds_is_kept(tmp_path):
    space = BoxActions(np.array([-2.0]), np.array([0.5]))
    policies = (network(0, space), network(1, space))
    line_queries(policies=policies, action_space=space).save(tmp_path / "q.npz")
    kept = PolicyQueries.load(tmp_path / "q.npz").action_space
    assert (kept.low, kept.high) == (-2.0, 0.5)


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_file_is_refused_or_read(tmp_path, seed):
    path, rng = tmp_path / "queries.npz", np.random.default_rng(seed)
    line_queries(policies=(network(0), network(1))).save(path)
    content = bytearray(path.read_bytes())
    # A member's data, and what the archive says of it at its end.
    for place in (rng.integers(len(content)), -rng.integers(1, 900)):
        content[place] = rng.integers(256)
    path.write_bytes(content)
    # What is none of these would be a crash to a user.
    with contextlib.suppress(FileError):
        assert len(PolicyQueries.load(path)) == 6

"""Published queries, in examples/experiments/opcc, are what they were, and so are their worlds."""

import os
import pickle
import re
from pathlib import Path

import labels
import numpy as np
import pytest
from convert import convert, read_arrays
from worlds import (
    BODIES,
    HERE,
    WORLDS,
    gym_body,
    hopper_fell,
    published_queries,
    walker_fell,
    world_of,
)

from pytest_cpg.gates.policy_comparison.queries import ARRAYS

# As convert.py writes them, and what it reads.
ALL, CLONE = os.environ.get("OPCC_QUERIES", ""), os.environ.get("OPCC_CLONE", "")
FOLDER = Path("opcc", "assets", "d4rl:maze2d-umaze-v1")
MAZES = ("maze-open", "maze-umaze")
ROWS = range(0, 1500, 6)


@pytest.mark.parametrize(("name", "true"), [("maze-open", 510), ("maze-umaze", 666)])
def test_two_mazes_are_here_with_their_licence(name, true):
    queries = published_queries(name)
    assert len(queries) == 1500
    assert queries.labels.sum() == true
    assert (queries.policy_a < queries.policy_b).all()
    assert sorted(set(queries.horizons)) == [20, 30, 40, 50]
    np.testing.assert_array_equal(queries.observations_a, queries.states_a)
    assert "Apache License" in (HERE / "data" / "LICENSE").read_text(encoding="utf-8")
    notice = (HERE / "data" / "NOTICE").read_text(encoding="utf-8")
    assert "Copyright 2021 Anurag Koul" in notice
    assert "Changes:" in notice


@pytest.mark.parametrize("name", MAZES)
def test_labels_of_mazes_agree(name):
    flipped, errors = labels.checked(published_queries(name).take(ROWS), world_of(name))
    assert not flipped.any()
    assert (errors == 0).mean() > 0.98


@pytest.mark.skipif(not ALL, reason="needs all published queries, in a folder OPCC_QUERIES")
@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_all_published_labels_agree_as_documented(name):
    flipped, errors = labels.checked(published_queries(name, ALL), world_of(name))
    page = (HERE / "README.md").read_text(encoding="utf-8")
    wanted = (
        rf"{name}.*{100 * (1 - flipped.mean()):.2f} %.*{np.median(errors):.3g}, {errors.max():.3g} "
    )
    assert re.search(wanted, page)


@pytest.mark.parametrize(
    ("fell", "upright", "fallen"),
    [
        (hopper_fell, [1.25, 0.1], [[0.69, 0.0], [1.25, 0.21], [1.25, -0.21], [np.nan, 0]]),
        (walker_fell, [1.25, 0.9], [[0.79, 0.0], [2.01, 0.0], [1.25, 1.01], [1.25, np.nan]]),
    ],
)
def test_bodies_fall_where_the_environment_says(fell, upright, fallen):
    assert not fell(np.array([*upright, *np.zeros(9)]))
    for place in fallen:
        assert fell(np.array([*place, *np.zeros(9)]))


@pytest.mark.parametrize("name", BODIES)
def test_bodies_move_and_earn_as_in_their_environment(name):
    pytest.importorskip("gymnasium")
    pytest.importorskip("mujoco")
    bare, world, rng, ended = gym_body(name), world_of(name), np.random.default_rng(0), 0
    for seed in range(3):
        bare.reset(seed=seed)
        positions, velocities = bare.data.qpos.copy(), rng.normal(size=bare.model.nv)
        bare.set_state(positions, velocities)
        states = world.begin(np.concatenate([positions, velocities])[None])
        np.testing.assert_allclose(world.observe(states)[0], bare._get_obs())
        for _ in range(60):
            action = rng.uniform(-1, 1, size=(1, bare.model.nu))
            states = world.step(states, action)
            seen, reward, terminated, _, _ = bare.step(action[0])
            np.testing.assert_allclose(world.observe(states)[0], seen, atol=1e-9)
            assert world.reward(states, action)[0] == pytest.approx(reward)
            assert world.terminated(states)[0] == terminated
            if terminated:
                ended += 1
                break
    assert (ended > 0) == (name != "halfcheetah")


def upstream(queries, first, second):
    """Return the benchmark's entry of one pair of policies, counted from 0."""
    own = queries.take((queries.policy_a == first) & (queries.policy_b == second))
    times = np.zeros((len(own), 1))
    info = {"runs": 10}
    pair = {"horizon": own.horizons, "target": own.labels, "info": info}
    for side in "ab":
        pair[f"obs_{side}"] = getattr(own, f"observations_{side}")
        pair[f"action_{side}"] = getattr(own, f"actions_{side}").astype(np.float32)
        info[f"return_{side}"] = getattr(own, f"returns_{side}")
        info[f"state_{side}"] = np.concatenate([times, getattr(own, f"states_{side}")], axis=1)
        info[f"return_list_{side}"] = [list(row) for row in np.ones((len(own), 2))]
    return pair


@pytest.fixture
def clone(tmp_path):
    """A clone with the queries of a maze, laid out as the benchmark has them."""
    torch = pytest.importorskip("torch")
    queries = published_queries("maze-umaze")
    content = {
        (("maze", a + 1), ("maze", b + 1)): upstream(queries, a, b)
        for a in range(4)
        for b in range(a + 1, 4)
    }
    models = tmp_path / FOLDER / "models"
    models.mkdir(parents=True)
    (tmp_path / FOLDER / "queries.p").write_bytes(pickle.dumps(content, 3))
    for number, policy in enumerate(queries.policies, 1):
        weights = {}
        for layer, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True), 1):
            weights[f"actor.linear{layer}.weight"] = torch.tensor(weight, dtype=torch.float32)
            weights[f"actor.linear{layer}.bias"] = torch.tensor(bias, dtype=torch.float32)
            weights[f"critic.linear{layer}.bias"] = torch.zeros(3)
        torch.save(weights, models / f"model_{number}.p")
    return tmp_path


def assert_same(found, wanted):
    for name in set(ARRAYS) - {"episodes"}:
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-6)
    for ours, theirs in zip(found.policies, wanted.policies, strict=True):
        for own, other in zip(ours.weights, theirs.weights, strict=True):
            np.testing.assert_array_equal(own, other)


def test_a_clone_gives_the_published_queries(clone):
    assert_same(convert(clone, "maze-umaze"), published_queries("maze-umaze"))


@pytest.mark.skipif(not CLONE, reason="needs a clone of koulanurag/opcc, named in OPCC_CLONE")
@pytest.mark.parametrize("name", MAZES)
def test_the_real_clone_gives_the_published_queries(name):
    assert_same(convert(Path(CLONE), name), published_queries(name))


RAN = []


class Named:
    """What a pickle may name to have it run."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


STATE = np.dtype("f8").__reduce__()[2]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (Named(os.system, ("true",)), f"{os.system.__module__}.system"),
        (Named(RAN.append, (1,)), "builtins.getattr"),
        (Named(eval, ("1",)), "builtins.eval"),
        (Named(np.fromfile, ("/etc/hostname",)), "numpy.fromfile"),
        (np.random.default_rng(0), "numpy.random._pickle."),
        (np.array([Named(eval, ("1",))], dtype=object), "an array of 'O8', which are no numbers"),
        (np.zeros(2, dtype=[("x", "f8")]), "an array of 'V8', which are no numbers"),
        (
            Named(np.dtype, ("f8", False, True), (*STATE[:-1], 63)),
            "numbers that are more",
        ),
    ],
    ids=["system", "method", "eval", "file", "generator", "objects", "records", "type"],
)
def test_a_pickle_that_names_anything_else_is_refused_naming_it(tmp_path, content, said):
    path = tmp_path / "queries.p"
    path.write_bytes(pickle.dumps({"a": content}, 4))
    with pytest.raises((pickle.UnpicklingError, ValueError), match=said):
        read_arrays(path)
    assert not RAN

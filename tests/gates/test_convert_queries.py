"""Files of the public benchmark are read, and a pickle that names anything but arrays is not."""

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from pytest_cpg.contracts import ComponentError
from pytest_cpg.gates.policy_comparison.convert import convert, read_arrays
from pytest_cpg.gates.policy_comparison.published import published_queries
from pytest_cpg.gates.policy_comparison.queries import ARRAYS
from pytest_cpg.machine.files import FileError

CLONE = os.environ.get("OPCC_CLONE", "")
FOLDER = Path("opcc", "assets", "d4rl:maze2d-umaze-v1")


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
    """A clone with the shipped queries, laid out as the benchmark has them."""
    torch = pytest.importorskip("torch")
    queries = published_queries("maze-umaze")
    content = {
        (("maze", a + 1), ("maze", b + 1)): upstream(queries, a, b)
        for a in range(4)
        for b in range(a + 1, 4)
    }
    models = tmp_path / FOLDER / "models"
    models.mkdir(parents=True)
    write(tmp_path, content)
    for number, policy in enumerate(queries.policies, 1):
        weights = {}
        for layer, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True), 1):
            weights[f"actor.linear{layer}.weight"] = torch.tensor(weight, dtype=torch.float32)
            weights[f"actor.linear{layer}.bias"] = torch.tensor(bias, dtype=torch.float32)
            weights[f"critic.linear{layer}.bias"] = torch.zeros(3)
        torch.save(weights, models / f"model_{number}.p")
    return tmp_path


def write(clone, content, protocol=3):
    path = clone / FOLDER / "queries.p"
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else pickle.dumps(content, protocol)
    path.write_bytes(data)
    return path


def assert_same(found, wanted):
    for name in set(ARRAYS) - {"episodes"}:
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-6)
    for ours, theirs in zip(found.policies, wanted.policies, strict=True):
        for own, other in zip(ours.weights, theirs.weights, strict=True):
            np.testing.assert_array_equal(own, other)


def test_a_clone_gives_the_published_queries(clone):
    assert_same(convert(clone, "maze-umaze"), published_queries("maze-umaze"))


@pytest.mark.skipif(not CLONE, reason="needs a clone of koulanurag/opcc, named in OPCC_CLONE")
@pytest.mark.parametrize("name", ["maze-open", "maze-umaze"])
def test_the_real_clone_gives_the_published_queries(name):
    assert_same(convert(CLONE, name), published_queries(name))


RAN = []


class Named:
    """What a pickle may name to have it run."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call


class Looked(dict):
    pass


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (Named(os.system, ("true",)), f"{os.system.__module__}.system"),
        (Named(RAN.append, (1,)), "builtins.getattr"),
        (Named(eval, ("1",)), "builtins.eval"),
        (Named(np.fromfile, ("/etc/hostname",)), "numpy.fromfile"),
        (np.random.default_rng(0), "numpy.random._pickle."),
        (Looked(), "copyreg._reconstructor|test_convert_queries.Looked"),
        (np.array([Named(eval, ("1",))], dtype=object), "an array of 'O8', which are no numbers"),
        (np.zeros(2, dtype=[("x", "f8")]), "an array of 'V8', which are no numbers"),
    ],
    ids=["system", "method", "eval", "file", "generator", "class", "objects", "records"],
)
@pytest.mark.parametrize("protocol", [3, 4])
def test_a_pickle_that_names_anything_else_is_refused_naming_it(tmp_path, content, named, protocol):
    path = write(tmp_path, {"a": content}, protocol)
    with pytest.raises(FileError, match=named) as refused:
        read_arrays(path)
    assert str(path) in str(refused.value)
    assert not RAN


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is no pickle of arrays (Ran out of input)"),
        (b"\x80\x03garbage", "it is no pickle of arrays"),
        (pickle.dumps(np.arange(9))[:-20], "it is no pickle of arrays"),
    ],
    ids=["empty", "garbage", "cut"],
)
def test_what_is_no_pickle_is_said_so(tmp_path, content, said):
    with pytest.raises(FileError, match=re.escape(said)):
        read_arrays(write(tmp_path, content))


def test_an_array_that_lies_about_its_type_is_refused(tmp_path):
    state = np.dtype("f8").__reduce__()[2]
    lying = Named(np.dtype, ("f8", False, True), (*state[:-1], 63))
    with pytest.raises(FileError, match="numbers that are more than that"):
        read_arrays(write(tmp_path, lying))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([1, 2], "it is laid out otherwise than the benchmark's (AttributeError"),
        ({}, "it is laid out otherwise than the benchmark's (IndexError"),
        ({("a", "b"): {}}, "it is laid out otherwise than the benchmark's (ValueError"),
        ({(("m", 1), ("m", 2)): {}}, "it is laid out otherwise than the benchmark's (KeyError"),
    ],
)
def test_another_layout_is_refused(tmp_path, content, said):
    write(tmp_path, content)
    with pytest.raises(FileError, match=re.escape(said)):
        convert(tmp_path, "maze-umaze")


def test_arrays_that_do_not_agree_are_refused(clone):
    queries = published_queries("maze-umaze")
    pair = upstream(queries, 0, 1)
    pair["target"] = ~pair["target"]
    write(clone, {(("m", 1), ("m", 2)): pair})
    with pytest.raises(FileError, match="its label of query 0 is not what its returns say"):
        convert(clone, "maze-umaze")
    pair = upstream(queries, 0, 1)
    pair["obs_b"] = pair["obs_b"] + 1
    write(clone, {(("m", 1), ("m", 2)): pair})
    with pytest.raises(FileError, match="observations of side b are not those of its states"):
        convert(clone, "maze-umaze")
    pair = upstream(queries, 0, 1)
    pair["info"]["return_a"] = pair["info"]["return_a"] * np.nan
    write(clone, {(("m", 1), ("m", 2)): pair})
    with pytest.raises(FileError, match="returns_a must be finite, and query 0 has nan"):
        convert(clone, "maze-umaze")


def test_what_is_missing_is_named(clone, tmp_path):
    with pytest.raises(FileError, match=r"there is no .*queries\.p\. Give the folder of a clone"):
        convert(tmp_path / "elsewhere", "maze-umaze")
    with pytest.raises(ComponentError, match="no published environment is named 'maze2d'"):
        convert(clone, "maze2d")

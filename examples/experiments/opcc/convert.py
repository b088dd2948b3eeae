"""Convert the public benchmark's files to arrays: python convert.py CLONE FOLDER

CLONE is what ``git clone`` makes of koulanurag/opcc, which keeps queries as pickles and actors as
torch files. Of a pickle nothing but numpy's arrays, types and numbers is ever made. FOLDER then has
a file of queries for each world.
"""

import argparse
import pickle
import re
from pathlib import Path

import numpy as np
from worlds import rule_of

from pytest_cpg.contracts import BoxActions
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.planners.policies import TanhNetwork

FOLDERS = {
    "hopper": "Hopper-v2",
    "halfcheetah": "HalfCheetah-v2",
    "walker2d": "Walker2d-v2",
    "maze-open": "d4rl:maze2d-open-v0",
    "maze-umaze": "d4rl:maze2d-umaze-v1",
    "maze-medium": "d4rl:maze2d-medium-v1",
    "maze-large": "d4rl:maze2d-large-v1",
}
LAYERS, ACTORS = range(1, 4), range(1, 5)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("clone", metavar="CLONE", type=Path)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    options = parser.parse_args()
    for name in FOLDERS:
        convert(options.clone, name).save(options.folder / f"{name}.npz")


def convert(clone, name):
    """Return the queries about a world that a clone has."""
    folder = clone / "opcc" / "assets" / FOLDERS[name]
    columns = columns_of(read_arrays(folder / "queries.p"))
    labels, size = columns.pop("target"), columns["actions_a"].shape[-1]
    queries = PolicyQueries(
        environment=name,
        policies=[actor(folder / "models" / f"model_{number}.p") for number in ACTORS],
        action_space=BoxActions(-np.ones(size), np.ones(size)),
        terminated=rule_of(name),
        **columns,
    )
    if not np.array_equal(queries.labels, labels):
        raise ValueError(f"labels of {folder} are not what its returns say")
    return queries


def read_arrays(path):
    """Return what a pickle holds, if that is plain containers and arrays of numbers."""
    with path.open("rb") as file:
        return Unpickler(file).load()


class Unpickler(pickle.Unpickler):
    """Makes nothing but what numpy's arrays are made of."""

    def find_class(self, module, name, /):
        # The module was renamed in numpy 2.
        known = NAMES.get((module.replace("numpy.core.", "numpy._core."), name))
        if known is None:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no array is made of")
        return known


class Type:
    """The type of an array's numbers, as far as a pickle may say it."""

    def __init__(self, code, *_):
        if not isinstance(code, str) or not re.fullmatch(r"[biuf][0-9]{1,2}", code):
            raise ValueError(f"an array of {code!r:.40}, which are no numbers")
        self.numpy = np.dtype(code)

    def __setstate__(self, state):
        _, order, *rest = state
        if order not in ("<", ">", "|", "=") or any(part not in (None, -1, 0) for part in rest):
            raise ValueError(f"an array of numbers that are more than that, {state!r:.80}")
        self.numpy = self.numpy.newbyteorder(order)


class Array:
    """An array of numbers. numpy's own would believe what a pickle says of its memory."""

    def __init__(self, *_):
        self.numpy = np.empty(0)

    def __setstate__(self, state):
        _, shape, kind, is_fortran, data = state
        if type(kind) is not Type or type(data) is not bytes:
            raise ValueError(f"an array that is no bytes, {data!r:.40}")
        flat = np.frombuffer(data, dtype=kind.numpy)
        self.numpy = flat.reshape(shape, order="F" if is_fortran else "C")

    def __array__(self, dtype=None, copy=None):
        return self.numpy.astype(dtype or self.numpy.dtype, copy=copy is not False)

    def __len__(self):
        return len(self.numpy)


def number(kind, data=b""):
    if type(kind) is not Type or type(data) is not bytes:
        raise ValueError(f"a number that is no bytes, {data!r:.40}")
    return np.frombuffer(data, dtype=kind.numpy, count=1)[0]


NAMES = {
    ("numpy", "ndarray"): Array,
    ("numpy", "dtype"): Type,
    ("numpy._core.multiarray", "_reconstruct"): Array,
    ("numpy._core.multiarray", "scalar"): number,
}


def columns_of(content):
    """Return the fields of all pairs of policies, one pair after the other, and the labels."""
    parts = []
    for ((_, a), (_, b)), pair in content.items():
        count, info = len(pair["horizon"]), pair["info"]
        part = {
            "policy_a": np.full(count, a - 1),
            "policy_b": np.full(count, b - 1),
            "horizons": pair["horizon"],
            "target": pair["target"],
        }
        for side in "ab":
            part |= {
                f"observations_{side}": pair[f"obs_{side}"],
                # The simulator's time is first.
                f"states_{side}": np.asarray(info[f"state_{side}"], dtype=np.float64)[:, 1:],
                f"actions_{side}": pair[f"action_{side}"],
                f"returns_{side}": info[f"return_{side}"],
            }
        parts.append(part)
    return {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}


def actor(path):
    """Return the network that acts, from a file of torch's that holds nothing but weights."""
    from pytest_cpg.world_models.weights import read_weights

    weights = read_weights(path)
    return TanhNetwork(
        weights=[np.asarray(weights[f"actor.linear{layer}.weight"]) for layer in LAYERS],
        biases=[np.asarray(weights[f"actor.linear{layer}.bias"]) for layer in LAYERS],
    )


if __name__ == "__main__":
    main()

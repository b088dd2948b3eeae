"""Convert: the public benchmark's own files, read without running what they hold.

A clone of koulanurag/opcc keeps queries as pickles and actors as torch files. Of a pickle nothing
but numpy's arrays, types and numbers is ever made.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NoReturn

import numpy as np
import numpy.typing as npt

from pytest_cpg.gates.policy_comparison.environments import environment
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.machine.files import FileError
from pytest_cpg.planners.policies import TanhNetwork

# Folders of the benchmark by the names of the environments.
_FOLDERS: Mapping[str, str] = MappingProxyType(
    {
        "hopper": "Hopper-v2",
        "halfcheetah": "HalfCheetah-v2",
        "walker2d": "Walker2d-v2",
        "maze-open": "d4rl:maze2d-open-v0",
        "maze-umaze": "d4rl:maze2d-umaze-v1",
        "maze-medium": "d4rl:maze2d-medium-v1",
        "maze-large": "d4rl:maze2d-large-v1",
    }
)
_LAYERS, _ACTORS = range(1, 4), range(1, 5)
# What a pickle of nonsense may raise, and one that asks for more memory than there is.
_UNREADABLE = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError),
    *(AttributeError, UnicodeError, MemoryError, OverflowError),
)


def convert(clone: str | os.PathLike[str], name: str) -> PolicyQueries:
    """Return the queries of an environment from a clone of the public benchmark.

    Parameters
    ----------
    clone : path
        The folder that ``git clone`` made of koulanurag/opcc.
    name : str
        One of `ENVIRONMENTS`.

    Raises ComponentError when the name is unknown, and FileError when a file is missing, laid out
    otherwise, or names what no array is made of.
    """
    world = environment(name)
    folder = Path(clone) / "opcc" / "assets" / _FOLDERS[name]
    path = folder / "queries.p"
    columns = _columns(path, read_arrays(path))
    labels = columns.pop("target")
    try:
        queries = PolicyQueries(
            environment=name,
            policies=[_actor(folder / "models" / f"model_{actor}.p") for actor in _ACTORS],
            **columns,
        )
    except ValueError as error:
        _refuse(path, str(error))
    denied = np.flatnonzero(queries.labels != labels)
    if len(denied):
        _refuse(path, f"its label of query {denied[0]} is not what its returns say")
    for side in "ab":
        seen = world.observe(getattr(queries, f"states_{side}"))
        if not np.array_equal(seen, getattr(queries, f"observations_{side}")):
            _refuse(path, f"its observations of side {side} are not those of its states")
    return queries


def read_arrays(path: Path) -> Any:
    """Return what a pickle holds, if that is plain containers and arrays of numbers.

    The arrays are such that `numpy.asarray` takes them. Raises FileError when the file is missing,
    no pickle, or names anything else, which is not made.
    """
    try:
        with path.open("rb") as file:
            return _Unpickler(path, file).load()
    except FileNotFoundError:
        raise FileError(
            f"there is no {path}. Give the folder of a clone of koulanurag/opcc, in which "
            f"opcc/assets is"
        ) from None
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from None
    except _UNREADABLE as error:
        _refuse(path, f"it is no pickle of arrays ({str(error).strip() or type(error).__name__})")


class _Unpickler(pickle.Unpickler):
    """Makes nothing but what numpy's arrays are made of."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        super().__init__(file)
        self._path = path

    def find_class(self, module: str, name: str, /) -> Any:
        """Return what a pickle names, or refuse what no array is made of."""
        # The module was renamed in numpy 2.
        known = _NAMES.get((module.replace("numpy.core.", "numpy._core."), name))
        if known is None:
            _refuse(
                self._path,
                f"it names {module}.{name}, which no array is made of, and which was not run",
            )
        return known


class _Type:
    """The type of an array's numbers, as far as a pickle may say it."""

    def __init__(self, code: object, *_: object) -> None:
        if not isinstance(code, str) or not _NUMBER.fullmatch(code):
            raise ValueError(f"an array of {code!r:.40}, which are no numbers")
        self.numpy = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, order, *rest = state
        if order not in _ORDERS or any(part not in (None, -1, 0) for part in rest):
            raise ValueError(f"an array of numbers that are more than that, {state!r:.80}")
        self.numpy = self.numpy.newbyteorder(order)


class _Array:
    """An array of numbers. numpy's own would believe what a pickle says of its memory."""

    def __init__(self, *_: object) -> None:
        self.numpy: npt.NDArray[Any] = np.empty(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, is_fortran, data = state
        if type(kind) is not _Type or type(data) is not bytes:
            raise ValueError(f"an array that is no bytes, {data!r:.40}")
        flat = np.frombuffer(data, dtype=kind.numpy)
        self.numpy = flat.reshape(shape, order="F" if is_fortran else "C")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.numpy.astype(dtype or self.numpy.dtype, copy=copy is not False)

    def __len__(self) -> int:
        return len(self.numpy)


def _number(kind: object, data: object = b"") -> Any:
    if type(kind) is not _Type or type(data) is not bytes:
        raise ValueError(f"a number that is no bytes, {data!r:.40}")
    return np.frombuffer(data, dtype=kind.numpy, count=1)[0]


_NUMBER = re.compile(r"[biuf][0-9]{1,2}")
_ORDERS = ("<", ">", "|", "=")
_NAMES: Mapping[tuple[str, str], Any] = MappingProxyType(
    {
        ("numpy", "ndarray"): _Array,
        ("numpy", "dtype"): _Type,
        ("numpy._core.multiarray", "_reconstruct"): _Array,
        ("numpy._core.multiarray", "scalar"): _number,
    }
)


def _columns(path: Path, content: Any) -> dict[str, Any]:
    """Return the fields of all pairs of policies, one pair after the other, and the labels."""
    parts: list[dict[str, Any]] = []
    try:
        for ((_, a), (_, b)), pair in content.items():
            count, info = len(pair["horizon"]), pair["info"]
            parts.append(
                {
                    "policy_a": np.full(count, a - 1),
                    "policy_b": np.full(count, b - 1),
                    "horizons": pair["horizon"],
                    "target": pair["target"],
                }
            )
            for side in "ab":
                parts[-1] |= {
                    f"observations_{side}": pair[f"obs_{side}"],
                    # The simulator's time is first.
                    f"states_{side}": np.asarray(info[f"state_{side}"], dtype=np.float64)[:, 1:],
                    f"actions_{side}": pair[f"action_{side}"],
                    f"returns_{side}": info[f"return_{side}"],
                }
        return {
            name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]
        }
    # What another layout, or none, is refused by.
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        _refuse(path, f"it is laid out otherwise than the benchmark's ({error!r:.80})")


def _actor(path: Path) -> TanhNetwork:
    """Return the network that acts, from a file of torch's that holds nothing but weights."""
    # Not before it is needed: it brings torch.
    from pytest_cpg.world_models.checkpoints.weights import read_weights

    weights = read_weights(path)
    layers = [f"actor.linear{layer}" for layer in _LAYERS]
    missing = [name for name in layers if {f"{name}.weight", f"{name}.bias"} - set(weights)]
    if missing:
        _refuse(path, f"it has no layer {missing[0]!r}")
    return TanhNetwork(
        weights=[np.asarray(weights[f"{name}.weight"]) for name in layers],
        biases=[np.asarray(weights[f"{name}.bias"]) for name in layers],
    )


def _refuse(path: Path, wrong: str) -> NoReturn:
    raise FileError(
        f"cannot convert {path}: {wrong}. Take the files of koulanurag/opcc as they are there."
    ) from None

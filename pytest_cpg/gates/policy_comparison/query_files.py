"""Query files: queries as an .npz without pickles, and the networks that they ask about."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import ActionSpace, BoxActions, FiniteActions, FloatArray
from pytest_cpg.contracts.planner import Policy
from pytest_cpg.machine.files import FileError, check_unpacked_size, replace_file
from pytest_cpg.planners.policies import TanhNetwork

Q = TypeVar("Q")

_FORMAT = 1
# Observations by whose actions a policy that is given again is known, and how near they must be:
# other processors have other float kernels.
_PROBES = 4
_NEAR = 1e-4


class StoredArrays(dict[str, npt.NDArray[Any]]):
    """The arrays of a file by name; FileError for one that it has not."""

    def __init__(self, path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__(arrays)
        self.path = path

    def __missing__(self, name: str) -> NoReturn:
        names = ", ".join(sorted(self)) or "none"
        refuse(self.path, f"it has no array {name!r}, only {names:.200}")


def _stored(path: str | os.PathLike[str]) -> StoredArrays:
    """Return the arrays of an .npz, from which no pickle is read.

    Raises FileError when it is missing, no .npz of plain arrays, or would swell.
    """
    source, name = Path(path), ""
    if source.exists() and not source.is_file():
        refuse(source, f"it is {'a folder' if source.is_dir() else 'no regular file'}")
    try:
        check_unpacked_size(source)
        # Opened here: numpy leaves a file open that it cannot read.
        with source.open("rb") as file:
            archive, arrays = np.load(file, allow_pickle=False), {}
            if isinstance(archive, np.ndarray):
                raise ValueError("a single array")
            for name in archive.files:
                arrays[name] = np.asarray(archive[name])
    except FileNotFoundError:
        raise FileError(
            f"there is no file of queries {source}. Check the path, which starts where pytest "
            f"was called."
        ) from None
    # What is in a file may be wrong in any way, and its header may ask for any memory.
    except Exception as error:
        why = str(error) or type(error).__name__
        if name:
            refuse(source, f"its array {name!r} cannot be read ({why})")
        # numpy says so of whatever it does not know, and how to load it unsafely.
        refuse(source, f"it is no .npz of plain arrays{'' if 'pickle' in why else f' ({why})'}")
    return StoredArrays(source, arrays)


def refuse(path: Path, wrong: str) -> NoReturn:
    """Raise FileError that names a file of queries and what is wrong with it."""
    raise FileError(
        f"cannot use the queries {path}: {wrong}. Write it with PolicyQueries.save; no pickle is "
        f"ever read."
    ) from None


def save_queries(queries: Any, arrays: Iterable[str], path: str | os.PathLike[str]) -> None:
    """Write queries, or raise FileError where the file cannot be written.

    A `TanhNetwork` is written with them. Of any other policy only a few actions are, by which it is
    known when it is given again.
    """
    content: dict[str, Any] = {
        "format": _FORMAT,
        "environment": queries.environment,
        "discount": queries.discount,
        "policies": len(queries.policies),
        **_space_arrays("space", queries.action_space),
    }
    for name in arrays:
        if getattr(queries, name) is not None:
            content[name] = getattr(queries, name)
    for number, policy in enumerate(queries.policies):
        name = f"policy{number}"
        if not isinstance(policy, TanhNetwork):
            probes = np.concatenate([queries.observations_a, queries.observations_b])[:_PROBES]
            content[f"{name}_answers"] = queries.act(number, probes)
            continue
        content[f"{name}_layers"] = len(policy.weights)
        for layer, (weight, bias) in enumerate(zip(policy.weights, policy.biases, strict=True)):
            content[f"{name}_weight{layer}"] = _smallest(weight)
            content[f"{name}_bias{layer}"] = _smallest(bias)
        content |= _space_arrays(f"{name}_space", policy.actions)
    packed, file = io.BytesIO(), Path(path)
    np.savez_compressed(packed, **content)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, packed.getvalue())
    except OSError as error:
        raise FileError(
            f"cannot write {file}: {error.strerror or error}. Name another path."
        ) from None


def load_queries(
    kind: Callable[..., Q],
    arrays: Mapping[str, bool],
    path: str | os.PathLike[str],
    policies: Sequence[Policy] | None = None,
) -> Q:
    """Read queries that `save_queries` wrote; ``arrays`` says by name whether queries need them.

    Policies are all of them in the order of old, or None where all are networks, which are in the
    file. Raises FileError when the file is missing, damaged or from something else; when policies
    are needed that it does not hold, or those given act otherwise than those that the returns are
    of.
    """
    stored = _stored(path)
    if "format" not in stored:
        refuse(stored.path, "it does not say its format, and so is not from PolicyQueries.save")
    try:
        if int(stored["format"]) != _FORMAT:
            raise FileError(
                f"cannot use the queries {stored.path}: its format is {int(stored['format'])}, and "
                f"this pytest-cpg reads {_FORMAT}. Upgrade: pip install -U pytest-cpg"
            )
        count, size = int(stored["policies"]), len(stored)
        if count > size:
            refuse(stored.path, f"it says that it has {count} policies, and has {size} arrays")
        networks = [_stored_network(stored, number) for number in range(count)]
        queries = kind(
            environment=str(stored["environment"]),
            discount=float(stored["discount"]),
            policies=_completed(stored.path, networks, policies),
            action_space=_stored_space(stored, "space"),
            **{name: stored[name] for name in arrays if name in stored or arrays[name]},
        )
        _check_same(stored, networks, queries)
    # What arrays of other shapes, kinds and numbers are refused by.
    except (TypeError, ValueError, IndexError, OverflowError) as error:
        refuse(stored.path, str(error))
    return queries


def _completed(
    path: Path, own: Sequence[TanhNetwork | None], given: Sequence[Policy] | None
) -> Sequence[Policy]:
    """Return the policies that were given, or those of the file if it has all."""
    if given is not None:
        if len(given) != len(own):
            raise FileError(
                f"{path} asks about {len(own)} policies, and {len(given)} were given: give all, in "
                f"the order in which they were saved"
            )
        return given
    lacking = [number for number, policy in enumerate(own) if policy is None]
    if lacking:
        raise FileError(
            f"{path} holds no policy {', '.join(map(str, lacking))}: only networks (TanhNetwork) "
            f"are saved. Give all {len(own)}: queries=PolicyQueries.load({str(path)!r}, "
            f"policies=[...]), from pytest_cpg.gates.policy_comparison.queries import PolicyQueries"
        )
    return [policy for policy in own if policy is not None]


def _check_same(stored: StoredArrays, networks: Sequence[TanhNetwork | None], queries: Any) -> None:
    """Raise FileError where a policy given again acts otherwise than the one that was saved."""
    probes = np.concatenate([queries.observations_a, queries.observations_b])[:_PROBES]
    for number, network in enumerate(networks):
        name = f"policy{number}_answers"
        wanted = np.asarray(stored[name] if network is None else network.act(probes), dtype=float)
        acted = queries.act(number, probes)
        if acted.shape != wanted.shape:
            refuse(stored.path, f"{name} has shape {wanted.shape}, where {acted.shape} is needed")
        if not np.allclose(acted, wanted, rtol=_NEAR, atol=_NEAR):
            row = int(np.abs(acted - wanted).max(axis=1).argmax())
            raise FileError(
                f"policy {number} is not the one whose returns are in {stored.path}: it does "
                f"{acted[row]} where that did {wanted[row]}. Give the policies in their old order, "
                f"or generate the queries again."
            )


def _stored_network(stored: StoredArrays, number: int) -> TanhNetwork | None:
    """Return the network of a policy; None where it is something else."""
    if f"policy{number}_layers" not in stored:
        return None
    layers = range(int(stored[f"policy{number}_layers"]))
    return TanhNetwork(
        weights=[stored[f"policy{number}_weight{layer}"] for layer in layers],
        biases=[stored[f"policy{number}_bias{layer}"] for layer in layers],
        actions=_stored_space(stored, f"policy{number}_space"),
    )


def _smallest(values: FloatArray) -> FloatArray:
    """Return the values as float32 where nothing of them is lost."""
    rounded = values.astype(np.float32)
    return rounded if (rounded == values).all() else values


def _space_arrays(name: str, space: ActionSpace | None) -> dict[str, npt.ArrayLike]:
    if space is None:
        return {}
    if isinstance(space, BoxActions):
        return {f"{name}_box": np.stack([space.low, space.high])}
    return {f"{name}_values": space.values}


def _stored_space(stored: StoredArrays, name: str) -> ActionSpace | None:
    if f"{name}_box" in stored:
        return BoxActions(*stored[f"{name}_box"])
    return FiniteActions(stored[f"{name}_values"]) if f"{name}_values" in stored else None

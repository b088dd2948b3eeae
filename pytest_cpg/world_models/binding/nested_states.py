"""Nested states: a model whose state is a dict or tuple of arrays, made into one with flat latents.

The episode loop keeps latents as rows of float64, which hold float32 and whole numbers below 2**53
exactly: a state comes back as it was, in its own types, shapes and places.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import (
    FACTS,
    METHODS,
    Cost,
    Decoder,
    Encoder,
    Reward,
    Score,
    TerminalValue,
)
from pytest_cpg.world_models.binding.conventions import (
    ARRAYS,
    Accustomed,
    Convention,
    Failure,
    Sender,
    array_of_tensor,
    attempt,
    batch_multiple,
    describe,
    floats,
    in_multiples,
    senders,
    tensors_of,
    with_rows,
)
from pytest_cpg.world_models.binding.rating import reads_both_ends

_LARGEST_WHOLE = 2**53
# What takes states and nothing else; leading axes of the states that are given.
_OF_STATES = ("score", "decode", "terminal_value")
_AXES = {"encode": 1, "update": 1, "rollout": 2}


@dataclass(frozen=True, slots=True)
class _Leaf:
    """One array of a state: its shape without the batch, and what it has to be made into."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    tensor: tuple[Any, Any] | None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def flattened(learned: Any, observations: FloatArray) -> Any:
    """Return a model with flat latents: ``learned`` itself, unless its ``encode`` gives a nest.

    A nest is a dict or tuple, whatever is nested in it, whose arrays or tensors have a row for each
    observation. Raises WorldModelError when something else is in the nest, naming its place, or
    nothing rates its states.
    """
    if not has(learned, Encoder):
        return learned
    # As many as it takes.
    observations = with_rows(observations, -len(observations) % batch_multiple(learned))
    for sender in senders(learned.encode):
        state: Any = attempt(
            lambda seen, sender=sender: learned.encode(sender.send(seen)), observations
        )
        # It is asked again, and then told what was wrong.
        if isinstance(state, Failure):
            continue
        if not _is_nest(state, len(observations)):
            return learned
        form = _mapped(partial(_leaf_of, len(observations)), state, "the state")
        leaves = _leaves(form)
        size = int(np.prod(observations.shape[1:]))
        is_rated = any(has(learned, part) for part in (Score, Cost, Decoder, Reward, TerminalValue))
        # Else only numbers that may be an observation are rated, by the task.
        if not is_rated and sum(leaf.size for leaf in leaves) != size:
            raise WorldModelError(
                f"{describe(learned)} has neither a score, a reward nor a decode, and its state is "
                f"a {type(state).__name__}, which the task cannot rate. Add decode(state) -> "
                f"observations [..., {size}] or score(state) -> [...], for states as rollout gives "
                f"them."
            )
        return _flat_model(learned, _Nest(form, leaves, sender))
    return learned


def _is_nest(state: Any, rows: int) -> bool:
    """Say whether several arrays make up a state; rows that are listed are an array."""
    if isinstance(state, list):
        parts = [_array_of(part) for part in state]
        several = [part is not None and part.ndim > 1 and len(part) == rows for part in parts]
        if several and all(several):
            raise WorldModelError(
                f"encode gave a list of {len(state)} arrays. Return a tuple where several arrays "
                f"make up the state: (h, c) in place of [h, c]."
            )
        return False
    if isinstance(state, tuple):
        try:
            floats(state)
        # Whatever a user's type raises where it is read as an array.
        except Exception:
            return True
        return any(_array_of(part) is not None for part in state)
    return isinstance(state, Mapping)


def _flat_model(learned: Any, nest: _Nest) -> SimpleNamespace:
    """Return an object with the methods of a model that takes and gives nests."""
    made: dict[str, Callable[..., Any]] = {}
    for name in ("rollout", *METHODS):
        method = getattr(learned, name, None)
        if not callable(method):
            continue
        takes_both = name == "reward" and reads_both_ends(method)
        states = () if name == "encode" else (0, 2) if takes_both else (0,)
        kinds = nest.kinds[:1] if name in _OF_STATES else nest.kinds
        ways = [
            nest.convention(method, kind, states, axes=_AXES.get(name, 0))
            for kind in ([nest.sender] if name == "encode" else kinds)
        ]
        title = getattr(method, "__qualname__", f"{type(learned).__qualname__}.{name}")
        made[name] = Accustomed(method, title, ways)
    if "plan" in made:
        # With `memory` where it is warm started.
        made["plan"] = lambda latents, rngs, remaining, **warm: learned.plan(
            nest.state(latents), rngs, remaining, **warm
        )
    facts = {name: getattr(learned, name) for name in FACTS if hasattr(learned, name)}
    name = f"{type(learned).__qualname__} object"
    return SimpleNamespace(**made, **facts, __qualname__=name)


class _Nest(NamedTuple):
    """How a state is nested, and how its model is given numbers."""

    form: Any
    leaves: list[_Leaf]
    sender: Sender

    @property
    def kinds(self) -> list[Sender]:
        """How other arrays may go with a state, best first: as encode's, and of the state's kind.

        An encode that takes numpy arrays and gives tensors goes on in tensors.
        """
        kind, torch = ARRAYS, sys.modules.get("torch")
        tensors = [leaf.tensor for leaf in self.leaves if leaf.tensor is not None]
        if tensors and torch is not None:
            floating = [tensor for tensor in tensors if tensor[0].is_floating_point]
            kind = tensors_of(*(floating or [(torch.float32, tensors[0][1])])[0])
        if kind.label == self.sender.label:
            return [self.sender]
        return [kind, self.sender] if self.sender is ARRAYS else [self.sender, kind]

    def convention(
        self, function: Callable[..., Any], kind: Sender, states: tuple[int, ...], *, axes: int
    ) -> Convention:
        """Return how a function is called whose arguments at these places are states.

        With ``axes`` leading ones it returns states, with 0 an array.
        """

        def call(*arrays: FloatArray) -> FloatArray:
            result = function(
                *(
                    self.state(array) if place in states else kind.send(array)
                    for place, array in enumerate(arrays)
                )
            )
            return self.flat(result, axes) if axes else floats(result)

        label = f"a state and {kind.label} for" if states else kind.label
        return Convention(label, in_multiples(call, batch_multiple(function)), kind.tolerance)

    def flat(self, state: Any, axes: int) -> FloatArray:
        """Return the numbers of a state, [B, Z] or [B, H, Z] for so many leading axes."""
        return np.concatenate(list(_columns(state, self.form, axes, "the state")), axis=-1)

    def state(self, latents: Any) -> Any:
        """Return the state that latents [..., Z] are the numbers of."""
        rows = np.asarray(latents, dtype=np.float64)
        ends = np.cumsum([leaf.size for leaf in self.leaves])
        columns = iter(np.split(rows, ends, axis=-1))
        return _mapped(lambda leaf, _: _restored(leaf, next(columns)), self.form, "")


def _mapped(function: Callable[[Any, str], Any], nest: Any, place: str) -> Any:
    """Return a nest with what a function makes of each part that holds no others, and its place."""
    if isinstance(nest, Mapping) and nest:
        return {key: _mapped(function, v, f"{place}[{key!r}]") for key, v in nest.items()}
    if isinstance(nest, tuple | list) and nest:
        parts = [_mapped(function, v, f"{place}[{i}]") for i, v in enumerate(nest)]
        return type(nest)(*parts) if hasattr(nest, "_fields") else type(nest)(parts)
    return function(nest, place)


def _leaves(form: Any) -> list[_Leaf]:
    leaves: list[_Leaf] = []
    _mapped(lambda leaf, _: leaves.append(leaf), form, "")
    return leaves


def _leaf_of(rows: int, value: Any, place: str) -> _Leaf:
    """Return what stands for an array in the form of a state."""
    array = _array_of(value)
    if array is None or array.ndim < 1 or len(array) != rows:
        what = f"is {type(value).__name__}"
        if array is not None:
            what = f"has shape {list(array.shape)}"
        elif isinstance(value, np.ndarray):
            what = f"is an array of dtype {value.dtype}"
        elif value is None or isinstance(value, bool | int | float | str):
            what = f"is {value!r}"
        elif isinstance(value, dict | tuple | list):
            what = f"is an empty {type(value).__name__}"
        raise WorldModelError(
            f"encode: {place} {what}; need an array of numbers [B, ...] with a row for each of "
            f"the {rows} observations. Keep what is the same for all rows in the model."
        )
    tensor = None if isinstance(value, np.ndarray) else (value.dtype, value.device)
    return _Leaf(array.shape[1:], array.dtype, tensor)


def _array_of(value: Any) -> npt.NDArray[Any] | None:
    """Return the numbers of an array or tensor; None for what is neither."""
    numbers = array_of_tensor(value)
    value = value if numbers is None else numbers
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None


def _columns(value: Any, form: Any, axes: int, place: str) -> Iterator[FloatArray]:
    """Yield the arrays of a state as columns, in the order of its form."""
    if isinstance(form, _Leaf):
        array = _array_of(value)
        if array is None or array.shape[axes:] != form.shape:
            actual = type(value).__name__ if array is None else f"shape {list(array.shape)}"
            wanted = ", ".join(["B", "H"][:axes] + [str(size) for size in form.shape])
            raise WorldModelError(f"{place} is {actual}, expected an array [{wanted}] as encode's")
        if array.dtype.kind in "iu" and array.size and np.abs(array).max() > _LARGEST_WHOLE:
            raise WorldModelError(f"{place} has whole numbers above 2**53, which are not kept")
        yield array.astype(np.float64).reshape(*array.shape[:axes], form.size)
        return
    is_mapping = isinstance(form, Mapping)
    keys = [*form] if is_mapping else [*range(len(form))]
    is_same = isinstance(value, Mapping if is_mapping else tuple | list)
    if not is_same or {*(value if is_mapping else range(len(value)))} != {*keys}:
        raise WorldModelError(f"{place} is no {type(form).__name__} of {keys}, as encode gives it")
    for key in keys:
        yield from _columns(value[key], form[key], axes, f"{place}[{key!r}]")


def _restored(leaf: _Leaf, columns: FloatArray) -> Any:
    """Return an array of a state from its columns [..., size]."""
    values = columns.reshape(*columns.shape[:-1], *leaf.shape)
    array = (np.rint(values) if leaf.dtype.kind in "iu" else values).astype(leaf.dtype)
    if leaf.tensor is None:
        return array
    dtype, device = leaf.tensor
    return sys.modules["torch"].tensor(array, dtype=dtype, device=device)

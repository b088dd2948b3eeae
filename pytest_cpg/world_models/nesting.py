"""Nesting: a model whose state is a dict or tuple of arrays, made into one with flat latents.

The episode loop keeps latents as rows of float64, which hold float32 and whole numbers below 2**53
exactly: a state comes back as it was, in its own types, shapes and places.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.world_models.conventions import REFUSALS, Sender, senders
from pytest_cpg.world_models.rating import reads_both_ends

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

_LARGEST_WHOLE = 2**53
# What a model says of itself beside its methods.
_FACTS = ("noise_size", "discount", "is_warm_started", "rates_states")


class _Leaf(NamedTuple):
    """One array of a state: its shape without the batch, and what it has to be made into."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    tensor: tuple[Any, Any] | None

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def flattened(learned: Any, observations: FloatArray) -> Any:
    """Return a model with flat latents: ``learned`` itself, unless its ``encode`` gives a nest.

    A nest is a dict or tuple, whatever is nested in it, whose arrays or tensors have a row for
    each observation.
    """
    encode = getattr(learned, "encode", None)
    if not callable(encode):
        return learned
    for sender in senders(encode):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                state = encode(sender.send(observations))
        except REFUSALS:
            continue
        form = _form_of(state, len(observations)) if isinstance(state, Mapping | tuple) else None
        return learned if form is None else _flat_model(learned, _Nest(form, sender))
    return learned


def _flat_model(learned: Any, nest: _Nest) -> SimpleNamespace:
    """Return an object with the methods of a model that takes and gives nests."""
    numbers = nest.sender.send
    has = {
        name: getattr(learned, name)
        for name in ("rollout", "update", "score", "decode", "reward", "terminal_value", "plan")
        if callable(getattr(learned, name, None))
    }

    def sent(arrays: tuple[Any, ...]) -> Iterator[Any]:
        return (numbers(np.asarray(array, dtype=np.float64)) for array in arrays)

    def of_states(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda latents, *others: function(nest.state(latents), *sent(others))

    made = {name: of_states(function) for name, function in has.items()}
    made["encode"] = lambda observations: nest.flat(learned.encode(*sent((observations,))), 1)
    for name, axes in (("rollout", 2), ("update", 1)):
        if name in made:
            made[name] = _flattening(nest, made[name], axes)
    if "reward" in made and reads_both_ends(has["reward"]):
        made["reward"] = lambda before, actions, after: has["reward"](
            nest.state(before), *sent((actions,)), nest.state(after)
        )
    elif "reward" in made:
        made["reward"] = lambda latents, actions: has["reward"](
            nest.state(latents), *sent((actions,))
        )
    if "plan" in made:
        # With `memory` where it is warm started.
        made["plan"] = lambda latents, rngs, remaining, **warm: has["plan"](
            nest.state(latents), rngs, remaining, **warm
        )
    facts = {name: getattr(learned, name) for name in _FACTS if hasattr(learned, name)}
    name = f"{type(learned).__qualname__} object"
    return SimpleNamespace(**made, **facts, __qualname__=name)


def _flattening(nest: _Nest, function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    return lambda *arguments: nest.flat(function(*arguments), axes)


class _Nest(NamedTuple):
    """How a state is nested, and how its model is given numbers."""

    form: Any
    sender: Sender

    def flat(self, state: Any, axes: int) -> FloatArray:
        """Return the numbers of a state, [B, Z] or [B, H, Z] for so many leading axes."""
        return np.concatenate(list(_columns(state, self.form, axes, "the state")), axis=-1)

    def state(self, latents: Any) -> Any:
        """Return the state that latents [..., Z] are the numbers of."""
        rows = np.asarray(latents, dtype=np.float64)
        places = iter(np.split(rows, np.cumsum(_sizes(self.form)), axis=-1))
        return _rebuilt(self.form, places)


def _form_of(value: Any, rows: int) -> Any:
    """Return the nest with leaves in place of arrays; None where something else is in it."""
    if isinstance(value, Mapping):
        parts = {key: _form_of(part, rows) for key, part in value.items()}
        return None if not parts or any(part is None for part in parts.values()) else parts
    if isinstance(value, tuple | list):
        inner = [_form_of(part, rows) for part in value]
        return None if not inner or any(part is None for part in inner) else _like(value, inner)
    array = _array_of(value)
    if array is None or array.ndim < 1 or len(array) != rows:
        return None
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(value, torch.Tensor)
    tensor = (value.dtype, value.device) if is_tensor else None
    return _Leaf(array.shape[1:], array.dtype, tensor)


def _array_of(value: Any) -> npt.NDArray[Any] | None:
    """Return the numbers of an array or tensor; None for what is neither."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        tensor = value.detach().cpu()
        # numpy has no bfloat16; float32 holds each of its numbers exactly.
        value = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return value if isinstance(value, np.ndarray) and value.dtype.kind in "fiub" else None


def _like(value: Any, parts: list[Any]) -> Any:
    """Return a tuple or list of the same kind with other parts."""
    return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)


def _columns(value: Any, form: Any, axes: int, place: str) -> Iterator[FloatArray]:
    """Yield the arrays of a state as columns, in the order of its form."""
    if isinstance(form, _Leaf):
        array = _array_of(value)
        if array is None or array.shape[axes:] != form.shape:
            found = type(value).__name__ if array is None else f"shape {list(array.shape)}"
            wanted = ", ".join(["B", "H"][:axes] + [str(size) for size in form.shape])
            raise WorldModelError(f"{place} is {found}, expected an array [{wanted}] as encode's")
        if array.dtype.kind in "iu" and array.size and np.abs(array).max() > _LARGEST_WHOLE:
            raise WorldModelError(f"{place} has whole numbers above 2**53, which are not kept")
        yield array.astype(np.float64).reshape(*array.shape[:axes], form.size)
        return
    keys = list(form) if isinstance(form, Mapping) else list(range(len(form)))
    is_same = isinstance(value, Mapping if isinstance(form, Mapping) else tuple | list)
    if (
        not is_same
        or len(value) != len(keys)
        or (isinstance(form, Mapping) and set(value) != {*keys})
    ):
        raise WorldModelError(f"{place} is no {type(form).__name__} of {keys}, as encode gives it")
    for key in keys:
        yield from _columns(value[key], form[key], axes, f"{place}[{key!r}]")


def _sizes(form: Any) -> list[int]:
    if isinstance(form, _Leaf):
        return [form.size]
    parts = form.values() if isinstance(form, Mapping) else form
    return [size for part in parts for size in _sizes(part)]


def _rebuilt(form: Any, columns: Iterator[FloatArray]) -> Any:
    """Return a state of this form from its columns [..., size], in order."""
    if isinstance(form, Mapping):
        return {key: _rebuilt(part, columns) for key, part in form.items()}
    if not isinstance(form, _Leaf):
        return _like(form, [_rebuilt(part, columns) for part in form])
    values = next(columns)
    values = values.reshape(*values.shape[:-1], *form.shape)
    if form.dtype.kind in "iu":
        values = np.rint(values)
    array = values.astype(form.dtype)
    if form.tensor is None:
        return array
    dtype, device = form.tensor
    return sys.modules["torch"].tensor(array, dtype=dtype, device=device)

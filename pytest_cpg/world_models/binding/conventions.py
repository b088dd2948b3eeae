"""Calling conventions: how arrays travel to a user's function and back.

A torch module is given tensors of its own dtype and device. Anything else is first given float64
numpy arrays and, when it cannot use them and torch is loaded, float32 tensors. It always gets
copies, so it may write to them, and what it returns is copied, so it may use its buffers again.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from pytest_cpg.contracts import CpgError, FloatArray, WorldModelError
from pytest_cpg.contracts.arrays import is_picture
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import BatchMultiple
from pytest_cpg.world_models.binding.torch_state import place_of

# What torch says of an input that is not of its weights' type.
_OTHER_DTYPE = re.compile(r"must have the same dtype|expected scalar type|to have the same dtype")
_HIDDEN_DTYPE = (
    "  A function hides the type of the network in it. Return the network itself, or write\n"
    "      net(observations.double(), actions.double()).float()  # of a network in double"
)

# Steps imagined to check a model; enough to tell the horizon's axis from the others.
_HORIZON = 3

R = TypeVar("R")

ArrayFunction: TypeAlias = Callable[..., FloatArray]
# The shapes in a promise, those of the arguments first: ``encode(seen [B, O]) -> latents [B, Z]``.
_SHAPES = re.compile(r"\[(.*?)\]")

# Relative to a column's largest number. float32 products differ by about 1e-6 between batch sizes;
# a control step of 1 ms changes an observation by 1e-4 and more of its size.
TOLERANCE = 1e-5


class Sender(NamedTuple):
    """One way to hand a float64 array to a function, which may write to what it is given."""

    # What the function is given, as printed in errors.
    label: str
    send: Callable[[FloatArray], Any]
    # Difference between batch sizes that is mere rounding, relative to a column's largest number.
    tolerance: float = TOLERANCE


class Convention(NamedTuple):
    """One way to call a function: from float64 arrays to one that nobody else holds."""

    label: str
    call: ArrayFunction
    tolerance: float = TOLERANCE

    def checked(self, promise: str) -> ArrayFunction:
        """Return the call, raising WorldModelError when a shape comes back that is not promised."""
        *taken, given = (text.split(", ") for text in _SHAPES.findall(promise))
        promised: dict[tuple[tuple[int, ...], ...], tuple[int | None, ...]] = {}

        def call(*arrays: FloatArray) -> FloatArray:
            result = self.call(*arrays)
            sizes_given = tuple([array.shape for array in arrays])
            expected = promised.get(sizes_given)
            if expected is None:
                expected = promised[sizes_given] = _promised(taken, given, arrays)
            sizes = zip(result.shape, expected, strict=False)
            if len(result.shape) != len(expected) or any(e not in (None, s) for s, e in sizes):
                wanted = ", ".join("any" if size is None else str(size) for size in expected)
                raise WorldModelError(
                    f"shape {list(result.shape)} came back for {shapes(*arrays)}, "
                    f"expected [{wanted}]. {_cure(result.shape, expected)}"
                )
            return result

        return call


def _cure(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> str:
    """Return what makes the promised shape of one that came back."""
    if len(shape) == len(expected) == 3:
        rows, steps, _ = expected
        if shape[:2] == (steps, rows):
            return "The first axis is the batch: return its .swapaxes(0, 1)"
        if shape[:2] == (rows, (steps or 0) + 1):
            return "Leave out what was before the first action: return its [:, 1:]"
    if shape[:-1] == expected[:-1]:
        return f"Return rows of {expected[-1]}"
    return "Return one row for each that is given"


def _promised(
    taken: list[list[str]], given: list[str], arrays: Sequence[FloatArray]
) -> tuple[int | None, ...]:
    """Return the shape of a promise for these arguments; None for a size that they leave open."""
    sizes: dict[str, tuple[int | None, ...]] = {}
    for letters, array in zip(taken, arrays, strict=True):
        names = letters[letters[0] == "..." :]
        front = array.ndim - len(names)
        sizes["..."] = array.shape[:front]
        sizes |= {name: (size,) for name, size in zip(names, array.shape[front:], strict=True)}
    left_open = {name: (int(name) if name.isdecimal() else None,) for name in given}
    return tuple(size for name in given for size in {**left_open, **sizes}[name])


class Accustomed:
    """A function that brings the ways to call it, best first."""

    def __init__(self, function: Callable[..., Any], name: str, ways: Sequence[Convention]) -> None:
        self.ways = list(ways)
        self.__qualname__ = name
        with suppress(TypeError, ValueError):  # one that is compiled may have none
            self.__signature__ = inspect.signature(function)

    def __call__(self, *arrays: FloatArray) -> FloatArray:
        """Call it in the best way."""
        return self.ways[0].call(*arrays)


class Failure(NamedTuple):
    """Why a call was of no use, and which call it was."""

    reason: str
    error: Exception
    call: str = ""

    @property
    def answered(self) -> bool:
        """Whether the function took what it was given, and only gave the wrong thing back."""
        return isinstance(self.error, WorldModelError)


def senders(function: Callable[..., Any]) -> list[Sender]:
    """Return the ways to hand it arrays that are worth trying, best first."""
    torch = sys.modules.get("torch")
    if torch is None:
        return [ARRAYS]
    for owner in (function, getattr(function, "__self__", None)):
        if isinstance(owner, torch.nn.Module):
            return [tensors_of(**place_of(owner))]
    return [ARRAYS, tensors_of(torch.float32, "cpu")]


def conventions(function: Callable[..., Any]) -> list[Convention]:
    """Return the conventions worth trying, best first."""
    if isinstance(function, Accustomed):
        return function.ways
    multiple = batch_multiple(function)

    def convention(sender: Sender) -> Convention:
        def call(*arrays: FloatArray) -> FloatArray:
            return floats(function(*map(sender.send, arrays)))

        return Convention(sender.label, in_multiples(call, multiple), sender.tolerance)

    return [convention(sender) for sender in senders(function)]


def batch_multiple(function: object) -> int:
    """Return of how many rows a function, or the object it is a method of, takes multiples only."""
    for owner in (function, getattr(function, "__self__", None)):
        if owner is None or not has(owner, BatchMultiple):
            continue
        multiple: Any = owner.batch_multiple
        if isinstance(multiple, bool) or not isinstance(multiple, int | np.integer) or multiple < 1:
            raise WorldModelError(
                f"{describe(owner)} has the batch_multiple {multiple!r}; give the whole number of "
                f"rows that it takes multiples of, such as 5."
            )
        return int(multiple)
    return 1


def is_same(result: FloatArray | Failure, expected: FloatArray) -> bool:
    """Say whether what was attempted gave these bits."""
    return not isinstance(result, Failure) and np.array_equal(result, expected, equal_nan=True)


def attempt(call: Callable[..., R], *arrays: Any) -> R | Failure:
    """Return what the call gives, or why it gives nothing of use.

    Its warnings are about our trying, not about the user's work, and are not shown.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*arrays)
    except WorldModelError as error:
        return Failure(str(error), error)
    # Libraries refuse a shape or type by exceptions of any class: ONNX Runtime's are plain ones.
    except Exception as error:
        if not is_refusal(error):
            error.add_note(f"pytest-cpg: raised when it was called with {shapes(*arrays)}.")
            raise
        # A bare assert says nothing more, and many a text ends with a full stop of its own.
        reason = ": ".join(filter(None, [type(error).__name__, str(error).removesuffix(".")]))
        return Failure(reason, error)


def is_refusal(error: Exception) -> bool:
    """Say whether a function may have raised this because of the kind or shape of its arguments.

    A missing file or package, or no memory or time, is no answer to what it takes.
    """
    ours = isinstance(error, CpgError) and not isinstance(error, WorldModelError)
    return not (ours or isinstance(error, OSError | MemoryError | ImportError))


def refusal(what: str, failures: Sequence[Failure]) -> WorldModelError:
    """Return an error chained from the function's own exceptions, each shown once, last first."""
    errors = [failure.error for failure in reversed(failures) if not failure.answered]
    distinct = list({f"{type(error)}: {error}": error for error in errors}.values())
    for later, earlier in pairwise(distinct):
        later.__context__ = later.__context__ or earlier
    calls: dict[str, list[str]] = {}
    for failure in failures:
        calls.setdefault(failure.reason, []).append(failure.call)
    lines = [
        f"  given {' or '.join(tried)}{f': {reason}' * bool(reason)}"
        for reason, tried in calls.items()
    ]
    if any(_OTHER_DTYPE.search(failure.reason) for failure in failures):
        lines.append(_HIDDEN_DTYPE)
    error = WorldModelError("\n".join([f"{what}.", *lines]))
    error.__cause__ = distinct[0] if distinct else None
    return error


def unusable(function: object, called: str, failures: Sequence[Failure]) -> WorldModelError:
    """Return the error for a function that was ``called`` in every way, and is of no use."""
    last = failures[-1]
    # A reason that holds for every call is said once, and to what an answer came does not matter.
    if all(failure.reason == last.reason for failure in failures):
        failures = [] if last.answered else [f._replace(reason="") for f in failures]
    reason = last.reason.removesuffix(".")
    what = f"{describe(function)} is not usable: {reason}.\nIt is called as {called}"
    return refusal(what, failures)


def first_that_works(
    ways: Iterable[tuple[str, Callable[..., R]]], *probe: Any, of: object, promise: str
) -> tuple[Callable[..., R], R]:
    """Return the first call that works, and what came of the probe; or raise `unusable`."""
    failures = []
    for label, call in ways:
        result = attempt(call, *probe)
        if not isinstance(result, Failure):
            return call, result
        failures.append(result._replace(call=f"{label} {shapes(*probe)}"))
        if result.answered:
            break
    raise unusable(of, promise, failures)


def describe(value: object) -> str:
    """Return what a person would call a function or object."""
    return repr(getattr(value, "__qualname__", None) or f"{type(value).__name__} object")


def binds(function: Callable[..., Any], count: int) -> bool | None:
    """Say whether a function takes so many arguments by place; None where it does not say."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def shapes(*arguments: Any) -> str:
    """Return the shapes of the arrays among arguments, as printed in errors."""
    return " and ".join(str(list(a.shape)) for a in arguments if isinstance(a, np.ndarray))


def probe_plans(actions: FloatArray) -> FloatArray:
    """Return plans [P, H, A] of these actions [P, A], to check a model with."""
    return np.stack([np.roll(actions, -step, axis=0) for step in range(_HORIZON)], axis=1)


def probe_noise(rows: int, size: int) -> list[FloatArray]:
    """Return noise [rows, H, size] to check a model with; nothing for a deterministic one."""
    return [np.random.default_rng(0).standard_normal((rows, _HORIZON, size))] if size else []


def array_of_tensor(value: object) -> NDArray[Any] | None:
    """Return the numbers of a tensor; None for what is none."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    tensor = value.detach().cpu()
    # numpy has no bfloat16; float32 holds each of its numbers exactly.
    numbers: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return numbers


def floats(result: object) -> FloatArray:
    """Return what a function gave as a float64 array of our own."""
    values = array_of_tensor(result)
    if values is None:
        if isinstance(result, tuple) and any(np.ndim(part) for part in result[:1]):
            raise WorldModelError(
                f"a tuple of {len(result)} came back, and one array is needed. Return the mean: "
                f"lambda o, a: net(o, a)[0]. Or draw from it: an object with noise_size "
                f"(docs/models.md). Means and variances of an ensemble go into SampledEnsemble"
            )
        if isinstance(result, Mapping) and result:
            keys = ", ".join(map(repr, result))
            raise WorldModelError(
                f"a {type(result).__name__} with {keys} came back, and one array is needed. Return "
                f"its part: lambda o, a: net(o, a)[{next(iter(result))!r}]"
            )
        if np.ma.is_masked(result):
            raise WorldModelError(
                "a masked array came back, with numbers that are masked; fill them in, or return "
                "the array without its mask"
            )
        try:
            values = np.asarray(result)
        except ValueError as error:
            raise WorldModelError(
                f"a {type(result).__name__} came back that is no array ({error}); return one array"
            ) from error
    if values.dtype.kind not in "fiu":
        what = "None" if result is None else f"a {type(result).__name__}"
        if values.shape or hasattr(result, "dtype"):
            what = f"an array of {'texts' if values.dtype.kind in 'US' else values.dtype.name}"
        # As of a distribution, whose kinds are many.
        is_drawn = not values.shape and hasattr(result, "mean")
        cure = "its mean: lambda o, a: net(o, a).mean" if is_drawn else "floats"
        raise WorldModelError(f"{what} came back; return {cure}")
    return np.array(values, dtype=np.float64)


def _as_array(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of its own, of float64 but for pictures."""
    return np.array(values, dtype=np.uint8 if is_picture(values) else np.float64, order="C")


ARRAYS = Sender("float64 arrays", _as_array)


def tensors_of(dtype: Any, device: Any) -> Sender:
    """Return the way to hand over torch tensors of this dtype on this device."""
    torch = sys.modules["torch"]
    label = f"{str(dtype).removeprefix('torch.')} tensors"
    # Memory of torch's own is aligned, numpy's need not be, and kernels may round accordingly.

    def send(values: NDArray[Any]) -> Any:
        # Pictures travel as they are, and become numbers where the network is.
        own = torch.uint8 if is_picture(values) else dtype
        return torch.tensor(values, dtype=own, device=device)

    return Sender(label, send, max(TOLERANCE, 8 * torch.finfo(dtype).eps))


def in_multiples(call: ArrayFunction, multiple: int) -> ArrayFunction:
    """Return a call that is given multiples of so many rows; what is added is left out again."""

    def filled(*arrays: FloatArray) -> FloatArray:
        added = -len(arrays[0]) % multiple
        if not added or arrays[0].ndim < 2:
            return call(*arrays)
        result = call(*(with_rows(array, added) for array in arrays))
        return result[: len(arrays[0])] if len(result) == len(arrays[0]) + added else result

    return call if multiple == 1 else filled


def with_rows(array: FloatArray, added: int) -> FloatArray:
    """Return an array with its last row so many times more."""
    return np.concatenate([array, array[-1:].repeat(added, axis=0)])

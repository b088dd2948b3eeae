"""Codec: typed values to the plain ones that JSON has, and back with every value checked.

Dataclasses and typed dictionaries are objects, named tuples and tuples lists, enums their values,
arrays nested lists; truth in an array is 0 or 1. A field with the metadata `UNWRITTEN` is left
out; the parts of one with `BESIDE` stand beside the fields of the dataclass that has it. A
dataclass may have a say in its own form: ``to_plain(values)`` returns what is written in place of
its encoded fields, and the class method ``from_plain(values)`` the fields that are decoded in place
of what was read.
"""

from __future__ import annotations

import dataclasses
import json
import math
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import numpy as np

T = TypeVar("T")
# Of a dataclass's field that no file holds; it needs a default.
UNWRITTEN: Mapping[str, bool] = {"is_written": False}
# Of a dataclass's field that is a dataclass, too, and whose parts stand beside its own.
BESIDE: Mapping[str, bool] = {"is_beside": True}
# Where a value stands: its parent's place, and its name or number there.
_Place: TypeAlias = "tuple[_Place, str | int] | str"
# What makes a value of its type from a plain one at a place.
_Reader: TypeAlias = Callable[[Any, _Place], Any]
_SCALARS: Mapping[Any, tuple[tuple[type, ...], str]] = {
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    NoneType: ((NoneType,), "null"),
}
_PLAIN = frozenset(_SCALARS)
# Of arrays: what holds the numbers, which ones it takes, and what they are called.
_ARRAYS: Mapping[Any, tuple[Any, tuple[type, ...], str]] = {
    np.bool_: (np.bool_, (bool, int), "a list of 0 or 1"),
    np.integer: (np.int64, (int,), "a list of whole numbers"),
    np.floating: (np.float64, (int, float), "a list of finite numbers"),
}


class CodecError(ValueError):
    """A value that is none of its type; the message names its place."""


def encode(value: Any) -> Any:
    """Return a value as JSON has it.

    >>> encode({"rates": (0.5, np.float64(1.0)), "solved": np.array([True, False])})
    {'rates': [0.5, 1.0], 'solved': [1, 0]}
    """
    if type(value) in _PLAIN:
        return value
    # Most of what is left, and quicker to tell than what follows.
    if type(value) in (tuple, list):
        return [part if type(part) in _PLAIN else encode(part) for part in value]
    if isinstance(value, Enum):
        return encode(value.value)
    if isinstance(value, str | int | float | np.generic):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.ndarray):
        return (value.astype(int) if value.dtype == bool else value).tolist()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        values: dict[str, Any] = {}
        beside = _beside(type(value))
        for name in _fields(type(value)):
            part = encode(getattr(value, name))
            values |= part if name in beside else {name: part}
        return value.to_plain(values) if hasattr(value, "to_plain") else values
    if isinstance(value, Mapping) and all(isinstance(name, str) for name in value):
        return {name: encode(part) for name, part in value.items()}
    if isinstance(value, Sequence):
        return [encode(part) for part in value]
    raise TypeError(f"JSON has no form for {reprlib.repr(value)}")


def decode(kind: type[T], value: Any, *, at: str = "") -> T:
    """Return the value of a type that `encode` has made plain, with all its parts checked.

    Raises CodecError, naming the place of the first value that does not fit; ``at`` is where the
    value itself stands in what was read.

    >>> decode(tuple[int, ...], [1, "2"], at="steps")
    Traceback (most recent call last):
    pytest_cpg.contracts.codec.CodecError: steps[1] is '2', and has to be a whole number
    """
    decoded: T = _reader(kind)(value, at)
    return decoded


def loads(text: str) -> Any:
    """Return plain values from JSON, which has neither NaN nor infinity.

    Raises ValueError, saying what is no JSON, and where.
    """
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError as error:
        raise ValueError(str(error)) from None


def _reader(kind: Any) -> _Reader:
    origin, inner = get_origin(kind) or kind, get_args(kind)
    # What ``type`` declares (Python 3.12), as numpy does NDArray from 2.5.
    meant = getattr(origin, "__value__", None)
    if meant is not None:
        return _reader(meant[inner] if inner else meant)
    if origin is Any:
        return lambda value, _: value
    if origin is Literal:
        return partial(_one_of, inner)
    if origin in (Union, UnionType):
        readers = [_reader(part) for part in inner if part is not NoneType]
        return partial(_of_any, readers, NoneType in inner)
    if origin in _SCALARS:
        return partial(_scalar, origin)
    if not isinstance(origin, type):
        return partial(_formless, kind)
    if origin is np.ndarray:
        return partial(_array, kind)
    if issubclass(origin, Enum):
        return partial(_member, origin)
    if issubclass(origin, tuple):
        return _tuple_reader(origin, inner)
    if dataclasses.is_dataclass(origin):
        return partial(_dataclass, origin)
    if is_typeddict(origin):
        return partial(_typed_dict, origin)
    if issubclass(origin, Mapping):
        return partial(_mapping, _reader(inner[1]))
    if issubclass(origin, Sequence):
        return partial(_sequence, inner[0], _reader(inner[0]))
    return partial(_formless, kind)


def _formless(kind: Any, *_: Any) -> NoReturn:
    raise TypeError(f"JSON has no form for {kind!r}")


def _member(kind: type[Enum], value: Any, at: _Place) -> Any:
    return kind(_one_of([member.value for member in kind], value, at))


def _mapping(read: _Reader, value: Any, at: _Place) -> dict[str, Any]:
    return {name: read(member, (at, name)) for name, member in _object(value, at).items()}


def _sequence(kind: Any, read: _Reader, value: Any, at: _Place) -> list[Any]:
    values = _list(value, at)
    # Most are of numbers, which are looked at together; one that is wrong is found below.
    is_plain = kind in _PLAIN and {*map(type, values)} <= {*_SCALARS[kind][0]}
    if is_plain and (kind is not float or all(map(_is_finite, values))):
        return values.copy()
    return [read(part, (at, number)) for number, part in enumerate(values)]


def _scalar(kind: type, value: Any, at: _Place) -> Any:
    kinds, wanted = _SCALARS[kind]
    # True and false are no numbers here.
    if type(value) not in kinds:
        _refuse(value, at, wanted)
    if kind is float and not _is_finite(value):
        _refuse(value, at, "a finite number")
    return value


def _one_of(choices: Iterable[Any], value: Any, at: _Place) -> Any:
    for choice in choices:
        if type(value) is type(choice) and value == choice:
            return choice
    return _refuse(value, at, f"one of {', '.join(map(repr, choices))}")


def _of_any(readers: Sequence[_Reader], is_optional: bool, value: Any, at: _Place) -> Any:
    if value is None and is_optional:
        return None
    for read in readers[:-1]:
        try:
            return read(value, at)
        except CodecError:
            continue
    # What the last one says is as good as any.
    return readers[-1](value, at)


def _array(kind: Any, value: Any, at: _Place) -> Any:
    """Return the array of an alias such as `pytest_cpg.contracts.FloatArray`."""
    scalar = get_args(get_args(kind)[1])[0]
    dtype, kinds, wanted = _ARRAYS[get_origin(scalar) or scalar]
    if not _are_of(kinds, _list(value, at)):
        _refuse(value, at, wanted)
    try:
        array = np.array(value, dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise _error(at, f"is no array: {error}") from None
    # Truth of any number but 0 and 1 would be another number when it is written.
    if not np.isfinite(array).all() or (dtype is np.bool_ and not np.array_equal(array, value)):
        _refuse(value, at, wanted)
    return array


def _are_of(kinds: tuple[type, ...], values: Any) -> bool:
    others = {*map(type, values)}.difference(kinds)
    return others <= {list} and all(_are_of(kinds, part) for part in values if type(part) is list)


def _tuple_reader(kind: type, inner: Sequence[Any]) -> _Reader:
    if hasattr(kind, "_fields"):
        make: Callable[[list[Any]], Any] = kind._make  # type: ignore[attr-defined]  # a named tuple
        return lambda value, at: make(_elements([*_readers(kind).values()], value, at))
    if inner[-1] is Ellipsis:
        read = partial(_sequence, inner[0], _reader(inner[0]))
        return lambda value, at: tuple(read(value, at))
    readers = [*map(_reader, inner)]
    return lambda value, at: tuple(_elements(readers, value, at))


def _elements(readers: Sequence[_Reader], value: Any, at: _Place) -> list[Any]:
    if len(_list(value, at)) != len(readers):
        _refuse(value, at, f"a list of {len(readers)}")
    return [
        read(part, (at, number))
        for number, (read, part) in enumerate(zip(readers, value, strict=True))
    ]


def _dataclass(kind: Any, value: Any, at: _Place) -> Any:
    values = _object(value, at)
    if hasattr(kind, "from_plain"):
        values = _asked(at, kind.from_plain, values)
    fields, readers = _fields(kind), _readers(kind)
    for name in _beside(kind):
        names = _fields(_hints(kind)[name]).keys() & values.keys()
        if name in values:
            raise _error(at, f"has an unknown {name!r:.40}")
        beside = {inner: values[inner] for inner in names}
        values = {inner: part for inner, part in values.items() if inner not in names} | {
            name: beside
        }
    _check_names(values, _needed(kind), at)
    for name in values:
        if name not in fields:
            raise _error(at, f"has an unknown {name!r:.40}")
    parts = {
        name: readers[name](part, at if name in _beside(kind) else (at, name))
        for name, part in values.items()
    }
    return _asked(at, kind, **parts)


def _typed_dict(kind: Any, value: Any, at: _Place) -> Any:
    """Return a dictionary with the parts that its type names checked; it may have others."""
    values = _object(value, at)
    readers, others = _readers(kind), _reader(Any)
    _check_names(values, [name for name in readers if name in kind.__required_keys__], at)
    return {name: readers.get(name, others)(part, (at, name)) for name, part in values.items()}


def _check_names(values: Mapping[str, Any], needed: Iterable[str], at: _Place) -> None:
    for name in needed:
        if name not in values:
            raise _error(at, f"has no {name!r}")


def _asked(at: _Place, make: Callable[..., Any], /, *values: Any, **parts: Any) -> Any:
    """Return what a class makes of its parts, which may say that they do not fit together."""
    try:
        return make(*values, **parts)
    except (ValueError, ArithmeticError) as error:
        where = _written(at)
        raise CodecError(f"{where}: {error}" if where else str(error)) from None


def _object(value: Any, at: _Place) -> dict[str, Any]:
    return value if isinstance(value, dict) else _refuse(value, at, "an object")


def _list(value: Any, at: _Place) -> list[Any]:
    return value if isinstance(value, list) else _refuse(value, at, "a list")


@cache
def _hints(kind: type) -> dict[str, Any]:
    try:
        return get_type_hints(kind)
    except NameError as error:
        raise NameError(
            f"{error}. Import it outside of `if TYPE_CHECKING:`: {kind.__name__} is read by its "
            f"annotations"
        ) from None


@cache
def _readers(kind: type) -> dict[str, _Reader]:
    """Return what reads each part of a class, by name."""
    readers: dict[str, _Reader] = {}
    for name, hint in _hints(kind).items():
        try:
            readers[name] = _reader(hint)
        except IndexError:
            hint_name = getattr(hint, "__name__", hint)
            raise TypeError(
                f"{kind.__name__}.{name} is a {hint_name}, and says not of what"
            ) from None
    return readers


@cache
def _fields(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """Return the fields of a dataclass that are written, by name."""
    fields = dataclasses.fields(kind)
    return {field.name: field for field in fields if field.metadata.get("is_written", True)}


@cache
def _needed(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields that have no default."""
    missing = dataclasses.MISSING
    fields = _fields(kind).items()
    return tuple(n for n, field in fields if field.default is missing is field.default_factory)


@cache
def _beside(kind: Any) -> tuple[str, ...]:
    """Return the names of the fields whose parts stand beside the others."""
    return tuple(name for name, field in _fields(kind).items() if field.metadata == BESIDE)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _refuse(value: Any, at: _Place, wanted: str) -> NoReturn:
    raise _error(at, f"is {reprlib.repr(value)}, and has to be {wanted}")


def _error(at: _Place, wrong: str) -> CodecError:
    return CodecError(f"{_written(at) or 'it'} {wrong}")


def _written(at: _Place) -> str:
    """Return a place as it is written: ``gates[2].result.oracle.steps``."""
    if isinstance(at, str):
        return at
    parent, name = _written(at[0]), at[1]
    if isinstance(name, int):
        return f"{parent}[{name}]"
    # What is no name of an attribute stands in quotes: ids of gates hold dots.
    if not name.isidentifier():
        return f"{parent}[{name!r:.60}]"
    return f"{parent}.{name}" if parent else name


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")

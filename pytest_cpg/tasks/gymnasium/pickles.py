"""Pickles: an environment as bytes, with the functions that it was made with and no module has."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any, TypeAlias

from pytest_cpg.contracts import TaskError

_Name: TypeAlias = tuple[str, str]
# What numbers and arrays are made of, which an environment may come to hold later.
_NUMBERS: frozenset[_Name] = frozenset(
    {
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
    }
)


class Pickles:
    """Pickles of one environment, and what they may name.

    A function that pickle finds by no name, such as the lambda of a wrapper, stands there by its
    place among the functions met so far. What it closes over is in the pickle: that may be the
    environment itself, which has to be the one that is read and not the one that was written.
    """

    def __init__(self) -> None:
        self._functions: list[FunctionType] = []
        # Codes that are equal may be of two modules, whose globals differ.
        self._places: dict[tuple[CodeType, int], int] = {}
        self._known: frozenset[_Name] = _NUMBERS

    def know(self, environment: Any) -> bytes:
        """Return the pickle of an environment, all that is in it known from now on."""
        try:
            data = pickle.dumps(environment)
        except (TypeError, AttributeError, pickle.PicklingError):
            data = _written(environment, self._new_place)
        reader = _Reader(io.BytesIO(data), self._remade)
        reader.load()
        self._known |= reader.named
        return data

    def write(self, environment: Any) -> bytes:
        """Return the pickle of an environment that holds no functions but those that are known."""
        if self._functions:
            return _written(environment, self._place)
        return pickle.dumps(environment)

    def read(self, data: bytes) -> Any:
        """Return the environment of a pickle that names nothing but what is known."""
        return _Reader(io.BytesIO(data), self._remade, self._known).load()

    def _new_place(self, function: FunctionType) -> int:
        """Return the place of a function among those met so far, the last one if it is new."""
        place = self._places.setdefault(_key(function), len(self._functions))
        if place == len(self._functions):
            self._functions.append(function)
        return place

    def _place(self, function: FunctionType) -> int:
        """Return the place of a function that is known, which is the same in each process."""
        if (place := self._places.get(_key(function))) is None:
            raise TaskError(
                f"{function} was not there when its environment was made, and no module has it, so "
                f"that no state can hold it. Make it in __init__, or give it a name in a module."
            )
        return place

    def _remade(self, place: int, cells: tuple[CellType, ...] | None) -> FunctionType:
        """Return the function of a place, closed over what was read."""
        made = self._functions[place]
        return FunctionType(made.__code__, made.__globals__, made.__name__, None, cells)


class _Writer(pickle.Pickler):
    """Writes functions without a name by their places."""

    def __init__(self, file: io.BytesIO, place: Callable[[FunctionType], int]) -> None:
        super().__init__(file)
        self._place = place

    def reducer_override(self, value: Any, /) -> Any:
        """Return how a function or what it closes over is made anew; leave all else to pickle."""
        if isinstance(value, CellType):
            # Filled once it is known: what is in it may lead to the cell again.
            return _cell, (), _content(value), None, None, _fill
        if isinstance(value, FunctionType) and not _is_named(value):
            attributes = (value.__defaults__, value.__kwdefaults__, value.__dict__)
            made = (self._place(value), value.__closure__)
            return _remade_by_its_place, made, attributes, None, None, _equip
        return NotImplemented


class _Reader(pickle.Unpickler):
    """Reads a pickle that names nothing but what is known; without such a set, it records."""

    def __init__(
        self,
        file: io.BytesIO,
        remade: Callable[..., FunctionType],
        known: frozenset[_Name] | None = None,
    ) -> None:
        super().__init__(file)
        self.named: set[_Name] = set()
        self._remade, self._known = remade, known

    def find_class(self, module: str, name: str, /) -> Any:
        """Return what a pickle names, or raise TaskError for what it should not."""
        if self._known is not None and (module, name) not in self._known:
            raise TaskError(
                f"a state names {module}.{name}, which its environment did not hold when it was "
                f"made, and is not read. Keep {name!r} out of the environment, or in it from the "
                f"first."
            )
        self.named.add((module, name))
        if (module, name) == (__name__, _remade_by_its_place.__name__):
            return self._remade
        return super().find_class(module, name)


def _written(environment: Any, place: Callable[[FunctionType], int]) -> bytes:
    """Return the pickle of an environment in which such functions stand by their places."""
    file = io.BytesIO()
    _Writer(file, place).dump(environment)
    return file.getvalue()


def _key(function: FunctionType) -> tuple[CodeType, int]:
    return function.__code__, id(function.__globals__)


def _remade_by_its_place(place: int, cells: tuple[CellType, ...] | None) -> FunctionType:
    """Stand in a pickle for `Pickles._remade`, which alone knows the functions."""
    raise TaskError(f"function {place} with {cells} is read by the pickles that wrote it alone")


def _is_named(function: FunctionType) -> bool:
    """Tell whether pickle finds a function by its module and name."""
    value: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        value = getattr(value, name, None)
    return value is function


def _cell() -> CellType:
    """Return an empty cell; pickle finds no name of its type."""
    return CellType()


def _content(cell: CellType) -> tuple[Any, ...]:
    """Return what is in a cell, () where nothing is yet."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _fill(cell: CellType, content: tuple[Any, ...]) -> None:
    for value in content:
        cell.cell_contents = value


def _equip(function: FunctionType, attributes: tuple[Any, Any, dict[str, Any]]) -> None:
    function.__defaults__, function.__kwdefaults__, _ = attributes
    function.__dict__.update(attributes[2])

"""Copies: an environment as it was, kept in this process.

What an environment holds is copied by pickle, which never leaves the process. What pickle cannot
copy stays where it is and is held by the copy: models of MuJoCo, windows, surfaces, renderers,
locks. The data of MuJoCo is copied whole, by MuJoCo.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import CellType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence

# Of these packages nothing is copied but MuJoCo's data: descriptions, renderers, windows.
_SHARED = (
    "mujoco.",
    "pygame.",
    "dm_control.mjcf.",
    "dm_control.mujoco.",
    "dm_control._render.",
    "gymnasium.envs.mujoco.mujoco_rendering.",
)
# Larger arrays of a model are meshes and textures, which take no part in a step that MuJoCo checks.
_LARGEST = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Copy:
    """An environment as it was: a pickle, what it leaves out, and MuJoCo's data and models.

    Attributes
    ----------
    data : list of (MjData, MjModel, MjData)
        Where it is, its model, and its copy.
    models : mapping
        By the id of a model, the model and what its arrays were; shared by the copies of an
        episode.
    """

    pickled: bytes
    shared: list[Any]
    data: list[tuple[Any, Any, Any]]
    models: Mapping[int, tuple[Any, Mapping[str, Any]]]


def copy_of(environment: Any, last: Copy | None = None) -> Copy:
    """Return a copy of an environment; arrays of its models are as in the last copy, if any.

    Raises what pickle raises when it cannot be copied.
    """
    file = io.BytesIO()
    writer = _Writer(file)
    writer.dump(environment)
    data = [(live, model, _data_copied(live, model)) for live, model in writer.data.values()]
    before = {} if last is None else last.models
    models = {id(model): before.get(id(model)) or (model, _arrays(model)) for _, model, _ in data}
    same = models.keys() == before.keys()
    return Copy(file.getvalue(), writer.shared, data, before if same else models)


def restored(copy: Copy, models: Mapping[int, Any]) -> Any:
    """Return the environment of a copy; its models hold the arrays of ``models`` until then."""
    for live, model, saved in copy.data:
        _mujoco().mj_copyData(live, model, saved)
    if models is not copy.models:
        for model, arrays in copy.models.values():
            for name, value in arrays.items():
                _write(model, name, value)
    return _Reader(io.BytesIO(copy.pickled), copy.shared).load()


class _Writer(pickle.Pickler):
    """Writes an environment; what pickle cannot copy stands there by its place among the shared."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.shared: list[Any] = []
        # Data and model of MuJoCo, by the id of the data.
        self.data: dict[int, tuple[Any, Any]] = {}

    def reducer_override(self, value: Any, /) -> Any:
        """Return how a value is made anew; leave what pickle can copy to it."""
        kind: Any = type(value)
        if isinstance(value, CellType):
            # Filled once it is known: what is in it may lead to the cell again.
            return CellType, (), _content(value), None, None, _fill
        if isinstance(value, FunctionType):
            return NotImplemented if _is_named(value) else self._remade(value)
        if isinstance(value, type):
            return NotImplemented if _is_named(value) else self._left(value)
        if isinstance(value, np.random.BitGenerator):
            # It is made from the system's entropy, which takes longer than all that it then is.
            _, _, bits = value.__reduce__()
            return _bits, (kind,), bits
        if _is_plain_tensor(value):
            # Torch's own pickle of a tensor is a file, and takes ten times as long.
            return _tensor, (value.numpy(),)
        if (data := _data_of(value)) is not None:
            self.data[id(data[0])] = data
        if _is_of_shared_package(kind):
            return self._left(value)
        if _is_its_attributes(kind):
            state = object.__getstate__(value)
            return object.__new__, (kind,), state, None, None, _equip
        return NotImplemented if _can_be_copied(value) else self._left(value)

    def _left(self, value: Any) -> Any:
        self.shared.append(value)
        return _shared, (len(self.shared) - 1,)

    def _remade(self, function: FunctionType) -> Any:
        """Return how a function is made that pickle finds by no name, such as a lambda.

        What it closes over is copied: that may be the environment itself.
        """
        self.shared.append(function)
        attributes = (function.__defaults__, function.__kwdefaults__, function.__dict__)
        made = (len(self.shared) - 1, function.__closure__)
        return _function, made, attributes, None, None, _equip_function


class _Reader(pickle.Unpickler):
    """Reads a pickle with what it shares."""

    def __init__(self, file: io.BytesIO, shared: list[Any]) -> None:
        super().__init__(file)
        self._by_name: Mapping[str, Callable[..., Any]] = {
            _shared.__name__: shared.__getitem__,
            _function.__name__: lambda place, cells: _closed(shared[place], cells),
        }

    def find_class(self, module: str, name: str, /) -> Any:
        """Return what a pickle names."""
        if module == __name__ and name in self._by_name:
            return self._by_name[name]
        return super().find_class(module, name)


def _shared(place: int) -> Any:
    """Stand in a pickle for what it shares, which `_Reader` alone knows."""
    raise pickle.UnpicklingError(f"{place} is read by its own reader alone")


def _function(place: int, cells: tuple[CellType, ...] | None) -> FunctionType:
    """Stand in a pickle for a function, which `_Reader` alone knows."""
    raise pickle.UnpicklingError(f"{place} with {cells} is read by its own reader alone")


def _closed(function: FunctionType, cells: tuple[CellType, ...] | None) -> FunctionType:
    return FunctionType(function.__code__, function.__globals__, function.__name__, None, cells)


def _is_named(value: Any) -> bool:
    """Tell whether pickle finds a function or class by its module and name."""
    at: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        at = getattr(at, name, None)
    return at is value


@cache
def _is_of_shared_package(kind: Any) -> bool:
    """Tell whether values of a type are shared, whatever pickle could do."""
    names = [f"{base.__module__}." for base in kind.__mro__]
    return any(name.startswith(_SHARED) for name in names) or issubclass(kind, ModuleType)


@cache
def _is_its_attributes(kind: Any) -> bool:
    """Tell whether the attributes of a value are all of it, and pickle is not to ask for more.

    The own pickle of an environment may hold the arguments that it was made with, and no state. A
    wrapper that looks up in what it wraps recurses while it has no attributes yet.
    """
    if issubclass(kind, sys.modules["gymnasium"].Env):
        return True
    is_usual = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    return is_usual and hasattr(kind, "__getattr__") and not hasattr(kind, "__setstate__")


# Whether pickle can copy values of a type, as it could copy the first one.
_COPIED: dict[type, bool] = {}


def _can_be_copied(value: Any) -> bool:
    kind = type(value)
    if kind not in _COPIED:
        try:
            value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
            _COPIED[kind] = True
        except (TypeError, AttributeError, ValueError, pickle.PicklingError):
            _COPIED[kind] = False
    return _COPIED[kind]


def _content(cell: CellType) -> tuple[Any, ...]:
    """Return what is in a cell, () where nothing is yet."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _fill(cell: CellType, content: tuple[Any, ...]) -> None:
    for value in content:
        cell.cell_contents = value


def _equip(value: Any, state: Any) -> None:
    """Give a value its attributes, those in slots, too."""
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, part in {**(attributes or {}), **(slots or {})}.items():
        object.__setattr__(value, name, part)


def _equip_function(function: FunctionType, attributes: tuple[Any, Any, dict[str, Any]]) -> None:
    function.__defaults__, function.__kwdefaults__, _ = attributes
    function.__dict__.update(attributes[2])


def _is_plain_tensor(value: Any) -> bool:
    """Tell whether a value is a tensor of numbers that numpy knows, and nothing else."""
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not torch.Tensor or value.dtype is torch.bfloat16:
        return False
    is_here = value.device.type == "cpu" and value.layout is torch.strided
    is_here = is_here and value.is_contiguous()
    return is_here and not (value.requires_grad or value.is_conj() or value.is_neg())


def _tensor(array: Any) -> Any:
    return sys.modules["torch"].from_numpy(array)


class _Nothing(ISeedSequence):
    """Seeds a generator that is given its state next."""

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        return np.zeros(n_words, dtype)


def _bits(kind: Any) -> Any:
    return kind(_Nothing())


def _mujoco() -> Any:
    return sys.modules["mujoco"]


def _data_of(value: Any) -> tuple[Any, Any] | None:
    """Return MuJoCo's data that a value is or, in dm_control, wraps, and its model."""
    if (mujoco := sys.modules.get("mujoco")) is None:
        return None
    if not isinstance(value, mujoco.MjData):
        kind: Any = type(value)
        if not _is_of_shared_package(kind):
            return None
        value = getattr(getattr(value, "data", None), "ptr", None)
    return (value, value.model) if isinstance(value, mujoco.MjData) else None


def _data_copied(data: Any, model: Any) -> Any:
    copy = _mujoco().MjData(model)
    _mujoco().mj_copyData(copy, model, data)
    return copy


def _arrays(model: Any) -> dict[str, Any]:
    """Return what an environment may change in a model: small arrays, and its options."""
    values = {name: getattr(model, name) for name in dir(model) if name[0] != "_"}
    arrays = {
        name: value.copy()
        for name, value in values.items()
        if isinstance(value, np.ndarray) and 0 < value.nbytes <= _LARGEST and value.flags.writeable
    }
    options = {name: getattr(model.opt, name) for name in dir(model.opt) if name[0] != "_"}
    arrays |= {
        f"opt.{name}": np.copy(value)
        for name, value in options.items()
        if isinstance(value, np.ndarray | float | int)
    }
    return arrays


def _write(model: Any, name: str, value: Any) -> None:
    if not name.startswith("opt."):
        getattr(model, name)[...] = value
    elif value.ndim:
        getattr(model.opt, name[4:])[...] = value
    else:
        setattr(model.opt, name[4:], value.item())

"""Fingerprint: what tells a model from any other by what it holds, and by its code."""

from __future__ import annotations

import hashlib
import io
import pickle
import sys
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np


def fingerprint(model: object) -> str:
    """Return 64 hexadecimal digits of a model's content and code.

    Equal digits: the same values in every attribute, closure and global name that its functions
    read, and the same source files of its classes. What packages contribute is known by name, and
    what a model reads when it is called (files, the clock) is not known at all.

    Raises
    ------
    ValueError
        When it holds something whose content cannot be read, saying what.
    """
    buffer = io.BytesIO()
    pickler = _Digester(buffer)
    try:
        pickler.dump(model)
    # Pickling runs the code of whatever it meets.
    except Exception as error:
        text = " ".join(str(error).split())
        raise ValueError(f"its content cannot be read: {text or type(error).__name__}") from None
    return hashlib.sha256(buffer.getvalue()).hexdigest()


class _Digester(pickle.Pickler):
    """Writes what is only hashed: arrays and tensors by their bits, code by its instructions."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer, protocol=5)
        self._functions: dict[int, FunctionType] = {}

    def reducer_override(self, value: Any) -> Any:
        """Return in what terms a value is known; the rest is pickled as usual."""
        # What the terms themselves are made of.
        if value is str or value is _parts:
            return NotImplemented
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(value, torch.Tensor):
            flat = value.detach().cpu().contiguous().reshape(-1)
            bits = _sha(flat.view(torch.uint8).numpy().tobytes())
            return str, (f"{value.dtype} {tuple(value.shape)} {value.device} {bits}",)
        if type(value) is np.ndarray and not value.dtype.hasobject:
            return str, (f"{value.dtype.str} {value.shape} {_sha(value.tobytes())}",)
        if isinstance(value, ModuleType):
            return str, (f"module {value.__name__} {_source_of(value.__name__)}",)
        if isinstance(value, type):
            name = f"{value.__module__}.{value.__qualname__}"
            return str, (f"class {name} {_source_of(value.__module__)}",)
        if isinstance(value, FunctionType):
            return self._of_function(value)
        return NotImplemented

    def _of_function(self, function: FunctionType) -> Any:
        name = f"{function.__module__}.{function.__qualname__}"
        if id(function) in self._functions or not _is_users(function.__module__):
            return str, (f"function {name}",)
        # Kept, so that no other gets its id.
        self._functions[id(function)] = function
        known = function.__globals__
        read = {n: known[n] for n in sorted(_names_in(function.__code__)) if n in known}
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        defaults = (function.__defaults__, function.__kwdefaults__)
        return _parts, (name, _code_of(function.__code__), defaults, read, cells)


def _parts(*parts: object) -> tuple[object, ...]:
    """Stand for a function; nothing calls it, as what was written is not read."""
    return parts


def _code_of(code: CodeType) -> list[Any]:
    """Return what a function does, without where it is written."""
    constants = [_code_of(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return [code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants]


def _names_in(code: CodeType) -> set[str]:
    inner = [_names_in(c) for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*inner)


@cache
def _is_users(module: str) -> bool:
    """Say whether a module is the user's own, and not of Python or an installed package."""
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return not {"site-packages", "dist-packages"} & set(Path(file).parts)


@cache
def _source_of(module: str) -> str:
    """Return the digest of a user's file; empty for other modules, and for one without a file."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or not _is_users(module):
        return ""
    try:
        return _sha(Path(file).read_bytes())
    except OSError:
        return ""


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

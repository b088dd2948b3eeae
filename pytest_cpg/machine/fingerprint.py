"""Fingerprint: what tells a model from any other by what it holds, and by its code."""

from __future__ import annotations

import ast
import hashlib
import io
import pickle
import sys
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import (
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import numpy as np

# Python's own book-keeping in a class.
_SLOTS = (MemberDescriptorType, GetSetDescriptorType)


def fingerprint(*values: object) -> str:
    """Return 64 hexadecimal digits of the content and code of models, tasks or planners.

    Equal digits: equal values in every attribute, closure, class attribute, and global name or
    attribute of a module that their functions read, and the same source files, those that they
    import included. What packages contribute is known by name. Not known is what is read in other
    ways (files, the clock, ``globals()``, a cache), nor what an object leaves out when it is
    pickled: who needs more asks the model as well. Raises ValueError when they hold something whose
    content cannot be read, saying what.
    """
    return hashlib.sha256(_content(values, {})).hexdigest()


def source_of(value: object) -> str:
    """Return the digest of the user's files that an object's code is in; empty for a package's."""
    return _source_of(getattr(value, "__module__", None) or type(value).__module__)


def _content(value: object, seen: dict[int, Any]) -> bytes:
    buffer = io.BytesIO()
    try:
        _Digester(buffer, seen).dump(value)
    # Pickling runs the code of whatever it meets.
    except Exception as error:
        text = " ".join(str(error).split())
        raise ValueError(f"its content cannot be read: {text or type(error).__name__}") from None
    return buffer.getvalue()


class _Digester(pickle.Pickler):
    """Writes what is only hashed: arrays and tensors by their bits, code by its instructions."""

    def __init__(self, buffer: io.BytesIO, seen: dict[int, Any]) -> None:
        super().__init__(buffer, protocol=5)
        # Without memory: which equal values are one object differs from process to process.
        self.fast = True
        self._seen = seen

    def persistent_id(self, value: Any) -> Any:
        """Write a set in an order of its own; Python's differs from process to process."""
        if type(value) in (set, frozenset):
            return "set", sorted(_sha(_content(item, self._seen)) for item in value)
        return None

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
        gymnasium = sys.modules.get("gymnasium")
        if gymnasium is not None and isinstance(value, gymnasium.Space):
            # But for its generator, which each reset may seed: a class may share it.
            held = {name: part for name, part in vars(value).items() if name != "_np_random"}
            return _parts, (type(value).__name__, held)
        if isinstance(value, ModuleType):
            return str, (f"module {value.__name__} {_source_of(value.__name__)}",)
        if isinstance(value, type | FunctionType):
            return self._of_code(value)
        return NotImplemented

    def _of_code(self, value: Any) -> Any:
        """Return what a class or function of the user is; others are known by name."""
        # What stands around it is forgotten where it is sent.
        name = f"{value.__module__}.{value.__name__}"
        if id(value) in self._seen or not _is_users(value.__module__):
            return str, (name,)
        self._seen[id(value)] = value
        sources = _source_of(value.__module__)
        if isinstance(value, type):
            bases = [base for base in value.__mro__[1:] if _is_users(base.__module__)]
            return _parts, (name, sources, bases, dict(_attributes(value)))
        code, defaults = value.__code__, (value.__defaults__, value.__kwdefaults__)
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        closed = dict(zip(code.co_freevars, cells, strict=True))
        names = sorted(_names_in(code).union(closed))
        read = dict(_read(names, {**value.__globals__, **closed}))
        return _parts, (name, sources, _code_of(code), defaults, read)


def _parts(*parts: object) -> tuple[object, ...]:
    """Stand for a class or function; nothing calls it, as what was written is not read."""
    return parts


def _attributes(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield methods and values of a class, by name."""
    for name, value in sorted(vars(kind).items()):
        if isinstance(value, staticmethod | classmethod):
            yield name, value.__func__
        elif isinstance(value, property):
            yield name, (value.fget, value.fset)
        elif isinstance(value, cached_property):
            yield name, value.func
        elif isinstance(value, FunctionType) or not (
            name.startswith("__") or name == "_abc_impl" or isinstance(value, _SLOTS)
        ):
            yield name, value


def _read(
    names: list[str], values: Mapping[str, Any], module: str = ""
) -> Iterator[tuple[str, Any]]:
    """Yield what names stand for, and what they do in modules of the user's among that."""
    for name in names:
        if name not in values:
            continue
        value, place = values[name], f"{module}{name}"
        yield place, value
        # One within another: a package names its modules, and these name each other.
        if isinstance(value, ModuleType) and _is_users(value.__name__) and place.count(".") < 2:
            yield from _read(names, vars(value), f"{place}.")


def _code_of(code: CodeType) -> list[Any]:
    """Return what a function does, without where it is written."""
    constants = [_code_of(c) if isinstance(c, CodeType) else c for c in code.co_consts]
    return [code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants]


def _names_in(code: CodeType) -> set[str]:
    inner = [_names_in(c) for c in code.co_consts if isinstance(c, CodeType)]
    return set(code.co_names).union(*inner)


def _file_of(module: str) -> str | None:
    return getattr(sys.modules.get(module), "__file__", None)


def _is_users(module: str) -> bool:
    """Say whether a module is the user's own, and not of Python or an installed package."""
    return _is_in_users_file(module, _file_of(module))


@cache
def _is_in_users_file(module: str, file: str | None) -> bool:
    top = module.partition(".")[0]
    if top == "pytest_cpg" or (top in sys.stdlib_module_names and module != "__main__"):
        return False
    return not {"site-packages", "dist-packages"} & set(Path(file or "").parts)


def _source_of(module: str) -> str:
    """Return the digest of a user's file and of those it imports; empty for other modules."""
    return _source_in(module, _file_of(module))


# By file as well: sessions in one process may each have a conftest of their own.
@cache
def _source_in(module: str, file: str | None) -> str:
    digests: dict[str, str] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        file = _file_of(name)
        if name in digests or file is None or not _is_users(name):
            continue
        try:
            data = Path(file).read_bytes()
            pending += _imported_by(name, data)
        except (OSError, SyntaxError, ValueError):
            continue
        digests[name] = _sha(data)
    return _sha(repr(sorted(digests.values())).encode()) if digests else ""


def _imported_by(module: str, source: bytes) -> Iterator[str]:
    """Yield the modules that a file may import, wherever in it that stands."""
    package = getattr(sys.modules[module], "__package__", None) or ""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1]
            parts = [*(parents if node.level else []), *([node.module] if node.module else [])]
            name = ".".join(filter(None, parts))
            yield name
            yield from (f"{name}.{alias.name}" for alias in node.names)


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()

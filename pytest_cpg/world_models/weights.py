"""Weights: named tensors of a file, read without running anything that the file holds."""

from __future__ import annotations

import math
import os
import pickle
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.contracts.errors import needs_extra
from pytest_cpg.machine.files import (
    HARMLESS_BYTES,
    MOST_SWELLING,
    check_unpacked_size,
    replace_file,
)
from pytest_cpg.world_models.binding.tensors import Tensor, torch

Weights: TypeAlias = dict[str, Tensor]
# Some sizes may be NaN: `size_of` a tensor that is not there.
Shape: TypeAlias = tuple[Any, ...]

# Earlier ones run code of a file even where only weights are asked for (CVE-2025-32434).
_SAFE_TORCH = (2, 6)
# Under what name training code keeps the network in a larger checkpoint.
_NETWORK = ("model", "agent_state_dict", "state_dict", "model_state_dict")
# What torch.compile puts between a module and its own names.
_COMPILED = "_orig_mod."
# A report names so many keys of each kind.
_NAMED = 6
_PARALLEL = " (DataParallel adds it)"
# "state.0.weigth" is as near to what is missing as this.
_LIKENESS = 0.85
# As many bytes of a file that is none of torch's.
_SHOWN = 12


def check_torch() -> None:
    """Raise ComponentError for a torch that runs code of files it is to read weights of."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < _SAFE_TORCH:
        raise ComponentError(
            f"torch {torch.__version__} can be made to run code of a file whose weights it reads "
            f'(CVE-2025-32434). Install 2.6 or later: pip install --upgrade "torch>=2.6"'
        )


def read_content(path: str | os.PathLike[str]) -> Any:
    """Return what `torch.save` wrote, tensors and plain containers only, or safetensors by name.

    Raises ComponentError for a torch that would run code of the file. Raises WorldModelError when
    there is no such file, or it can only be read by running what is in it.
    """
    if not os.path.isfile(path):
        raise WorldModelError(f"there is no model file {os.fspath(path)!r}.")
    if Path(path).suffix == ".safetensors":
        return read_safetensors(path)
    check_torch()
    try:
        check_unpacked_size(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        match = re.search(r"GLOBAL (\S+)", str(error))
        raise WorldModelError(
            f"{os.fspath(path)!r} holds pickled objects, and to read those is to run code of the "
            f"file. Save the weights alone: torch.save(model.state_dict(), path)."
            f"{f' It names {match[1]}.' if match else ''}"
        ) from None
    # What is in a file that torch did not write may be wrong in any way.
    except Exception as error:
        with open(path, "rb") as file:
            first = file.read(_SHOWN)
        why = f"it begins with {first!r}" if first else "it is empty"
        # Of bytes that torch did not write, its other exceptions say nothing.
        if first and isinstance(error, RuntimeError | ValueError | MemoryError) and str(error):
            why = str(error).splitlines()[0].rstrip(".")
        raise WorldModelError(
            f"{os.fspath(path)!r} is no file of torch.save: {why}. Save the weights by "
            f"torch.save(model.state_dict(), path)."
        ) from None


def read_weights(path: str | os.PathLike[str]) -> Weights:
    """Return the tensors of a state dict by name, from .safetensors or what `torch.save` wrote."""
    return weights_in(read_content(path), path)


def weights_in(content: Any, path: str | os.PathLike[str]) -> Weights:
    """Return the tensors of a state dict that is the content of a file, or an entry of it.

    Names of compiled modules are made plain.
    """
    entries = content
    while isinstance(entries, Mapping):
        inner = [entries[name] for name in _NETWORK if isinstance(entries.get(name), Mapping)]
        if not inner:
            break
        entries = inner[0]
    weights = {
        str(name).replace(_COMPILED, ""): value
        for name, value in (entries.items() if isinstance(entries, Mapping) else ())
        if isinstance(value, Tensor)
    }
    if not weights:
        raise WorldModelError(
            f"{os.fspath(path)!r} holds no named tensors. Save the weights by "
            f"torch.save(model.state_dict(), path)."
        )
    for name, value in weights.items():
        # Sparse ones are what is stored of them.
        if value.layout != torch.strided:
            continue
        # Others may repeat a few numbers without end.
        stored = value.untyped_storage().nbytes()
        if value.nbytes > max(HARMLESS_BYTES, MOST_SWELLING * stored):
            raise WorldModelError(
                f"{os.fspath(path)!r}: {name} has {_shape(value)}, {value.nbytes} bytes, of "
                f"{stored} that are stored. Save a copy of it: {name}.contiguous()."
            )
    return weights


def part(weights: Weights, prefix: str) -> Weights:
    """Return the weights below a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in weights.items()
        if name.startswith(prefix)
    }


def in_one_type(weights: Weights) -> Weights:
    """Return weights as float64 where any of them is, and as float32 otherwise.

    Files save room by half precision and bfloat16, whose numbers float32 holds exactly.
    """
    is_double = any(value.dtype == torch.float64 for value in weights.values())
    kind = torch.float64 if is_double else torch.float32
    return {
        name: value.to(kind) if value.is_floating_point() else value
        for name, value in weights.items()
    }


def prefix_of(weights: Weights, names: Collection[str]) -> str | None:
    """Return what stands before most names of a layout; None where most of them are not there."""
    counts: Counter[str] = Counter()
    for name in weights:
        parts = name.split(".")
        for place in range(len(parts)):
            if ".".join(parts[place:]) in names:
                counts["".join(f"{part}." for part in parts[:place])] += 1
    # Of prefixes that stand before as many, the shortest: a copy may lie beside the weights.
    prefix, count = min(counts.items(), key=lambda item: (-item[1], len(item[0])), default=("", 0))
    return prefix if 2 * count > len(names) else None


def size_of(weights: Weights, name: str, axis: int) -> Any:
    """Return one size of a tensor; NaN where the file has none, and so is all that follows."""
    shape = weights[name].shape if name in weights else ()
    return int(shape[axis]) if len(shape) >= -axis else math.nan


def check(
    weights: Weights,
    layout: Mapping[str, Shape],
    *,
    model: str,
    version: str,
    ignored: tuple[str, ...] = (),
) -> None:
    """Raise WorldModelError unless every key of a layout is there, in its shape, and no other.

    NaN stands for a size that is not known; keys with ``ignored`` prefixes may be there. The file
    looks like a ``version`` of the model.
    """
    problems = _problems(weights, layout, ignored)
    if not problems:
        return
    prefix = prefix_of(weights, layout)
    if prefix:
        raise WorldModelError(
            f"the names of {model} begin with {prefix!r}{_PARALLEL * prefix.startswith('module.')} "
            f"in this file, and should not. Save the weights of what is inside, by their own "
            f"names: torch.save(network.{prefix}state_dict(), path)."
        )
    more = len(problems) - _NAMED
    lines = [*problems[:_NAMED], *[f"and {more} more"] * (more > 0)]
    listed = "\n".join(f"  {line}" for line in lines)
    raise WorldModelError(
        f"these are not the weights of {model}; they look like {version}.\n{listed}\n"
        f"Load the network by your own code, and return it from a learned_dynamics fixture."
    )


def _problems(weights: Weights, layout: Mapping[str, Shape], ignored: tuple[str, ...]) -> list[str]:
    """Return a line for each key that is not as a layout has it."""
    others = [name for name in weights if name not in layout and not name.startswith(ignored)]
    # What is missing usually stands there under another name.
    absent = [name for name in layout if name not in weights]
    close = {other: get_close_matches(other, absent, n=1, cutoff=_LIKENESS) for other in others}
    meant = {names[0]: other for other, names in close.items() if names}
    missing, misshaped = [], []
    for name, shape in layout.items():
        sizes = ", ".join("any" if math.isnan(size) else str(size) for size in shape)
        if name not in weights:
            wanted = "" if "any" in sizes else f", expected [{sizes}]"
            other = meant.get(name)
            there = f"; is {other!r}, {_shape(weights[other])}, meant to be it?" if other else ""
            missing.append(f"{name}: missing{wanted}{there}")
            continue
        actual = weights[name].shape
        pairs = zip(actual, shape, strict=False)
        if len(actual) != len(shape) or any(a != b and not math.isnan(b) for a, b in pairs):
            misshaped.append(f"{name}: {_shape(weights[name])}, expected [{sizes}]")
    unknown = [
        f"{name}: {_shape(weights[name])}, not in this layout" for name in others if not close[name]
    ]
    return [*missing, *misshaped, *unknown]


def _shape(tensor: Tensor) -> str:
    return f"shape {list(tensor.shape)}"


def _library() -> Any:
    with needs_extra("safetensors", "safetensors", what="reading .safetensors needs safetensors"):
        import safetensors.torch
    return safetensors


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    library = _library()
    try:
        with library.safe_open(os.fspath(path), framework="pt") as opened:
            yield opened
    except (OSError, library.SafetensorError) as error:
        raise WorldModelError(f"{os.fspath(path)!r} is no .safetensors file: {error}") from None


def read_safetensors(path: str | os.PathLike[str]) -> Weights:
    """Return the tensors of a .safetensors file by name; WorldModelError for another file."""
    with _opened(path) as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the texts by name that a .safetensors file has beside its tensors."""
    with _opened(path) as opened:
        return dict(opened.metadata() or {})


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors by name, and texts about them, to a file that nobody ever sees a part of."""
    owned = {name: value.contiguous() for name, value in tensors.items()}
    replace_file(Path(path), _library().torch.save(owned, metadata=dict(metadata)))

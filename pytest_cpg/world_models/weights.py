"""Weights: named tensors of a file, read without running anything that the file holds."""

from __future__ import annotations

import io
import os
import pickle
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.machine.files import HARMLESS_BYTES, MOST_SWELLING, check_unpacked_size
from pytest_cpg.world_models.binding.tensors import Tensor, torch

Weights: TypeAlias = dict[str, Tensor]
Shape: TypeAlias = tuple[int, ...]

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


def load_plain(source: str | os.PathLike[str] | bytes) -> Any:
    """Return what `torch.save` wrote, tensors and plain containers only; all is unpickled here.

    Raises ComponentError when this torch would run code of the file. Raises ValueError when the
    file would unpack to far more than it is. Raises Exception, of any kind, when it is not such a
    file.
    """
    check_torch()
    check_unpacked_size(source)
    opened: Any = io.BytesIO(source) if isinstance(source, bytes) else source
    return torch.load(opened, map_location="cpu", weights_only=True)


def check_torch() -> None:
    """Raise ComponentError for a torch that runs code of files it is to read weights of."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < _SAFE_TORCH:
        raise ComponentError(
            f"torch {torch.__version__} can be made to run code of a file whose weights it reads "
            f'(CVE-2025-32434). Install 2.6 or later: pip install --upgrade "torch>=2.6"'
        )


def read_content(path: str | os.PathLike[str]) -> Any:
    """Return what `torch.save` wrote, tensors and plain containers only.

    Raises WorldModelError when there is no such file, or it can only be read by running what is in
    it.
    """
    if not os.path.isfile(path):
        raise WorldModelError(f"there is no model file {os.fspath(path)!r}.")
    try:
        return load_plain(path)
    except pickle.UnpicklingError as error:
        raise WorldModelError(
            f"{os.fspath(path)!r} holds pickled objects, and to read those is to run code of the "
            f"file. Save the weights alone: torch.save(model.state_dict(), path)."
            f"{_named_in(error)}"
        ) from None
    except ComponentError:
        raise
    # What is in a file that torch did not write may be wrong in any way.
    except Exception as error:
        raise WorldModelError(
            f"{os.fspath(path)!r} is no file of torch.save: {_why_unread(path, error)}. Save the "
            f"weights by torch.save(model.state_dict(), path)."
        ) from None


def _why_unread(path: str | os.PathLike[str], error: Exception) -> str:
    """Return why torch could not read a file; of bytes that it did not write it says nothing."""
    with open(path, "rb") as file:
        first = file.read(_SHOWN)
    if not first:
        return "it is empty"
    if isinstance(error, RuntimeError | ValueError | MemoryError) and str(error):
        return str(error).splitlines()[0].rstrip(".")
    return f"it begins with {first!r}"


def read_weights(path: str | os.PathLike[str]) -> Weights:
    """Return the tensors of a state dict by name, from .safetensors or what `torch.save` wrote.

    It may be an entry of a larger checkpoint, and names of compiled modules are made plain.
    """
    if Path(path).suffix == ".safetensors":
        from pytest_cpg.world_models.safetensors import read_safetensors

        return plain(read_safetensors(path))
    return weights_in(read_content(path), path)


def weights_in(content: Any, path: str | os.PathLike[str]) -> Weights:
    """Return the tensors of a state dict that is the content of a file, or an entry of it."""
    entries = content
    while isinstance(entries, Mapping):
        inner = [entries[name] for name in _NETWORK if isinstance(entries.get(name), Mapping)]
        if not inner:
            break
        entries = inner[0]
    weights = plain(entries) if isinstance(entries, Mapping) else {}
    if not weights:
        raise WorldModelError(
            f"{os.fspath(path)!r} holds no named tensors. Save the weights by "
            f"torch.save(model.state_dict(), path)."
        )
    _check_stored(weights, path)
    return weights


def _check_stored(weights: Weights, path: str | os.PathLike[str]) -> None:
    """Raise WorldModelError for a tensor that repeats a few stored numbers without end."""
    for name, value in weights.items():
        # Sparse ones are what is stored of them.
        if value.layout != torch.strided:
            continue
        stored = value.untyped_storage().nbytes()
        if value.nbytes > max(HARMLESS_BYTES, MOST_SWELLING * stored):
            raise WorldModelError(
                f"{os.fspath(path)!r}: {name} has {_shape(value)}, {value.nbytes} bytes, of "
                f"{stored} that are stored. Save a copy of it: {name}.contiguous()."
            )


def plain(entries: Mapping[Any, Any]) -> Weights:
    """Return the tensors among named entries, without what torch.compile adds to the names."""
    return {
        str(name).replace(_COMPILED, ""): value
        for name, value in entries.items()
        if isinstance(value, Tensor)
    }


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
    prefix, count = min(counts.items(), key=lambda one: (-one[1], len(one[0])), default=("", 0))
    return prefix if 2 * count > len(names) else None


def refuse_prefix(prefix: str | None, *, model: str) -> None:
    """Raise WorldModelError where something stands before the names of a layout."""
    if prefix:
        raise WorldModelError(
            f"the names of {model} begin with {prefix!r}{_PARALLEL * prefix.startswith('module.')} "
            f"in this file, and should not. Save the weights of what is inside, by their own "
            f"names: torch.save(network.{prefix}state_dict(), path)."
        )


def size(
    weights: Weights,
    name: str,
    axis: int,
    *,
    names: Collection[str],
    model: str,
    version: str,
    ignored: tuple[str, ...] = (),
) -> int:
    """Return one size of one tensor, from which other shapes follow; see `check`."""
    if name in weights and weights[name].ndim >= -axis:
        return int(weights[name].shape[axis])
    problems = _problems(weights, dict.fromkeys(names), ignored)
    if name in weights:
        shape = list(weights[name].shape)
        problems.insert(0, f"{name}: shape {shape}, expected {-axis} axes or more")
    raise _mismatch(problems, model=model, version=version)


def check(
    weights: Weights,
    layout: Mapping[str, Shape],
    *,
    model: str,
    version: str,
    ignored: tuple[str, ...] = (),
) -> None:
    """Raise WorldModelError unless every key of a layout is there, in its shape, and no other.

    Parameters
    ----------
    model, version : str
        Whose layout it is, and which of its versions the file looks like.
    ignored : tuple of str
        Prefixes of keys that may be there and are not used.
    """
    problems = _problems(weights, layout, ignored)
    if problems:
        prefix = prefix_of(weights, layout)
        if prefix and set(weights) == {prefix + name for name in layout}:
            refuse_prefix(prefix, model=model)
        raise _mismatch(problems, model=model, version=version)


def _named_in(error: pickle.UnpicklingError) -> str:
    """Return a sentence that names what torch found in a pickle; empty where it does not say."""
    match = re.search(r"GLOBAL (\S+)", str(error))
    return f" It names {match[1]}." if match else ""


def _problems(
    weights: Weights, layout: Mapping[str, Shape | None], ignored: tuple[str, ...]
) -> list[str]:
    """Return a line for each key that is not as a layout has it; None is a shape not known yet."""
    others = [name for name in weights if name not in layout and not name.startswith(ignored)]
    # What is missing usually stands there under another name.
    absent = [name for name in layout if name not in weights]
    close = {other: get_close_matches(other, absent, n=1, cutoff=_LIKENESS) for other in others}
    likely = {other: names[0] for other, names in close.items() if names}
    meant = {name: other for other, name in likely.items()}
    missing, misshaped = [], []
    for name, shape in layout.items():
        wanted = "" if shape is None else f", expected {list(shape)}"
        if name not in weights:
            other = meant.get(name)
            there = f"; is {other!r}, {_shape(weights[other])}, meant to be it?" if other else ""
            missing.append(f"{name}: missing{wanted}{there}")
        elif shape is not None and tuple(weights[name].shape) != shape:
            misshaped.append(f"{name}: {_shape(weights[name])}{wanted}")
    unknown = [
        f"{name}: {_shape(weights[name])}, not in this layout"
        for name in others
        if name not in likely
    ]
    return [*missing, *misshaped, *unknown]


def _shape(tensor: Tensor) -> str:
    return f"shape {list(tensor.shape)}"


def _mismatch(problems: Sequence[str], *, model: str, version: str) -> WorldModelError:
    more = len(problems) - _NAMED
    listed = [*problems[:_NAMED], *([f"and {more} more"] if more > 0 else [])]
    lines = "\n".join(f"  {line}" for line in listed)
    return WorldModelError(
        f"these are not the weights of {model}; they look like {version}.\n{lines}\n"
        f"Load the network by your own code, and return it from a learned_dynamics fixture."
    )

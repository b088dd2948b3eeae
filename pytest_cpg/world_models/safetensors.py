"""Safetensors: weights in a file that holds nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.machine.files import replace_file
from pytest_cpg.world_models.binding.tensors import Tensor

try:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import save
except ModuleNotFoundError as error:
    if error.name != "safetensors":
        raise
    raise ComponentError(
        'reading .safetensors needs safetensors: pip install "pytest-cpg[safetensors]"'
    ) from error


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the tensors of a .safetensors file by name.

    Raises WorldModelError when there is no such file, or it holds something else.
    """
    with _opened(path) as opened:
        return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118


def read_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return what a .safetensors file says of itself, texts by name; nothing where it does not.

    Raises WorldModelError when there is no such file, or it holds something else.
    """
    with _opened(path) as opened:
        return dict(opened.metadata() or {})


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    try:
        with safe_open(os.fspath(path), framework="pt") as opened:
            yield opened
    except (OSError, SafetensorError) as error:
        raise WorldModelError(f"{os.fspath(path)!r} is no .safetensors file: {error}") from None


def write_safetensors(
    path: str | os.PathLike[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors by name, and texts about them, to a file that nobody ever sees a part of."""
    owned = {name: value.contiguous() for name, value in tensors.items()}
    replace_file(Path(path), save(owned, metadata=dict(metadata)))

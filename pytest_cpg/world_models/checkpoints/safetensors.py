"""Safetensors: weights in a file that holds nothing else."""

from __future__ import annotations

import os
from typing import Any

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.world_models.binding.tensors import Tensor

try:
    from safetensors import SafetensorError, safe_open
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
    opened: Any
    try:
        with safe_open(os.fspath(path), framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise WorldModelError(f"{os.fspath(path)!r} is no .safetensors file: {error}") from None

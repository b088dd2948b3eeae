"""Checkpoint: a model file as a reader is given it, read without running what it holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

from pytest_cpg.contracts import Task, WorldModelError
from pytest_cpg.machine.files import archive_members

Kind: TypeAlias = Literal["torchscript", "export"]


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """A model file, as a reader is given it.

    Attributes
    ----------
    settings : mapping
        Of the side file and of whoever loads it, but for ``rate_by`` and ``planner``.
    task : Task or None
        What the model is to be asked about, where that is known.
    trusted : str
        Digests of files that may be opened though that runs their code, as in ``--cpg-trust``.
    """

    path: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    task: Task | None = None
    trusted: str = ""

    @cached_property
    def is_program(self) -> bool:
        """Whether the file is ONNX, TorchScript or a program of torch.export."""
        return self.path.suffix == ".onnx" or kind_of(self.path) is not None

    @cached_property
    def content(self) -> Any:
        """What is in the file, tensors and plain containers only; None of a program."""
        from pytest_cpg.world_models.weights import read_content

        return None if self.is_program else read_content(self.path)

    @cached_property
    def weights(self) -> dict[str, Any]:
        """Tensors by name, read without running anything of the file; empty for a program.

        Raises WorldModelError when the file holds no named tensors.
        """
        from pytest_cpg.world_models.weights import weights_in

        return {} if self.is_program else weights_in(self.content, self.path)

    def refuse_settings(self) -> None:
        """Raise WorldModelError for settings: the file says all that is needed."""
        if self.settings:
            raise WorldModelError(
                f"{os.fspath(self.path)!r} says all that is needed, and "
                f"{', '.join(sorted(self.settings))} would change nothing. Leave that out."
            )


# Returns the model in a file; None where it holds something else than this one reads.
CheckpointReader: TypeAlias = Callable[[Checkpoint], Any]


def kind_of(file: str | os.PathLike[str] | IO[bytes]) -> Kind | None:
    """Say which kind of program a file holds; None when it holds something else."""
    names = [member.filename for member in archive_members(file)]
    # The first is what torch 2.8 and later writes, the second what went before.
    if any(
        name.endswith(("models/model.json", "serialized_exported_program.json")) for name in names
    ):
        return "export"
    return "torchscript" if any("/code/" in name for name in names) else None

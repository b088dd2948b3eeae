"""Exported: models stored as programs, TorchScript or torch.export, called as dynamics."""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any, Literal

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.archive import check_archive
from pytest_cpg.world_models.tensors import Tensor, on_arrays, torch

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

Kind = Literal["torchscript", "export"]


def kind_of(path: str | os.PathLike[str]) -> Kind | None:
    """Say which kind of program a file holds; None when it holds something else."""
    if not zipfile.is_zipfile(path):
        return None
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    # The first is what torch 2.8 and later writes, the second what went before.
    if any(
        name.endswith(("models/model.json", "serialized_exported_program.json")) for name in names
    ):
        return "export"
    return "torchscript" if any("/code/" in name for name in names) else None


class Program(torch.nn.Module):
    """Dynamics that were stored as a program: no Python object is read, and none needs its class.

    What torch would unpickle or evaluate to open an exported one is checked first.

    It takes observations [B, O] and actions [B, A] as two inputs, or joined as one [B, O + A].

    Parameters
    ----------
    content : bytes
        Of the file; it is what travels to other processes.
    """

    def __init__(self, content: bytes, kind: Kind, name: str = "the file") -> None:
        super().__init__()
        self._content, self._kind, self._name = content, kind, name
        if kind == "export":
            check_archive(content, name)
        try:
            self._program, self._inputs = _opened(content, kind, name)
        except (RuntimeError, ValueError, KeyError, OSError) as error:
            raise WorldModelError(
                f"{name} is a program that torch {torch.__version__} cannot read: "
                f"{str(error).strip().splitlines()[0]}. Export the model again with this torch."
            ) from None
        if self._inputs not in (1, 2):
            raise WorldModelError(
                f"the program in {name} takes {self._inputs} inputs. Export one that takes "
                f"observations and actions, or both joined on their last axis."
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """Read what `torch.jit.save` or `torch.export.save` wrote.

        Raises
        ------
        WorldModelError
            When it is neither, or this version of torch cannot read it.
        """
        kind = kind_of(path) if os.path.isfile(path) else None
        if kind is None:
            raise WorldModelError(
                f"{os.fspath(path)!r} is no program of torch.export.save or torch.jit.save."
            )
        return cls(Path(path).read_bytes(), kind, repr(os.fspath(path)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the file; what it was compiled to cannot travel."""
        return Program, (self._content, self._kind, self._name)

    @on_arrays
    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""
        given = [observations, actions]
        if self._inputs == 1:
            given = [torch.cat(given, dim=-1)]
        after: Tensor = self._program(*given)
        return after


def _check_batch(program: Any, name: str) -> None:
    """Raise WorldModelError where an input's rows are as many as in the example of its export."""
    own = program.graph_signature.user_inputs
    given = [node.meta.get("val") for node in program.graph.nodes if node.name in own]
    rows = [value.shape[0] for value in given if isinstance(value, Tensor) and value.ndim]
    # What was exported as free is a symbol here.
    fixed = [count for count in rows if isinstance(count, int)]
    if fixed:
        raise WorldModelError(
            f"the program in {name} takes batches of {fixed[0]} rows alone. Export it with a free "
            f'batch dimension: rows = torch.export.Dim("rows"); torch.export.export(model, '
            f"examples, dynamic_shapes=[{{0: rows}}] * len(examples))."
        )


def _opened(content: bytes, kind: Kind, name: str) -> tuple[Any, int]:
    """Return the module in a file, and how many inputs it takes."""
    if kind == "export":
        program = torch.export.load(io.BytesIO(content))
        _check_batch(program, name)
        module = program.module()
        # Its mode was fixed when it was exported, and it raises when asked to change it.
        object.__setattr__(module, "train", lambda mode=True: module)  # noqa: ARG005
        object.__setattr__(module, "eval", lambda: module)
        return module, len(program.graph_signature.user_inputs)
    with warnings.catch_warnings():
        # torch deprecates the format, which is for whoever writes such files to know.
        warnings.simplefilter("ignore", DeprecationWarning)
        load: Any = torch.jit.load
        script = load(io.BytesIO(content), map_location="cpu").eval()
    return script, len(script.forward.schema.arguments) - 1

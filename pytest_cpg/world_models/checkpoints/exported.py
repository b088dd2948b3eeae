"""Exported: models stored as programs, TorchScript or torch.export, called as dynamics.

Opening either can run code of the file (TorchScript its own, torch.export what is pickled or
evaluated in it), so a program is opened only where its bytes are trusted.
"""

from __future__ import annotations

import io
import os
import warnings
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

from pytest_cpg.contracts import CpgError, WorldModelError
from pytest_cpg.machine.files import archive_members
from pytest_cpg.world_models.binding.conventions import is_refusal
from pytest_cpg.world_models.binding.tensors import Tensor, on_arrays, torch
from pytest_cpg.world_models.checkpoints.trust import digest_of, how_to_trust, is_trusted
from pytest_cpg.world_models.checkpoints.weights import check_torch

Kind = Literal["torchscript", "export"]
_WRITERS = {"torchscript": "TorchScript", "export": "a program of torch.export"}


def kind_of(file: str | os.PathLike[str] | IO[bytes]) -> Kind | None:
    """Say which kind of program a file holds; None when it holds something else."""
    names = [member.filename for member in archive_members(file)]
    # The first is what torch 2.8 and later writes, the second what went before.
    if any(
        name.endswith(("models/model.json", "serialized_exported_program.json")) for name in names
    ):
        return "export"
    return "torchscript" if any("/code/" in name for name in names) else None


class Program(torch.nn.Module):
    """Dynamics that were stored as a program: no Python object is read, and none needs its class.

    It takes observations [B, O] and actions [B, A] as two inputs, or joined as one [B, O + A].

    Parameters
    ----------
    content : bytes
        Of the file; it is what travels to other processes.
    trusted : str
        Digests of the files that may be opened, as in ``--cpg-trust``.
    """

    def __init__(self, content: bytes, name: str = "the file", *, trusted: str = "") -> None:
        super().__init__()
        self._content, self._name = content, name
        self._digest = digest_of(content) if is_trusted(content, trusted) else ""
        try:
            self._program, self._inputs = _opened(content, name, trusted)
        except CpgError:
            raise
        # What is in a file that torch did not write may be wrong in any way.
        except Exception as error:
            raise WorldModelError(
                f"{name} is a program that torch {torch.__version__} cannot read: "
                f"{(str(error).strip() or type(error).__name__).splitlines()[0]}. Export the model "
                f"again with this torch."
            ) from None
        if self._inputs not in (1, 2):
            raise WorldModelError(
                f"the program in {name} takes {self._inputs} inputs. Export one that takes "
                f"observations and actions, or both joined on their last axis."
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, trusted: str = "") -> Program:
        """Read what `torch.jit.save` or `torch.export.save` wrote.

        Raises WorldModelError when it is neither, when this version of torch cannot read it, or
        when it could run code and is not trusted.
        """
        content = Path(path).read_bytes() if os.path.isfile(path) else b""
        return cls(content, repr(os.fspath(path)), trusted=trusted)

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the file, and whether it is trusted; what it was compiled to cannot travel."""
        return partial(Program, trusted=self._digest), (self._content, self._name)

    @on_arrays
    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""
        given = [observations, actions]
        if self._inputs == 1:
            given = [torch.cat(given, dim=-1)]
        try:
            after: Tensor = self._program(*given)
        # Of any class, by whichever operator; the frames in between are torch's alone.
        except Exception as error:
            if not is_refusal(error):
                raise
            last = str(error).strip().rpartition("\n")[2]
            kind = type(error).__name__
            said = last if last.startswith(f"{kind}: ") else f"{kind}: {last}"
            raise WorldModelError(f"the program in {self._name} fails: {said}") from None
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


def _opened(content: bytes, name: str, trusted: str) -> tuple[Any, int]:
    """Return the module in a file, and how many inputs it takes."""
    kind = kind_of(io.BytesIO(content))
    if kind is None:
        raise WorldModelError(f"{name} is no program of torch.export.save or torch.jit.save.")
    check_torch()
    if not is_trusted(content, trusted):
        raise WorldModelError(
            f"{name} is {_WRITERS[kind]}, and opening it can run code of the file. Save the "
            f"weights alone, torch.save(model.state_dict(), path), or export to ONNX; or, "
            f"{how_to_trust(content, trusted)}"
        )
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

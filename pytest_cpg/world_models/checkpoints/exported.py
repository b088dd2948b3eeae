"""Exported: models stored as programs, TorchScript or torch.export, called as dynamics.

Opening either can run code of the file (TorchScript its own, torch.export what is pickled or
evaluated in it), so a program is opened only where its bytes are trusted.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import ComponentError, CpgError, WorldModelError
from pytest_cpg.machine.files import digests_in
from pytest_cpg.world_models.binding.conventions import is_refusal
from pytest_cpg.world_models.binding.tensors import Tensor, on_arrays, torch
from pytest_cpg.world_models.checkpoints.readers import Checkpoint, kind_of
from pytest_cpg.world_models.weights import check_torch

_WRITERS = {"torchscript": "TorchScript", "export": "a program of torch.export"}


def read(checkpoint: Checkpoint) -> Program | None:
    """Return the program in a file; None where it holds something else."""
    if kind_of(checkpoint.path) is None:
        return None
    checkpoint.refuse_settings()
    return Program.load(checkpoint.path, trusted=checkpoint.trusted)


class Program(torch.nn.Module):
    """Dynamics that were stored as a program: no Python object is read, and none needs its class.

    It takes observations [B, O] and actions [B, A] as two inputs, or joined as one [B, O + A]. The
    content of the file travels to other processes; ``trusted`` are digests as in ``--cpg-trust``.
    """

    def __init__(self, content: bytes, name: str = "the file", *, trusted: str = "") -> None:
        super().__init__()
        self._content, self._name = content, name
        digest = digest_of(content)
        try:
            self._digest = digest if trusted and digest in digests_in(trusted) else ""
        except ValueError as error:
            raise ComponentError(f"trusted: {error}") from None
        try:
            self._program, self._inputs = self._opened(trusted)
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

    def _opened(self, trusted: str) -> tuple[Any, int]:
        """Return the module in the file, and how many inputs it takes."""
        content, name = self._content, self._name
        kind = kind_of(io.BytesIO(content))
        if kind is None:
            raise WorldModelError(f"{name} is no program of torch.export.save or torch.jit.save.")
        check_torch()
        if not self._digest:
            raise WorldModelError(
                f"{name} is {_WRITERS[kind]}, and opening it can run code of the file. Save the "
                f"weights alone, torch.save(model.state_dict(), path), or export to ONNX; or, "
                f"if it is yours, let it run:\n"
                f"    --cpg-trust={','.join(filter(None, (trusted, digest_of(content))))}\n"
                f"(in a fixture: Program.load(path, trusted=...))"
            )
        if kind == "export":
            program = torch.export.load(io.BytesIO(content))
            names = program.graph_signature.user_inputs
            for node in program.graph.nodes:
                example = node.meta.get("val") if node.name in names else None
                rows = example.shape[0] if isinstance(example, Tensor) and example.ndim else None
                # What was exported as free is a symbol here.
                if isinstance(rows, int):
                    raise WorldModelError(
                        f"the program in {name} takes batches of {rows} rows alone. Export it "
                        f'with a free batch dimension: rows = torch.export.Dim("rows"); '
                        f"torch.export.export(model, examples, "
                        f"dynamic_shapes=[{{0: rows}}] * len(examples))."
                    )
            module = program.module()
            # Its mode was fixed when it was exported, and it raises when asked to change it.
            object.__setattr__(module, "train", lambda mode=True: module)  # noqa: ARG005
            object.__setattr__(module, "eval", lambda: module)
            return module, len(names)
        with warnings.catch_warnings():
            # torch deprecates the format, which is for whoever writes such files to know.
            warnings.simplefilter("ignore", DeprecationWarning)
            load: Any = torch.jit.load
            script = load(io.BytesIO(content), map_location="cpu").eval()
        return script, len(script.forward.schema.arguments) - 1

    @on_arrays
    def forward(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""
        inputs = [observations, actions]
        if self._inputs == 1:
            inputs = [torch.cat(inputs, dim=-1)]
        try:
            after: Tensor = self._program(*inputs)
        # Of any class, by whichever operator; the frames in between are torch's alone.
        except Exception as error:
            if not is_refusal(error):
                raise
            last = str(error).strip().rpartition("\n")[2]
            kind = type(error).__name__
            reason = last if last.startswith(f"{kind}: ") else f"{kind}: {last}"
            raise WorldModelError(f"the program in {self._name} fails: {reason}") from None
        return after


def digest_of(content: bytes) -> str:
    """Return what names the content of a file in ``--cpg-trust``.

    >>> digest_of(b"")[:20]
    'sha256:e3b0c44298fc1'
    """
    return f"sha256:{hashlib.sha256(content).hexdigest()}"

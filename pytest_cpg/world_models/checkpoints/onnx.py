"""ONNX: dynamics that ONNX Runtime computes on the processor."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.contracts.errors import needs_extra
from pytest_cpg.world_models.binding.conventions import is_refusal
from pytest_cpg.world_models.checkpoints.readers import Checkpoint

with needs_extra("onnx", "onnxruntime", what="reading .onnx needs ONNX Runtime"):
    import onnxruntime

_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}
# An entry of a tensor's external data, its field 13, in protobuf's wire format: field 1 is the key,
# field 2 the value, each a tag, a length and text. A length of 128 bytes and more has two bytes.
# Other fields, as a model's metadata, have entries as well, and name no files.
_LENGTH = rb"(?:[\x80-\xff][\x01-\x7f]|[\x00-\x7f])"
_LOCATION = re.compile(
    rb"j" + _LENGTH + rb"\n\x08location\x12(?:([\x80-\xff])([\x01-\x7f])|([\x00-\x7f]))"
)
# ONNX Runtime logs what it raises as well.
_FATAL_ONLY = 4


def read(checkpoint: Checkpoint) -> OnnxDynamics:
    """Return the dynamics in an .onnx file."""
    checkpoint.refuse_settings()
    return OnnxDynamics.load(checkpoint.path)


class OnnxDynamics:
    """Dynamics in an .onnx file.

    It takes observations [B, O] and actions [B, A] as two inputs in this order, or joined as one
    [B, O + A], in single or double precision; its first output is the next observations. ``B`` must
    be a free axis. Its content travels to other processes, and so does ``data``: contents of the
    files that weights are in outside of it, by their location.
    """

    def __init__(
        self, content: bytes, name: str = "the file", data: Mapping[str, bytes] | None = None
    ) -> None:
        self._content, self._name, self._data = content, name, dict(data or {})
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
        # Threads round sums by how many they are, and both arms run on one.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        if self._data:
            # From memory alone: what is looked for on disk is looked for in the working directory.
            options.add_external_initializers_from_files_in_memory(
                list(self._data), list(self._data.values()), list(map(len, self._data.values()))
            )
        try:
            # A second try with the same provider is worth no banner.
            self._session: Any = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"], enable_fallback=0
            )
            # Names of a damaged file may be no text.
            inputs = [(entry.name, entry.type, entry.shape) for entry in self._session.get_inputs()]
        # Its exceptions have no class in common but this one.
        except Exception as error:
            raise WorldModelError(
                f"{name} is no model that ONNX Runtime can read: {_told(error)}"
            ) from None
        self._inputs = [(title, kind) for title, kind, _ in inputs]
        if len(inputs) not in (1, 2) or any(kind not in _TYPES for _, kind in self._inputs):
            raise WorldModelError(
                f"the model in {name} takes {self._inputs}. Export one that takes floats: "
                f"observations and actions, or both joined on their last axis."
            )
        for title, _, shape in inputs:
            # Of an input that declares no rank, nothing is known.
            if shape and len(shape) != 2:
                raise WorldModelError(
                    f"the model in {name} takes {title!r} of shape {shape}. Export one that takes "
                    f"rows, [B, O] and [B, A]."
                )
            # Free axes have no number.
            if shape and isinstance(shape[0], int):
                raise WorldModelError(
                    f"the model in {name} takes batches of {shape[0]} rows alone. Export it with a "
                    f"free batch axis: torch.onnx.export(model, examples, path, "
                    f"dynamic_shapes=[{{0: torch.export.Dim.DYNAMIC}}] * len(examples)), with "
                    f"examples of two rows or more."
                )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OnnxDynamics:
        """Read an .onnx file.

        Raises WorldModelError when there is no such file, or ONNX Runtime cannot read it.
        """
        if not os.path.isfile(path):
            raise WorldModelError(f"there is no model file {os.fspath(path)!r}.")
        content = Path(path).read_bytes()
        return cls(content, repr(os.fspath(path)), _data_beside(Path(path), content))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the files; a session belongs to its process."""
        return OnnxDynamics, (self._content, self._name, self._data)

    def __call__(self, observations: FloatArray, actions: FloatArray) -> FloatArray:
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""
        inputs = [np.asarray(observations), np.asarray(actions)]
        if len(self._inputs) == 1:
            inputs = [np.concatenate(inputs, axis=-1)]
        feed = {
            name: np.ascontiguousarray(value, dtype=_TYPES[kind])
            for (name, kind), value in zip(self._inputs, inputs, strict=True)
        }
        try:
            after = self._session.run(None, feed)[0]
        # As above.
        except Exception as error:
            if not is_refusal(error):
                raise
            raise WorldModelError(f"the model in {self._name} fails: {_told(error)}") from None
        return np.asarray(after, dtype=np.float64)


def _told(error: Exception) -> str:
    """Return an error of ONNX Runtime in one line."""
    return " ".join(str(error).split())


def _data_beside(file: Path, content: bytes) -> dict[str, bytes]:
    """Return the files that a model keeps weights in, by location.

    Raises WorldModelError when one is not there, or not in the model's folder.
    """
    contents: dict[str, bytes] = {}
    for match in _LOCATION.finditer(content):
        low, high, short = match.groups()
        length = short[0] if short else (low[0] & 0x7F) | high[0] << 7
        location = content[match.end() : match.end() + length].decode("utf-8", "replace")
        if location in contents:
            continue
        # Windows' rules, as they know every root and separator that there is.
        path, data = PureWindowsPath(location), file.parent / location
        if path.anchor or ".." in path.parts:
            raise WorldModelError(
                f"{os.fspath(file)!r} keeps weights in {location!r}, outside of its own folder, "
                f"and nothing is read there. Export it again."
            )
        if not data.is_file():
            raise WorldModelError(
                f"{os.fspath(file)!r} keeps its weights in {location!r} beside it, and there is no "
                f"such file. Copy it along, or export with "
                f"torch.onnx.export(..., external_data=False)."
            )
        contents[location] = data.read_bytes()
    return contents

"""ONNX: dynamics that ONNX Runtime computes on the processor."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError, FloatArray, WorldModelError

try:
    import onnxruntime
except ModuleNotFoundError as error:
    if error.name != "onnxruntime":
        raise
    raise ComponentError(
        'reading .onnx needs ONNX Runtime: pip install "pytest-cpg[onnx]"'
    ) from error

# pytest leaves the frames of this module out of a user's traceback.
__tracebackhide__ = True

_TYPES = {"tensor(float)": np.float32, "tensor(double)": np.float64}


class OnnxDynamics:
    """Dynamics in an .onnx file.

    It takes observations [B, O] and actions [B, A] as two inputs in this order, or joined as one
    [B, O + A], in single or double precision; its first output is the next observations. ``B`` must
    be a free axis.

    Parameters
    ----------
    content : bytes
        Of the file; it is what travels to other processes.
    """

    def __init__(self, content: bytes, name: str = "the file") -> None:
        self._content, self._name = content, name
        options = onnxruntime.SessionOptions()
        # Threads round sums by how many they are, and both arms run on one.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            self._session: Any = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        # Its exceptions have no class in common but this one.
        except Exception as error:
            text = str(error).strip().splitlines()[0]
            raise WorldModelError(
                f"{name} is no model that ONNX Runtime can read: {text}"
            ) from None
        self._inputs = [(given.name, given.type) for given in self._session.get_inputs()]
        if len(self._inputs) not in (1, 2) or any(kind not in _TYPES for _, kind in self._inputs):
            raise WorldModelError(
                f"the model in {name} takes {self._inputs}. Export one that takes floats: "
                f"observations and actions, or both joined on their last axis."
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> OnnxDynamics:
        """Read an .onnx file.

        Raises
        ------
        WorldModelError
            When there is no such file, or ONNX Runtime cannot read it.
        """
        if not os.path.isfile(path):
            raise WorldModelError(f"there is no model file {os.fspath(path)!r}.")
        return cls(Path(path).read_bytes(), repr(os.fspath(path)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Send the file; a session belongs to its process."""
        return OnnxDynamics, (self._content, self._name)

    def __call__(self, observations: FloatArray, actions: FloatArray) -> FloatArray:
        """Map observations [B, O] and actions [B, A] to next observations [B, O]."""
        given = [np.asarray(observations), np.asarray(actions)]
        if len(self._inputs) == 1:
            given = [np.concatenate(given, axis=-1)]
        feed = {
            name: np.ascontiguousarray(value, dtype=_TYPES[kind])
            for (name, kind), value in zip(self._inputs, given, strict=True)
        }
        return np.asarray(self._session.run(None, feed)[0], dtype=np.float64)

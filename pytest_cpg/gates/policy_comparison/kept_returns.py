"""Kept returns: what a generation of queries has simulated so far, in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.gates.policy_comparison.query_files import opened, write_arrays
from pytest_cpg.machine.files import FileError

# How near the actions of a policy must be to count as its own.
_NEAR = 1e-4


class KeptReturns:
    """Returns of both sides, block after block; written after each where there is a path.

    Parameters
    ----------
    settings : str
        Of the generation, as JSON.
    answers : array [P, K, A]
        What the policies do on some observations.
    blocks : list of arrays [2, B]
    """

    def __init__(
        self, path: Path | None, settings: str, answers: FloatArray, blocks: list[FloatArray]
    ) -> None:
        self._path, self._settings, self._answers, self._blocks = path, settings, answers, blocks

    @classmethod
    def opened(
        cls,
        path: str | os.PathLike[str] | None,
        settings: Mapping[str, object],
        answers: FloatArray,
    ) -> KeptReturns:
        """Return what a file keeps, or nothing yet; raise FileError for another generation's."""
        target, text = None if path is None else Path(path), json.dumps(settings, sort_keys=True)
        blocks: list[FloatArray] = []
        if target is not None and target.exists():
            with opened(target) as stored:
                _check_settings(target, str(stored["settings"]), settings)
                known = stored["answers"]
                blocks = list(stored["returns"])
            is_same = known.shape == answers.shape
            if not is_same or not np.allclose(known, answers, rtol=_NEAR, atol=_NEAR):
                raise FileError(
                    f"{target} keeps returns of other policies. Delete it, or name another path."
                )
        return cls(target, text, answers, blocks)

    def __len__(self) -> int:
        return len(self._blocks)

    @property
    def returns(self) -> FloatArray:
        """All of them, [2, C]."""
        return np.concatenate(self._blocks, axis=1)

    def add(self, returns: FloatArray) -> None:
        """Keep the returns [2, B] of one more block."""
        self._blocks.append(returns)
        if self._path is None:
            return
        arrays = {"answers": self._answers, "returns": np.stack(self._blocks)}
        write_arrays(self._path, {"settings": self._settings, **arrays})


def _check_settings(path: Path, text: str, settings: Mapping[str, object]) -> None:
    """Raise FileError, naming the first setting that differs, unless all are the same."""
    try:
        known = json.loads(text)
    except ValueError:
        known = None
    if not isinstance(known, dict):
        raise FileError(f"{path} keeps no returns. Delete it, or name another path.")
    for name in settings:
        if known.get(name) != settings[name]:
            raise FileError(
                f"{path} keeps returns of {name}={known.get(name)!r}, and now it is "
                f"{settings[name]!r}. Delete it, or name another path."
            )

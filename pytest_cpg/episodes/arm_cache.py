"""Arm cache: finished arms kept from run to run, by all that decides their episodes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.episodes.arm import COUNTS, Arm
from pytest_cpg.episodes.arm_key import digest_of
from pytest_cpg.machine.files import check_unpacked_size, replace_file

SCHEMA = 2
# Thousands of arms.
_MOST_BYTES = 100 * 2**20
# Eight million answers.
_MOST_SNAPSHOT_BYTES = 64 * 2**20
# A temporary file as old as this is of a process that is gone.
_LEFT_BEHIND_SECONDS = 60
_FILE_NAME = re.compile(r"([0-9a-f]{64})-(\d+)\.(json|npz)")
_LEFT_BEHIND = re.compile(r"\.cpg-[0-9a-f]+\.tmp")


class ArmCache:
    """A folder of finished arms, one file for each key, that several processes may use at once.

    It has no say in any verdict: what is wrong with the folder or a file is only told. When
    the files take more than ``max_bytes`` together, the least recently used are dropped.
    """

    def __init__(self, folder: Path, *, max_bytes: int = _MOST_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes

    def load(self, key: str) -> tuple[Arm | None, str | None]:
        """Return the longest arm stored under a key, and a note on a broken file, now removed."""
        note = None
        # A file that is gone once it is opened was replaced by a longer arm, or dropped.
        for _ in range(3):
            try:
                paths = self._files(key)
                return _read(paths[0], key) if paths else None, note
            except FileNotFoundError:
                continue
            except OSError as error:
                return None, f"a stored arm cannot be read: {error}"
            # Broad, as the bytes of a damaged file may break any of its readers.
            except Exception:
                note = _dropped(paths[0])
        return None, note

    def store(self, key: str, stored: Arm) -> str | None:
        """Keep an arm from episode 0 on unless one as long is kept; return why it cannot be."""
        data = _file_of(key, stored)
        if len(data) > self._max_bytes:
            return f"the {stored.name} arm takes {len(data)} of {self._max_bytes} bytes"
        longest, _ = self.load(key)
        if longest is not None and longest.episodes >= stored.episodes:
            return None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._folder / f"{key}-{stored.episodes}.json", data)
            # The length is in the name and the longest stays: processes that store arms of several
            # lengths at once need not wait for each other.
            for shorter in self._files(key)[1:]:
                shorter.unlink(missing_ok=True)
            self._shrink()
        except OSError as error:
            return f"the {stored.name} arm cannot be kept: {error}"
        return None

    def discard(self, key: str) -> None:
        """Remove what is stored under a key, if anything is."""
        with suppress(OSError):
            for path in self._files(key):
                path.unlink(missing_ok=True)

    def load_snapshot(self, key: str) -> dict[str, npt.NDArray[Any]] | None:
        """Return the arrays stored under a key; a broken file is removed, and as good as none."""
        path = self._snapshot_path(key)
        try:
            content = path.read_bytes()
            check_unpacked_size(content)
            # Numpy leaves a damaged archive open that it opened itself.
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                values = dict(arrays)
            if str(values.pop("key")) == key and str(values.pop("sha256")) == _bits_of(values):
                return values
        except OSError:
            return None
        # Broad, as the bytes of a damaged archive may break any of its readers.
        except Exception:  # noqa: S110  # dropped as what reads well and is another's
            pass
        _dropped(path)
        return None

    def store_snapshot(self, key: str, values: Mapping[str, npt.NDArray[Any]]) -> None:
        """Keep the arrays of an unfinished measurement in place of those before, if possible."""
        if sum(array.nbytes for array in values.values()) > _MOST_SNAPSHOT_BYTES:
            return
        buffer = io.BytesIO()
        signed = {**values, "key": np.array(key), "sha256": np.array(_bits_of(values))}
        np.savez(buffer, allow_pickle=False, **signed)
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            replace_file(self._snapshot_path(key), buffer.getvalue())
            self._shrink()

    def _snapshot_path(self, key: str) -> Path:
        return self._folder / f"{key}-0.npz"

    def _files(self, key: str) -> list[Path]:
        """Return the finished files of a key, the longest arm first."""
        matches = [_FILE_NAME.fullmatch(name) for name in os.listdir(self._folder)]
        finished = [m for m in matches if m and m[3] == "json"]
        arms = sorted((int(m[2]), m[0]) for m in finished if m[1] == key)
        return [self._folder / name for _, name in reversed(arms)]

    def _shrink(self) -> None:
        """Drop the least recently used files until the others take no more than they may."""
        files = []
        for name in os.listdir(self._folder):
            is_left_behind = _LEFT_BEHIND.fullmatch(name)
            if not (is_left_behind or _FILE_NAME.fullmatch(name)):
                continue
            # Another process may just have removed it.
            with suppress(FileNotFoundError):
                status = os.stat(self._folder / name)
                # Or may just be writing it.
                if is_left_behind and time.time() - status.st_mtime < _LEFT_BEHIND_SECONDS:
                    continue
                files.append((status.st_mtime_ns, name, status.st_size))
        excess = sum(size for _, _, size in files) - self._max_bytes
        for _, name, size in sorted(files):
            if excess > 0:
                (self._folder / name).unlink(missing_ok=True)
                excess -= size


def _read(path: Path, key: str) -> Arm:
    """Return the arm in a file, or raise ValueError unless it was written here under this key."""
    data = path.read_bytes()
    values = json.loads(data)["stored"]
    size, rows = values.pop("actions")
    actions = tuple(np.frombuffer(b64decode(row)).reshape(-1, size) for row in rows)
    stored = replace(decode(Arm, values.pop("arm")), actions=actions, **values)
    # To the byte, which covers schema, key, digest, types and numbers.
    if data != _file_of(key, stored) or path.name != f"{key}-{stored.episodes}.json":
        raise ValueError("it is not what would be written")
    # A folder that can only be read is as good.
    with suppress(OSError):
        os.utime(path)
    return stored


def _dropped(path: Path) -> str:
    """Remove a broken file, and return a note that says so."""
    with suppress(OSError):
        path.unlink()
    return f"{path} is not as it was written; its arm is run again"


def _bits_of(values: Mapping[str, npt.NDArray[Any]]) -> str:
    """Return the SHA-256 of arrays by name, type, shape and bits."""
    digest = hashlib.sha256()
    for name, array in sorted(values.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _file_of(key: str, stored: Arm) -> bytes:
    if not stored.episodes or (stored.indices != np.arange(stored.episodes)).any():
        raise ValueError(f"need an arm from episode 0 on, got {stored.indices}")
    values = {name: getattr(stored, name).tolist() for name in COUNTS}
    values["arm"] = encode(stored)
    actions = stored.actions
    rows = [b64encode(taken.tobytes()).decode() for taken in actions]
    values["actions"] = [actions[0].shape[1] if actions else 0, rows]
    content = {"schema": SCHEMA, "key": key, "sha256": digest_of(values), "stored": values}
    return json.dumps(content, sort_keys=True).encode()

"""Arm cache: finished arms kept from run to run, by all that decides their episodes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import Planner, Task
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.contracts.parts import CacheKey, has
from pytest_cpg.contracts.task import LeastReturn
from pytest_cpg.episodes.arm import COUNTS, Arm
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.perturbations import parts_of
from pytest_cpg.machine.files import check_unpacked_size, replace_file
from pytest_cpg.machine.fingerprint import fingerprint
from pytest_cpg.machine.processors import kernels
from pytest_cpg.planners import Chance
from pytest_cpg.world_models import OracleDynamics
from pytest_cpg.world_models.binding.conventions import describe

# What an episode runs through, and what it is kept by.
_ROOMS = ("contracts", "episodes", "machine", "planners", "tasks", "world_models")
_ENGINES = ("torch", "onnxruntime")


class UnkeyedError(Exception):
    """Something whose definition is not known; the message says what, in one clause."""


def arm_key(name: str, design: Design, model: Any, *, by_content: bool = False) -> str:
    """Return 64 hexadecimal digits that tell apart arms whose episodes may differ.

    What defines the package's own tasks and planners is their source and their fields. Those of
    users have an attribute ``cache_key``: a text that is changed with whatever the component does.
    Raises UnkeyedError where something has no key. Number and starts of the episodes are not in
    the key: stored arms know these. `Chance` asks no model. With ``by_content`` a model without a
    key, which is not yet bound, is told from others by its `fingerprint`.
    """
    values = _components(design.task, design.planner, model, by_content=by_content)
    # A key of a user's may forget the settings that the name says.
    perturbation = [
        [part.name, _definition(f"perturbation {part.name!r}", part)]
        for part in parts_of(design.perturbation)
    ]
    values.update(arm=name, seed=int(design.seed), starts=design.starts, metric=design.metric)
    values.update(perturbation=perturbation)
    return digest_of({**values, "environment": _environment()})


def model_key(model: Any, **question: str | int) -> str | None:
    """Return what tells apart the answers of models; None where the content of one is not read."""
    try:
        values = {**question, "model": _computing(model, by_content=True)}
    except UnkeyedError:
        return None
    return digest_of({**values, "environment": _environment()})


def digest_of(values: dict[str, Any]) -> str:
    """Return 64 hexadecimal digits of JSON values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _components(task: Task, planner: Planner, model: Any, *, by_content: bool) -> dict[str, Any]:
    """Return what is known of the components, or raise UnkeyedError."""
    what = f"task {str(task.name)!r}"
    goal = float(task.least_return) if has(task, LeastReturn) else None
    values = {
        "task": _definition(what, task),
        "facts": [str(task.name), int(task.budget), float(task.control_period), goal],
        "actions": _definition(f"the action space of {what}", task.actions),
        "versions": {str(name): str(release) for name, release in task.versions.items()},
        "planner": _definition(f"planner {str(planner.name)!r}", planner),
        "horizon": int(planner.horizon),
    }
    if type(planner) is not Chance and not (type(model) is OracleDynamics and model.task is task):
        values["model"] = _computing(model, by_content=by_content)
    return values


def _computing(model: Any, *, by_content: bool) -> list[Any]:
    """Return what a model is and computes with, or raise UnkeyedError."""
    # What is not loaded has no part in it.
    engines = [str(getattr(sys.modules.get(name), "__version__", "")) for name in _ENGINES]
    chosen = kernels().get("torch", "")
    return [_model_definition(model, by_content=by_content), *engines, chosen]


def _definition(what: str, value: Any) -> Any:
    """Return JSON values that are others for whatever differs, or raise UnkeyedError."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return [kind.__name__, *(_definition(what, item) for item in value)]
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufcU":
        return ["array", value.dtype.str, list(value.shape), value.tobytes().hex()]
    key, settings = _explicit_key(value), {}
    if isinstance(value, type) or (key is None and not (_is_own(kind) and is_dataclass(value))):
        raise UnkeyedError(f"{what} has no cache_key")
    for field in fields(value) if is_dataclass(value) else ():
        # Settings are told apart even if the key forgets them; what cannot be, it stands for.
        with suppress(*[UnkeyedError] if key else []):
            settings[field.name] = (
                _definition(what, getattr(value, field.name)) if field.init else 0
            )
    return [f"{kind.__module__}.{kind.__qualname__}", key, settings]


def _model_definition(model: Any, *, by_content: bool) -> Any:
    what = f"model {describe(model)}"
    try:
        return _definition(what, model)
    except UnkeyedError:
        if not by_content:
            raise
    try:
        return ["content", fingerprint(model)]
    except ValueError as error:
        raise UnkeyedError(f"{what} has no cache_key, and {error}") from None


def _explicit_key(value: Any) -> str | None:
    """Return the key that a component or its very class defines; others are of something else."""
    kind = type(value)
    if not any("cache_key" in names for names in (vars(kind), getattr(value, "__dict__", {}))):
        return None
    key: Any = value.cache_key if has(value, CacheKey) else None
    return key if isinstance(key, str) and key else None


def _is_own(kind: type) -> bool:
    """Say whether a class is one of this package's, whose source is in the key."""
    module, name = kind.__module__, kind.__qualname__
    return module.startswith("pytest_cpg.") and getattr(sys.modules.get(module), name, None) is kind


@cache
def _environment() -> dict[str, Any]:
    """Return what else decides the bits of an episode: our source, libraries and the processor."""
    return {
        "pytest-cpg": version("pytest-cpg"),
        "source": _source_digest(Path(__file__).parents[1]),
        "numpy": np.__version__,
        # Planners draw through its normal distribution.
        "scipy": version("scipy"),
        # Numpy's sines and sums are other code on other processors; the rest are the C library's.
        "openblas": kernels().get("OpenBLAS", ""),
        "simd": (np.show_config(mode="dicts") or {}).get("SIMD Extensions"),
        "libc": "".join(platform.libc_ver()) or platform.version(),
        "machine": [sys.platform, platform.machine()],
        # Sums of floats round otherwise since 3.12.
        "python": sys.version_info[:2],
    }


def _source_digest(package: Path) -> str:
    paths = [path for room in _ROOMS for path in (package / room).rglob("*.py")]
    return digest_of({str(path.relative_to(package)): path.read_bytes().hex() for path in paths})


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

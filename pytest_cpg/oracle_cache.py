"""Oracle cache: finished arms kept from run to run, by all that decides their episodes."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import secrets
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pytest_cpg.contracts import FloatArray, IntArray, Planner, Task
from pytest_cpg.metrics import Arm
from pytest_cpg.planners import Chance
from pytest_cpg.world_models import OracleDynamics
from pytest_cpg.world_models.conventions import describe

SCHEMA = 1
# What an episode runs through, and what it is kept by.
_MODULES = ("contracts", "episodes", "imagination", "metrics", "oracle_cache")
_FOLDERS = ("planners", "tasks", "world_models")
_FILE_NAME = re.compile(r"([0-9a-f]{64})-(\d+)\.json(\.[0-9a-f]+\.tmp)?")
_OUTCOMES = ("indices", "successes", "steps", "returns", "confidences")
_COUNTS = ("plans", "model_steps", "starts")


class _UnkeyedError(Exception):
    """Something whose definition is not known; the message says what, in one clause."""


def arm_key(
    *, arm: str, task: Task, planner: Planner, model: Any, seed: int, starts: str, to_the_end: bool
) -> str | None:
    """Return 64 hexadecimal digits that tell apart arms whose episodes may differ.

    What defines the package's own tasks and planners is their source and their fields. Those of
    users have an attribute ``cache_key``: a text that is changed with whatever the component does.
    None where something has no key: `why_not_kept` says what. The number of episodes is not in the
    key, and where they start is not: stored arms know that.

    Parameters are those of `Design` and `ArmRun`; ``model`` is what the planner imagines with, not
    yet bound. `Chance` asks none, and its key does not depend on it.
    """
    try:
        values = _components(task, planner, model)
    except _UnkeyedError:
        return None
    values.update(arm=arm, seed=int(seed), starts=starts, to_the_end=bool(to_the_end))
    return _digest({**values, "schema": SCHEMA, "environment": _environment()})


def why_not_kept(*, task: Task, planner: Planner, model: Any) -> str | None:
    """Say in one clause why such an arm has no key; None when it has one."""
    try:
        _components(task, planner, model)
    except _UnkeyedError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredArm:
    """A finished arm with what it takes to give any number of its first episodes.

    Attributes
    ----------
    arm : Arm
        Episodes of consecutive indices, at least one.
    plans, model_steps : array [N], int
        Plans made, at least 1, and model steps imagined in each episode.
    starts : array [N], int
        `start_digests` of where they began.
    """

    arm: Arm
    plans: IntArray
    model_steps: IntArray
    starts: IntArray

    def __post_init__(self) -> None:
        for name in _COUNTS:
            values = np.array(getattr(self, name), dtype=np.int64)
            values.flags.writeable = False
            object.__setattr__(self, name, values)
            if values.shape != self.arm.successes.shape:
                raise ValueError(f"need {name} of every episode, got shape {values.shape}")
        if (
            not self.arm.episodes
            or (np.diff(self.arm.indices) != 1).any()
            or (self.plans < 1).any()
        ):
            raise ValueError(f"need plans in consecutive episodes, got {self.arm.indices}")

    def first(self, episodes: int, *, level: float) -> Arm:
        """Return the arm of the first 1 to ``N`` episodes, as a run of so many would have ended.

        Its times are those of the stored run: latencies are of all its decisions, seconds in
        proportion to the episodes. ``level`` is the coverage of its interval, in (0, 1).
        """
        arm = self.arm
        if not 1 <= episodes <= arm.episodes:
            raise ValueError(f"need 1 to {arm.episodes} episodes, got {episodes}")
        columns = {name: values[:episodes] for name, values in _columns(arm).items()}
        decisions, imagined = (int(c[:episodes].sum()) for c in (self.plans, self.model_steps))
        columns.update(level=level, decisions=decisions, rollout_steps=imagined / decisions)
        return replace(arm, **columns, seconds=arm.seconds * episodes / arm.episodes)

    def begins_at(self, states: FloatArray) -> bool:
        """Say whether the episodes began at these starts [M, S], as far as both go."""
        common = min(self.arm.episodes, len(states))
        return np.array_equal(self.starts[:common], start_digests(states[:common]))

    def followed_by(self, more: StoredArm) -> StoredArm:
        """Return these episodes and the next ones, or raise ValueError if ``more`` are others.

        Latencies are those of the part with more episodes; seconds add up.
        """
        columns = _columns(self.arm, more.arm)
        counts = {n: np.concatenate([getattr(self, n), getattr(more, n)]) for n in _COUNTS}
        longer = max(self.arm, more.arm, key=lambda arm: arm.episodes)
        seconds = self.arm.seconds + more.arm.seconds
        joined = StoredArm(arm=replace(longer, **columns, seconds=seconds), **counts)
        # The decisions are still those of one part.
        return replace(joined, arm=joined.first(joined.arm.episodes, level=self.arm.level))


def start_digests(states: FloatArray) -> IntArray:
    """Return a number [N] for each start [N, S], of its exact bits."""
    rows = np.asarray(states, dtype=np.float64)
    digests = [hashlib.blake2b(row.tobytes(), digest_size=7).digest() for row in rows]
    return np.array([int.from_bytes(digest) for digest in digests], dtype=np.int64)


def spot_check(arm: Arm, *, rng: np.random.Generator, run: Callable[[IntArray], Arm]) -> str | None:
    """Run two episodes again; say in one line what differs from a stored arm, None if nothing.

    ``arm`` is as much of the stored one as is to be used, and ``run`` maps one or two of its rows,
    rising, to an arm of these episodes alone. Give another ``rng`` each time: it picks the rows.
    """
    rows = np.sort(rng.choice(arm.episodes, size=min(2, arm.episodes), replace=False))
    kept, found = arm.to_dict(), run(rows).to_dict()
    for place, row in enumerate(rows):
        for name in _OUTCOMES:
            old, new = kept[name] and kept[name][row], found[name] and found[name][place]
            if old != new:
                return (
                    f"the stored {arm.name} arm could not be repeated: {name} of episode "
                    f"{arm.indices[row]} was {old!r} and is now {new!r}"
                )
    return None


class OracleCache:
    """A folder of finished arms, one file for each key, that several processes may use at once.

    It has no say in any verdict: what is wrong with the folder or a file is told in a note. When
    the files take more than ``max_bytes`` together, the least recently used are dropped.
    """

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder, self._max_bytes = folder, max_bytes

    def load(self, key: str) -> tuple[StoredArm | None, str | None]:
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
            # What is in a file that was not written here may be wrong in any way.
            except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
                note = f"{paths[0]} is not as it was written; its arm is run again"
                with suppress(OSError):
                    paths[0].unlink()
        return None, note

    def store(self, key: str, stored: StoredArm) -> str | None:
        """Keep an arm from episode 0 on unless one as long is kept; return why it cannot be."""
        if stored.arm.indices[0]:
            raise ValueError(f"need an arm from episode 0 on, got {stored.arm.indices}")
        data = _file_of(key, stored)
        if len(data) > self._max_bytes:
            return f"the {stored.arm.name} arm takes {len(data)} of {self._max_bytes} bytes"
        kept, _ = self.load(key)
        if kept is not None and kept.arm.episodes >= stored.arm.episodes:
            return None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _write(self._folder / f"{key}-{stored.arm.episodes}.json", data)
            # The length is in the name and the longest stays: processes that store arms of several
            # lengths at once need not wait for each other.
            for shorter in self._files(key)[1:]:
                shorter.unlink(missing_ok=True)
            self._shrink()
        except OSError as error:
            return f"the {stored.arm.name} arm cannot be kept: {error}"
        return None

    def discard(self, key: str) -> None:
        """Remove what is stored under a key, if anything is."""
        with suppress(OSError):
            for path in self._files(key):
                path.unlink(missing_ok=True)

    def _files(self, key: str) -> list[Path]:
        """Return the finished files of a key, the longest arm first."""
        matches = [_FILE_NAME.fullmatch(name) for name in os.listdir(self._folder)]
        own = sorted((int(m[2]), m[0]) for m in matches if m and m[1] == key and not m[3])
        return [self._folder / name for _, name in reversed(own)]

    def _shrink(self) -> None:
        """Drop the least recently used files until the others take no more than they may."""
        found = []
        for name in filter(_FILE_NAME.fullmatch, os.listdir(self._folder)):
            # Another process may just have removed it.
            with suppress(FileNotFoundError):
                status = os.stat(self._folder / name)
                found.append((status.st_mtime_ns, name, status.st_size))
        excess = sum(size for _, _, size in found) - self._max_bytes
        for _, name, size in sorted(found):
            if excess > 0:
                (self._folder / name).unlink(missing_ok=True)
                excess -= size


def _read(path: Path, key: str) -> StoredArm:
    """Return the arm in a file, or raise ValueError unless it was written here under this key."""
    data = path.read_bytes()
    values = json.loads(data)["stored"]
    stored = StoredArm(**{**values, "arm": Arm.from_dict(values["arm"])})
    # To the byte, which covers schema, key, digest, types and numbers.
    if data != _file_of(key, stored) or path.name != f"{key}-{stored.arm.episodes}.json":
        raise ValueError("it is not what would be written")
    # A folder that can only be read is as good.
    with suppress(OSError):
        os.utime(path)
    return stored


def _write(path: Path, data: bytes) -> None:
    """Write a file so that nobody ever sees a part of it."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _file_of(key: str, stored: StoredArm) -> bytes:
    values = {name: getattr(stored, name).tolist() for name in _COUNTS}
    values["arm"] = stored.arm.to_dict()
    content = {"schema": SCHEMA, "key": key, "sha256": _digest(values), "stored": values}
    return json.dumps(content, sort_keys=True).encode()


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _columns(*arms: Arm) -> dict[str, Any]:
    names = [name for name in _OUTCOMES if getattr(arms[0], name) is not None]
    return {name: np.concatenate([getattr(arm, name) for arm in arms]) for name in names}


def _components(task: Task, planner: Planner, model: Any) -> dict[str, Any]:
    """Return what is known of the components, or raise _UnkeyedError."""
    named = f"task {str(task.name)!r}"
    values = {
        "task": _definition(named, task),
        "facts": [str(task.name), int(task.budget), float(task.control_period)],
        "actions": _definition(f"the action space of {named}", task.actions),
        "versions": {str(name): str(found) for name, found in task.versions.items()},
        "planner": _definition(f"planner {str(planner.name)!r}", planner),
        "horizon": int(planner.horizon),
    }
    if type(planner) is not Chance and not (type(model) is OracleDynamics and model.task is task):
        torch = str(getattr(sys.modules.get("torch"), "__version__", ""))
        values["model"] = [_definition(f"model {describe(model)}", model), torch]
    return values


def _definition(what: str, value: Any) -> Any:
    """Return JSON values that are others for whatever differs, or raise _UnkeyedError."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return [kind.__name__, *(_definition(what, item) for item in value)]
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufcU":
        return ["array", value.dtype.str, list(value.shape), value.tobytes().hex()]
    key, known = _explicit_key(value), {}
    if isinstance(value, type) or (key is None and not (_is_own(kind) and is_dataclass(value))):
        raise _UnkeyedError(f"{what} has no cache_key")
    for field in fields(value) if is_dataclass(value) else ():
        # Settings are told apart even if the key forgets them; what cannot be, it stands for.
        with suppress(*[_UnkeyedError] if key else []):
            known[field.name] = _definition(what, getattr(value, field.name)) if field.init else 0
    return [f"{kind.__module__}.{kind.__qualname__}", key, known]


def _explicit_key(value: Any) -> str | None:
    """Return a component's key; a subclass of one of our classes has to bring its own."""
    key, kind = getattr(value, "cache_key", None), type(value)
    giver = next((base for base in kind.__mro__ if "cache_key" in vars(base)), kind)
    return key if isinstance(key, str) and key and (_is_own(kind) or not _is_own(giver)) else None


def _is_own(kind: type) -> bool:
    """Say whether a class is one of this package's, whose source is in the key."""
    module, name = kind.__module__, kind.__qualname__
    return module.startswith("pytest_cpg.") and getattr(sys.modules.get(module), name, None) is kind


@cache
def _environment() -> dict[str, Any]:
    """Return what else decides the bits of an episode: our source, numpy and the processor."""
    return {
        "pytest-cpg": version("pytest-cpg"),
        "source": _source_digest(Path(__file__).parent),
        "numpy": np.__version__,
        # Numpy's sines are other code on other processors; the rest are the C library's.
        "simd": (np.show_config(mode="dicts") or {}).get("SIMD Extensions"),
        "libc": "".join(platform.libc_ver()) or platform.version(),
        "machine": [sys.platform, platform.machine()],
        # Sums of floats round otherwise since 3.12.
        "python": sys.version_info[:2],
    }


def _source_digest(package: Path) -> str:
    paths = [package / f"{name}.py" for name in _MODULES]
    paths += [path for name in _FOLDERS for path in (package / name).rglob("*.py")]
    return _digest({str(path.relative_to(package)): path.read_bytes().hex() for path in paths})

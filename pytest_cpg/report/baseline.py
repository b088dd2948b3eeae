"""Baseline file: the committed JSON, one gate a line, that several processes may update.

It is an array: a header with the schema, then one object for each gate, sorted by id. The comma
stands before a gate, so that a gate that comes or goes is one line of a diff.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from pytest_cpg.gates.planning_gap.accepted import BaselineGate
from pytest_cpg.gates.planning_gap.compare import LARGEST_FAMILY, Baseline, BaselineError

SCHEMA = 1
_CONFLICT = ("<<<<<<<", "=======", ">>>>>>>")
# An update takes milliseconds, even on a network's file system.
_LOCK_PATIENCE, _LOCK_PAUSE = 30.0, 0.02


def load(path: Path) -> Baseline | None:
    """Read a baseline file; None when there is none.

    Raises
    ------
    BaselineError
        Naming the file, what is wrong with it and the next step.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BaselineError(f"cannot read the baseline {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        _refuse(path, f"byte {error.start} is no UTF-8")
    return _parsed(path, text)


def update(path: Path, change: Callable[[Baseline], Baseline]) -> Baseline:
    """Replace a baseline file by what ``change`` makes of it, and return that.

    Whoever updates it at the same time waits, so that no gate is lost; whoever reads it meanwhile
    finds the old file or the new one.

    Raises
    ------
    BaselineError
        As `load`, or when the file cannot be written. It is left as it was.
    """
    # A link stays one.
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            baseline = change(load(target) or Baseline())
            _replace(target, text_of(baseline))
    except OSError as error:
        raise BaselineError(f"cannot write the baseline {path}: {error.strerror}") from None
    return baseline


def text_of(baseline: Baseline) -> str:
    """Return the whole file."""
    header: dict[str, Any] = {"schema": SCHEMA}
    if baseline.declared_family_size is not None:
        header["family_size"] = baseline.declared_family_size
    rows = [header, *({name: gate.to_dict()} for name, gate in sorted(baseline.gates.items()))]
    lines = [json.dumps(row, sort_keys=True, allow_nan=False) for row in rows]
    return "[" + "\n,".join(lines) + "\n]\n"


def _parsed(path: Path, text: str) -> Baseline:
    """Return the baseline that a file's text holds, or raise BaselineError."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_CONFLICT):
            _refuse(
                path,
                f"line {number} is the mark of a merge conflict",
                f"Keep one line for each gate, or take one side: git checkout --theirs -- "
                f"{_quoted(path)}",
            )
    try:
        rows = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        _refuse(path, f"line {error.lineno}, column {error.colno}: {error.msg}")
    except (ValueError, RecursionError) as error:
        _refuse(path, str(error))
    header = rows[0] if isinstance(rows, list) and rows else rows
    schema = header.get("schema") if isinstance(header, dict) else None
    if type(schema) is not int or schema < 1:
        _refuse(path, "it does not begin with its schema")
    if schema > SCHEMA:
        _refuse(
            path,
            f"it has schema {schema}, and this pytest-cpg reads up to {SCHEMA}",
            "Upgrade: pip install -U pytest-cpg",
        )
    family_size = header.pop("family_size", None)
    is_size = type(family_size) is int and 1 <= family_size <= LARGEST_FAMILY
    if family_size is not None and not is_size:
        _refuse(
            path,
            f"family_size is {family_size!r:.40}, and has to be a whole number from 1 to "
            f"{LARGEST_FAMILY}",
        )
    if not isinstance(rows, list) or header != {"schema": SCHEMA}:
        _refuse(path, "its first object may hold a schema and a family_size only")
    return Baseline(gates=_gates(path, rows[1:]), declared_family_size=family_size)


def _gates(path: Path, rows: list[Any]) -> dict[str, BaselineGate]:
    gates: dict[str, BaselineGate] = {}
    for number, row in enumerate(rows, 1):
        is_pair = isinstance(row, dict) and len(row) == 1
        name, values = next(iter(row.items())) if is_pair else ("", None)
        if not isinstance(values, dict):
            _refuse(path, f"gate {number} is not of the form {{id: {{...}}}}")
        if name in gates:
            _refuse(path, f"gate {name!r} stands there twice")
        try:
            gates[name] = BaselineGate.from_dict(name, values)
        except (ValueError, OverflowError) as error:
            _refuse(path, f"gate {name!r}: {error}")
    return gates


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _refuse(path: Path, wrong: str, cure: str = "") -> NoReturn:
    restore = f"Restore it: git checkout -- {_quoted(path)}"
    raise BaselineError(
        f"cannot use the baseline {path}: {wrong}. It was left as it is. {cure or restore}"
    ) from None


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _replace(path: Path, text: str) -> None:
    """Write a file so that it is the old one or the new one, whatever happens."""
    # One name will do: whoever writes holds the lock.
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock on a file, which no other process holds meanwhile.

    The lock is on a file of its own, which is removed again: the baseline itself is replaced, and
    a network's file system cannot lock a folder.
    """
    lock = path.with_name(f"{path.name}.lock")
    deadline = time.monotonic() + _LOCK_PATIENCE
    while (descriptor := _acquired(lock)) is None:
        if time.monotonic() > deadline:
            raise BaselineError(
                f"another process has been updating the baseline {path} for {_LOCK_PATIENCE:g} s. "
                f"Try again when it has ended."
            )
        time.sleep(_LOCK_PAUSE)
    try:
        yield
    finally:
        _release(lock, descriptor)


if sys.platform == "win32":
    import msvcrt

    def _acquired(lock: Path) -> int | None:
        """Return the locked file's descriptor, or None when it is another's."""
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
        except PermissionError:
            # It is just being removed.
            return None
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            os.close(descriptor)
            return None
        return descriptor

    def _release(lock: Path, descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
        os.close(descriptor)
        # Windows does not remove what another process has open, and that one removes it then.
        with suppress(PermissionError, FileNotFoundError):
            lock.unlink()

else:
    import fcntl

    def _acquired(lock: Path) -> int | None:
        """Return the locked file's descriptor, or None when it is another's."""
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed it between the two calls: that lock keeps nobody out.
            if os.path.samestat(os.fstat(descriptor), os.stat(lock)):
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def _release(lock: Path, descriptor: int) -> None:
        lock.unlink(missing_ok=True)
        os.close(descriptor)

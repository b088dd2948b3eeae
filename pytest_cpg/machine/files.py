"""Files: writing one so that nobody ever sees a part of it, and reading none that would swell."""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import shlex
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.codec import loads

# Weights and arrays of floats hardly shrink, and deflate takes blanks to a thousandth.
MOST_SWELLING = 100
# Whatever its share, this is read in a second or two.
HARMLESS_BYTES = 2**28


class FileError(CpgError):
    """A file that cannot be read or written, or does not hold what was asked of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """What a kind of JSON file is called, as "the report", and how to get a good one.

    In the ``cure`` ``{path}`` is the file at hand, quoted; ``aside`` is said before it.
    """

    name: str
    schema: int
    cure: str
    aside: str = ""

    def text_in(self, path: Path, *, errors: str = "strict") -> str | None:
        """Return the text of a file, decoded as `open` does; None where there is no such file."""
        if path.is_char_device() or path.is_block_device():
            raise FileError(f"cannot use {self.name} {path}: it is a device. Name a file")
        try:
            return path.read_text(encoding="utf-8", errors=errors)
        except FileNotFoundError:
            return None
        except OSError as error:
            # What would mend its content is no cure.
            raise FileError(f"cannot use {self.name} {path}: {hindrance(path, error)}") from None
        except UnicodeDecodeError as error:
            self.refuse(path, f"byte {error.start} is no UTF-8")

    def values_of(self, path: Path, text: str) -> Any:
        """Return the plain values that a file's text holds, or refuse what is no JSON."""
        try:
            return loads(text)
        except ValueError as error:
            self.refuse(path, f"it is no JSON ({error})")

    def check_schema(self, path: Path, schema: object) -> None:
        """Refuse a file that is another kind's, or a newer pytest-cpg's."""
        if type(schema) is not int or schema < 1:
            self.refuse(path, "it has no schema, and so is not from pytest-cpg")
        if schema > self.schema:
            self.refuse(
                path,
                f"it has schema {schema}, and this pytest-cpg reads up to {self.schema}",
                "Upgrade: pip install -U pytest-cpg",
            )

    def refuse(self, path: Path, wrong: str, cure: str = "") -> NoReturn:
        """Raise FileError that names a file, what is wrong with it and the next step."""
        cure = cure or self.cure.format(path=shlex.quote(str(path)))
        raise FileError(f"cannot use {self.name} {path}: {wrong}. {self.aside}{cure}") from None


def write_text(path: Path, text: str, *, what: str) -> None:
    """Write a text as `write_bytes` does."""
    # A name may hold half of a character that is written in two.
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"), what=what)


def write_bytes(path: Path, content: bytes, *, what: str) -> None:
    """Write a file as a whole; parent folders are made.

    Whoever reads the file meanwhile finds the old one or the new one. Raises FileError, naming the
    path and what the system says. A file that was there is left as it was.
    """
    # A link stays one; that to a pipe, such as /dev/fd/3, leads to no name.
    target = path if is_special(path) else Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        target.parent.mkdir(parents=True, exist_ok=True)
        replace_file(target, content)
    except OSError as error:
        raise FileError(f"cannot write {what} {path}: {hindrance(path, error)}") from None


def hindrance(path: Path, error: OSError) -> str:
    """Return why a file can be neither read nor written, and what to do where that is known."""
    if os.path.isdir(path):
        return "it is a folder. Move it away, or name a file"
    there = next(folder for folder in map(str, path.absolute().parents) if os.path.exists(folder))
    if not os.path.isdir(there):
        return f"{there} is no folder. Move it away"
    return error.strerror or str(error)


@contextmanager
def locked(path: Path, *, what: str, patience: float = 30.0) -> Iterator[None]:
    """Have whoever else updates a file wait meanwhile, ``patience`` seconds; its folder is made."""
    from filelock import FileLock, Timeout

    lock = path.with_name(f"{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock, timeout=patience):
            try:
                yield
            finally:
                # Whoever waits for it notices. Windows removes it once it is given back.
                with suppress(PermissionError):
                    lock.unlink(missing_ok=True)
    except Timeout:
        raise FileError(
            f"another process has been updating {what} {path} for {patience:g} s. Try again when "
            f"it has ended."
        ) from None
    except OSError as error:
        raise FileError(f"cannot write {what} {path}: {hindrance(path, error)}") from None


def ignore_in_git(folder: Path, *patterns: str) -> None:
    """Write a folder's ``.gitignore`` where it has none; nothing fails for it."""
    path = folder / ".gitignore"
    with suppress(OSError):
        if not path.exists():
            lines = ("# Written by pytest-cpg, anew whenever gates run.", *patterns)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole: whoever reads it meanwhile finds the old one or the new one.

    What is there and no regular file, as a device or a pipe, stays and is written to. Raises
    OSError; a file that was there is left as it was.
    """
    if is_special(path):
        path.write_bytes(content)
        return
    # The name is as long as any file system takes, whatever the file's own is.
    temporary = path.with_name(f".cpg-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            # Some file systems notice only now that the disk is full.
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def is_special(path: Path) -> bool:
    """Say whether a path leads to what cannot be replaced by a file: a device, a pipe, a folder."""
    return os.path.exists(path) and not os.path.isfile(path)


def archive_members(file: str | os.PathLike[str] | IO[bytes]) -> list[zipfile.ZipInfo]:
    """Return what a zip archive says that it holds; nothing of what is none, or is damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.infolist()
    # The others are of names that are no text, versions and disks that Python does not know, and
    # places before the file's begin.
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError):
        return []
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return []


def check_unpacked_size(source: str | os.PathLike[str] | bytes) -> None:
    """Raise ValueError for an archive that would unpack to far more bytes than it has.

    What is no archive passes; whoever reads it says so. Members are asked for their size only.
    """
    size = len(source) if isinstance(source, bytes) else os.path.getsize(source)
    members = archive_members(io.BytesIO(source) if isinstance(source, bytes) else source)
    if not members:
        return
    limit = max(HARMLESS_BYTES, MOST_SWELLING * size)
    total = sum(member.file_size for member in members)
    if total > limit:
        largest = max(members, key=lambda member: member.file_size)
        raise ValueError(
            f"it has {size} bytes and would unpack to {total}, {largest.file_size} of them in "
            f"{largest.filename!r}; the limit is {limit} ({MOST_SWELLING} times its size, or "
            f"{HARMLESS_BYTES}). Write it again without compression."
        )


def digests_in(text: str) -> tuple[str, ...]:
    """Return digests of files that are separated by commas, as they are printed."""
    digests = tuple(part.strip().lower() for part in text.split(","))
    if not all(re.fullmatch(r"sha256:[0-9a-f]{64}", part) for part in digests):
        raise ValueError(
            f"need sha256: and 64 digits as the refusal of a file prints them, commas between "
            f"several, got {text!r}"
        )
    return digests

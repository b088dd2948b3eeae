"""Files: writing one so that nobody ever sees a part of it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Write a file as a whole: whoever reads it meanwhile finds the old one or the new one.

    What is there and no regular file, as a device or a pipe, stays and is written to.

    Raises
    ------
    OSError
        What the system says; a file that was there is left as it was.
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

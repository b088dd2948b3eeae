"""Trust: files that may run code of their own, each by the digest of the bytes that are opened."""

from __future__ import annotations

import hashlib

from pytest_cpg.contracts import ComponentError
from pytest_cpg.machine.files import digests_in


def digest_of(content: bytes) -> str:
    """Return what names the content of a file in ``--cpg-trust``.

    >>> digest_of(b"")[:20]
    'sha256:e3b0c44298fc1'
    """
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def is_trusted(content: bytes, trusted: str) -> bool:
    """Say whether digests, separated by commas, name this content; an empty text names none."""
    try:
        return bool(trusted) and digest_of(content) in digests_in(trusted)
    except ValueError as error:
        raise ComponentError(f"trusted: {error}") from None


def how_to_trust(content: bytes, trusted: str) -> str:
    """Return the end of a sentence that says what to type for a file that is refused."""
    digests = ",".join(filter(None, (trusted, digest_of(content))))
    return (
        f"if it is yours, let it run:\n"
        f"    --cpg-trust={digests}\n"
        f"(in a fixture: Program.load(path, trusted=...))"
    )

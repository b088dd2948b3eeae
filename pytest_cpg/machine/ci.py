"""CI: whether anybody watches what runs here."""

from __future__ import annotations

import os


def is_in_ci() -> bool:
    """Say whether nobody watches this process."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")

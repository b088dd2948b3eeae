"""Memory: what pytest's cache has of the gates of earlier sessions."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

# Verdicts of every gate when it last ran, and what it cost.
LAST, COSTS = "cpg/last.1", "cpg/costs.1"


def remembered(config: pytest.Config, name: str) -> dict[str, Any]:
    """Return what pytest's cache has of each gate under a name, by gate id."""
    cache = getattr(config, "cache", None)
    found = cache.get(name, {}) if cache else _on_disk(config, name)
    # Whatever else somebody's editor has left; of costs, kinds check what they have to do with.
    kind = {LAST: list, COSTS: dict}[name]
    pairs = found.items() if isinstance(found, dict) else ()
    return {gate: said for gate, said in pairs if isinstance(said, kind)}


def had_gates(config: pytest.Config, *kept: str) -> bool:
    """Say whether an earlier session had gates, by what it kept in files or pytest's cache."""
    return any((config.rootpath / path).exists() for path in kept) or bool(remembered(config, LAST))


def remember(config: pytest.Config, name: str, found: Mapping[str, Any]) -> None:
    """Add to what pytest's cache has of each gate under a name, where that can be written."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return
    # Pytest's own plugins say that it cannot, and a warning may be an error.
    with warnings.catch_warnings(action="ignore"), suppress(OSError, ValueError):
        cache.set(name, {**remembered(config, name), **found})


def _on_disk(config: pytest.Config, name: str) -> Any:
    """Return what is under a name where there is no cache yet: until conftest files are loaded."""
    # A project without a cache has no folder for it, either.
    with suppress(OSError, ValueError):
        folder = config.rootpath / os.path.expandvars(config.getini("cache_dir"))
        return json.loads((folder / "v" / name).read_text(encoding="utf-8"))
    return {}

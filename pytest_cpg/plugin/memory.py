"""Memory: what pytest's cache has of the gates of earlier sessions."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pytest

# What every gate cost when it last ran, nothing of one whose kind does not say.
COSTS = "cpg/costs.1"


def remembered_costs(config: pytest.Config) -> dict[str, Any]:
    """Return what pytest's cache has of each gate, by gate id."""
    cache = getattr(config, "cache", None)
    costs = cache.get(COSTS, {}) if cache else _on_disk(config)
    # Whatever else somebody's editor has left; kinds check what they have to do with.
    pairs = costs.items() if isinstance(costs, dict) else ()
    return {gate: cost for gate, cost in pairs if isinstance(cost, dict)}


def had_gates(config: pytest.Config, *kept: str) -> bool:
    """Say whether an earlier session had gates, by what it kept in files or pytest's cache."""
    return any((config.rootpath / path).exists() for path in kept) or bool(remembered_costs(config))


def remember_costs(config: pytest.Config, costs: Mapping[str, Any]) -> None:
    """Add to what pytest's cache has of each gate, where that can be written."""
    cache = getattr(config, "cache", None)
    if cache is None:
        return
    # Pytest's own plugins say that it cannot, and a warning may be an error.
    with warnings.catch_warnings(action="ignore"), suppress(OSError, ValueError):
        cache.set(COSTS, {**remembered_costs(config), **costs})


def _on_disk(config: pytest.Config) -> Any:
    """Return the costs where there is no cache yet: until conftest files are loaded."""
    # A project without a cache has no folder for it, either.
    with suppress(OSError, ValueError):
        folder = config.rootpath / os.path.expandvars(config.getini("cache_dir"))
        return json.loads((folder / "v" / COSTS).read_text(encoding="utf-8"))
    return {}

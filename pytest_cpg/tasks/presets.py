"""Presets: a planner that solves a task with the true dynamics, and how the task is set for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A planner that solves a task with the true dynamics, and how the task is to be set for it.

    Attributes
    ----------
    settings : mapping
        Fields of the planner that are not as it has them by itself.
    options : mapping
        What a marker would say of the task: ``budget``, ``action_repeat``, ``actions``.
    solved : int
        How many of 100 random starts, of seed 0, the oracle arm solved.
    """

    planner: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    solved: int

    def __post_init__(self) -> None:
        for name in ("settings", "options"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

"""Presets: a planner that solves a task with the true dynamics, and how the task is set for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pytest_cpg.stats import Interval, wilson_interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A planner that solves a task with the true dynamics, and how the task is to be set for it.

    Attributes
    ----------
    planner : str
        Its name.
    settings : mapping
        Fields of the planner that are not as it has them by itself.
    options : mapping
        What a marker would say of the task: ``budget``, ``action_repeat``, ``actions``.
    description : str
        In one line, what it is and why it suits the task.
    solved, episodes : int
        How many random starts (of seed 0) the oracle arm solved, and of how many.
    rollout_steps : int
        Model steps imagined per decision.
    cpu_ms : float
        Processor time of one decision with the true dynamics, in milliseconds: the median on a
        2.5 GHz Xeon that others were using too.
    """

    planner: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    description: str
    solved: int
    episodes: int = 100
    rollout_steps: int
    cpu_ms: float

    def __post_init__(self) -> None:
        for name in ("settings", "options"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    @property
    def oracle(self) -> Interval:
        """The oracle arm's success rate, with its Wilson interval at 95 %."""
        return wilson_interval(self.solved, self.episodes)

"""Tasks: worlds with a goal, by the name used in markers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task, TaskFactory

__all__ = ["TASKS"]


def _lazy(module: str, name: str) -> TaskFactory:
    """Return a factory whose module, and the simulator that it needs, is imported on first use."""

    def make(*, budget: int | None = None) -> Task:
        factory = getattr(import_module(f"pytest_cpg.tasks.{module}"), name)
        task: Task = factory() if budget is None else factory(budget=budget)
        return task

    return make


TASKS: Mapping[str, TaskFactory] = MappingProxyType(
    {
        "acrobot-swingup": _lazy("control", "acrobot_swingup"),
        "cartpole-swingup": _lazy("control", "cartpole_swingup"),
        "reacher-easy": _lazy("control", "reacher_easy"),
        "maze": _lazy("grids", "maze"),
        "two-room": _lazy("grids", "two_room"),
    }
)

"""Tasks: worlds with a goal, by the name used in markers.

True dynamics only: nothing here knows planners, models or gates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_cpg.tasks.control.formulas import TITLES
from pytest_cpg.tasks.options import OPTIONS, factory

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task, TaskFactory

__all__ = ["TASKS"]


def _made(module: str, function: str, *values: Any, **options: Any) -> Task:
    """Call a function whose module, and the simulator that it needs, is imported by then."""
    make: Callable[..., Task] = getattr(import_module(f"{__name__}.{module}"), function)
    return make(*values, **options)


TASKS: Mapping[str, TaskFactory] = MappingProxyType(
    {
        **{
            title: factory(partial(_made, "control.task", "control_task", title), *OPTIONS)
            for title in TITLES
        },
        "maze": factory(partial(_made, "grids", "maze"), "budget"),
        "two-room": factory(partial(_made, "grids", "two_room"), "budget"),
    }
)

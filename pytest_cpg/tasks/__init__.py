"""Tasks: worlds with a goal, by the name used in markers.

True dynamics only: nothing here knows planners, models or gates.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task, TaskFactory

__all__ = ["TASKS"]


def _grid(name: str) -> TaskFactory:
    """Return a factory whose module is imported on first use."""

    def make(*, budget: int | None = None) -> Task:
        return _made("grids", name, budget=budget)

    return make


def _control(name: str) -> TaskFactory:
    """Return a factory whose module, and the simulator that it needs, is imported on first use."""

    def make(
        *,
        budget: int | None = None,
        action_repeat: int | None = None,
        actions: str | None = None,
        threshold: float | None = None,
        least_return: float | None = None,
    ) -> Task:
        options = {
            "action_repeat": action_repeat,
            "actions": actions,
            "threshold": threshold,
            "least_return": least_return,
        }
        return _made("control.formula_task", name, budget=budget, **options)

    return make


def _made(module: str, name: str, **options: Any) -> Task:
    """Return the task that a function of a module makes with the options that were given."""
    factory = getattr(import_module(f"pytest_cpg.tasks.{module}"), name)
    task: Task = factory(**{key: value for key, value in options.items() if value is not None})
    return task


TASKS: Mapping[str, TaskFactory] = MappingProxyType(
    {
        "acrobot-swingup": _control("acrobot_swingup"),
        "ball-in-cup-catch": _control("ball_in_cup_catch"),
        "cartpole-swingup": _control("cartpole_swingup"),
        "cheetah-run": _control("cheetah_run"),
        "pendulum-swingup": _control("pendulum_swingup"),
        "reacher-easy": _control("reacher_easy"),
        "maze": _grid("maze"),
        "two-room": _grid("two_room"),
    }
)

"""Factories: what makes a task from the options that a marker gives."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from pytest_cpg.tasks.options import TaskOptions

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task, TaskFactory


def factory(make: Callable[..., Task], *known: str) -> TaskFactory:
    """Return a factory that knows some of `TaskOptions`; ``make`` gets those that are not None."""
    taken = Signature([Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in known])

    def made(**options: Any) -> Task:
        return make(**TaskOptions(**taken.bind(**options).arguments).given)

    described: Any = made
    described.__signature__ = taken
    return made

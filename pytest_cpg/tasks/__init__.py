"""Tasks: worlds with a goal, by the name used in markers.

True dynamics only: nothing here knows planners, models or gates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.lookup import lookup, nearest
from pytest_cpg.tasks.control.formulas import TITLES
from pytest_cpg.tasks.options import OPTIONS, factory

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task, TaskFactory

__all__ = ["PREFIXES", "TASKS", "named_task"]


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


@cache
def _dmc(name: str) -> TaskFactory:
    """Return what makes a task of the DeepMind Control suite, by its name there."""
    from pytest_cpg.tasks.control import dmc
    from pytest_cpg.tasks.control.suite import suite_parts

    suite_parts(name)
    return factory(partial(dmc, name), *OPTIONS)


@cache
def _gym(name: str) -> TaskFactory:
    """Return what makes a task of an environment of gymnasium's, by its id.

    What follows a comma is how success is told, what rates states, or an option of its resets:
    ``,success=terminated,score=path,task_id=1``.
    """
    from pytest_cpg.tasks.gymnasium import gym_task
    from pytest_cpg.tasks.gymnasium.environments import spec_of

    identity, *pairs = name.split(",")
    spec_of(identity)
    settings: dict[str, Any] = {}
    for pair in pairs:
        key, _, text = pair.partition("=")
        if not (key and text):
            raise ComponentError(
                f"task 'gym:{name}': need name=value after a comma, such as success=terminated or "
                f"task_id=1, got {pair!r}"
            )
        settings[key] = int(text) if text.lstrip("-").isdigit() else text
    said = {key: settings.pop(key) for key in ("success", "score") if key in settings}
    make = partial(gym_task, identity, options=settings or None, **said)
    return factory(make, *(option for option in OPTIONS if option != "actions"))


@cache
def _causal(world: str, name: str) -> TaskFactory:
    """Return what makes a world whose causes are known, by what its name says of it."""
    from pytest_cpg.tasks.causal.blocks import blocks
    from pytest_cpg.tasks.causal.chemistry import chemistry

    make: Callable[[str], Task] = blocks if world == "blocks:" else chemistry
    try:
        make(name)
    except ValueError as error:
        raise ComponentError(f"task {world + name!r}: {error}") from None
    return factory(partial(make, name))


def may_tell_success(name: str) -> bool:
    """Say whether a task of this name may tell by itself when an episode has succeeded.

    Gymnasium's own environments do not; those of other packages are known once they are made.
    """
    if not name.startswith("gym:"):
        return True
    from pytest_cpg.tasks.gymnasium.environments import spec_of

    identity, *settings = name.removeprefix("gym:").split(",")
    entry = str(spec_of(identity).entry_point)
    return not entry.startswith("gymnasium.envs.") or any(
        setting.startswith("success=") for setting in settings
    )


# What makes the factory of a task from what follows the prefix; the same for the same name, so that
# gates can share their task.
PREFIXES: Mapping[str, Callable[[str], TaskFactory]] = MappingProxyType(
    {
        "dmc:": _dmc,
        "gym:": _gym,
        "blocks:": partial(_causal, "blocks:"),
        "chemistry:": partial(_causal, "chemistry:"),
    }
)
# What stands behind a prefix where nothing does.
_USUAL: Mapping[str, str] = MappingProxyType({"blocks:": "3", "chemistry:": "chain5"})
# What names look like, so that a mistyped one imports no simulator in vain.
_LIKE: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {"dmc:": re.compile(r"[a-z_]+-[a-z_-]+"), "gym:": re.compile(r".+-v\d+")}
)


def named_task(name: str, tasks: Mapping[str, TaskFactory]) -> TaskFactory:
    """Return what makes the task of a name, which is among ``tasks`` or has a prefix.

    Raises ComponentError with what to type instead when there is none, or what it needs is missing.
    """
    if name in tasks:
        return tasks[name]
    prefix, colon, rest = name.partition(":")
    if prefix + colon in PREFIXES:
        return PREFIXES[prefix + colon](rest)
    return lookup("task", name, tasks, meant=_prefixed(name))


def _prefixed(name: str) -> str | None:
    """Return the name with the prefix that it lacks, or nearly has; None if there is no such task.

    >>> _prefixed("block:3")
    'blocks:3'
    >>> [_prefixed(name) for name in ("blocks", "blocks-5,k=1", "chemistry_full5")]
    ['blocks:3', 'blocks:5,k=1', 'chemistry:full5']
    """
    first, colon, rest = name.partition(":")
    near = nearest(first + colon, PREFIXES) if colon else None
    meant = [(prefix, name) for prefix, pattern in _LIKE.items() if pattern.fullmatch(name)]
    for prefix, usual in _USUAL.items():
        if name.startswith(prefix[:-1]):
            meant.append((prefix, name[len(prefix) - 1 :].lstrip("-_: ") or usual))
    for prefix, ending in [(near, rest), *meant] if near else meant:
        try:
            PREFIXES[prefix](ending)
        # There is no such task, or what it needs is not installed.
        except ComponentError:
            continue
        return prefix + ending
    return None

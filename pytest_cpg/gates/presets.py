"""Presets: for tasks by name a planner that solves them with the true dynamics.

A gate sees a model only as far as its oracle arm succeeds. The planners that were published with
the gap do not solve acrobot-swingup from random starts, so no model can be told from another there;
these do. What those of our tasks achieved is measured by
`tests/calibration/test_preset_oracles.py`; those of environments were measured once, by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any

from pytest_cpg.contracts import ComponentError, Planner
from pytest_cpg.contracts.lookup import did_you_mean, unknown_name
from pytest_cpg.planners import PLANNERS
from pytest_cpg.tasks.control import formulas
from pytest_cpg.tasks.control.formulas import TITLES, Preset
from pytest_cpg.tasks.goals import Goals

# What a marker writes for its planner.
PRESET = "preset"

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        **{title: formulas.preset_of(title) for title in TITLES},
        **dict.fromkeys(("maze", "two-room"), Preset(planner="beam", solved=100)),
    }
)


# As they are named behind gym:, found by their ids whatever module is named. Each was measured as
# it stands here, most on 30 starts; what needs a score of its own says so behind the name.
ENVIRONMENTS: Mapping[str, Preset] = MappingProxyType(
    {
        "ogbench:pointmaze-medium-v0": Preset(
            planner="icem",
            settings={"samples": 24, "iterations": 2, "horizon": 20, "execute": 10},
            options={"budget": 500},
            named={"score": "path"},
            solved=30,
            starts=30,
            chance=0,
            seconds=75,
        ),
        "ogbench:antmaze-medium-v0": Preset(
            planner="icem",
            settings={"samples": 24, "iterations": 2, "horizon": 20, "execute": 10},
            options={"budget": 1000},
            named={"score": "path"},
            solved=27,
            starts=30,
            chance=0,
            seconds=1030,
        ),
        "stable_worldmodel:swm/TwoRoom-v1": Preset(
            planner="icem",
            settings={"samples": 24, "iterations": 2, "horizon": 10, "execute": 5},
            options={"budget": 100},
            named={"success": "terminated", "score": "path"},
            solved=30,
            starts=30,
            chance=1,
            seconds=47,
        ),
        "ogbench:cube-single-v0": Preset(
            planner="icem",
            settings={"samples": 24, "iterations": 2, "horizon": 10, "execute": 5},
            options={"budget": 100},
            named={"score": "carry"},
            solved=30,
            starts=30,
            chance=0,
            seconds=192,
        ),
        # Of agent and block, in pixels, as near as its own success asks; the angle is left out.
        "stable_worldmodel:swm/PushT-v1": Preset(
            planner="icem",
            settings={"samples": 24, "iterations": 2, "horizon": 8, "execute": 4},
            options={"budget": 50, "goals": Goals(offset=25, within=20, columns=(4, 5, 6, 7))},
            solved=28,
            starts=30,
            chance=3,
        ),
    }
)


def _key(task: str) -> str:
    """Return a task's plain name; of an environment its id, whatever module and words are named.

    OGBench's ``visual-`` ids are those without it, in other colours.
    """
    plain = task.partition(" (")[0]
    if not plain.startswith("gym:"):
        return plain
    return f"gym:{plain.partition(',')[0].rpartition(':')[2].removeprefix('visual-')}"


_BY_KEY = {**PRESETS, **{_key(f"gym:{name}"): preset for name, preset in ENVIRONMENTS.items()}}


def preset_of(task: str) -> Preset | None:
    """Return the preset of a task's name, if it has one; what reports write behind it is left out.

    >>> preset_of("gym:ogbench:pointmaze-medium-v0,score=path").named["score"]
    'path'
    >>> preset_of("gym:ogbench:visual-cube-single-v0").named["score"]
    'carry'
    """
    return _BY_KEY.get(_key(task))


def preset_name(task: str) -> str:
    """Return a task's name with what its preset says behind it, if it has one and says anything.

    >>> preset_name("gym:ogbench:pointmaze-medium-v0"), preset_name("maze")
    ('gym:ogbench:pointmaze-medium-v0,score=path', 'maze')
    """
    preset = preset_of(task)
    words = {} if preset is None else preset.named
    return task + "".join(
        f",{key}={value}" for key, value in words.items() if f",{key}=" not in task
    )


def completed(marked: dict[str, Any]) -> dict[str, Any]:
    """Return a marker's arguments; of a preset, with what it says of the task and they do not."""
    if marked.get("planner") != PRESET:
        return marked
    task = marked["task"]
    if not isinstance(task, str):
        name = str(getattr(task, "name", ""))
        given = f"the task {name!r} itself" if name else repr(task)
        fix = f"task={name!r}" if preset_of(name) else 'planner="icem"'
        raise ComponentError(
            f"planner: presets are for tasks by name, got {given}. Write {fix}, or a "
            f"planner with settings of your own."
        )
    options = dict(_preset(task).options)
    if marked.get("goal") is not None or ",success=" in task:
        options.pop("goals", None)
    return {
        **marked,
        "task": preset_name(task),
        **{name: value for name, value in options.items() if marked.get(name) is None},
    }


def preset_planner(task: str, **changes: Any) -> Planner:
    """Return the planner of a task's preset, some of its fields changed.

    >>> preset_planner("maze", horizon=6)
    BeamSearch(width=8, horizon=6, objective='best', execute=None, ties='earliest')
    """
    preset = _preset(task)
    planner = PLANNERS[preset.planner]
    known = signature(planner).parameters
    for name in changes:
        if name not in known:
            raise unknown_name(f"setting of {task}'s preset, {preset.planner},", "", name, known)
    return planner(**{**preset.settings, **changes})


def _preset(task: str) -> Preset:
    """Return the preset of a task, or raise ComponentError that names those that have one."""
    preset = preset_of(task)
    if preset is not None:
        return preset
    raise ComponentError(
        f'planner="preset" is for built-in tasks, and none is named {task!r}. '
        f"{did_you_mean(task, PRESETS)} Of environments "
        f"{', '.join(f'gym:{name}' for name in ENVIRONMENTS)} have one. "
        f'Other tasks take planner="icem", or a planner with settings of your own.'
    )

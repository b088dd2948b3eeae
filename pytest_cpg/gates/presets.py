"""Presets: for every built-in task a planner that solves it with the true dynamics.

A gate sees a model only as far as its oracle arm succeeds. The planners that were published with
the gap do not solve acrobot-swingup from random starts, so no model can be told from another there;
these do. What each achieved is measured by `tests/calibration/test_preset_oracles.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pytest_cpg.contracts import ComponentError, Planner
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.planners import PLANNERS
from pytest_cpg.tasks.control.formulas import TITLES, Preset, preset_of

# What a marker writes for its planner.
PRESET = "preset"

PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        **{title: preset_of(title) for title in TITLES},
        **dict.fromkeys(("maze", "two-room"), Preset(planner="beam", solved=100)),
    }
)


def completed(marked: dict[str, Any]) -> dict[str, Any]:
    """Return a marker's arguments; of a preset, with what it says of the task and they do not."""
    if marked.get("planner") != PRESET:
        return marked
    task = marked["task"]
    if not isinstance(task, str):
        name = str(getattr(task, "name", ""))
        fix = f"task={name!r}" if name in PRESETS else 'planner="icem"'
        raise ComponentError(
            f"planner: presets are for built-in tasks by name, got {task!r}. Write {fix}, or a "
            f"planner with settings of your own."
        )
    options = _preset(task).options
    return {
        **marked,
        **{name: value for name, value in options.items() if marked.get(name) is None},
    }


def preset_planner(task: str, **changes: Any) -> Planner:
    """Return the planner of a task's preset, some of its fields changed.

    >>> preset_planner("maze", horizon=6)
    BeamSearch(width=8, horizon=6, objective='best', execute=None, ties='earliest')
    """
    preset = _preset(task)
    return PLANNERS[preset.planner](**{**preset.settings, **changes})


def _preset(task: str) -> Preset:
    """Return the preset of a task, or raise ComponentError that names those that have one."""
    if task in PRESETS:
        return PRESETS[task]
    raise ComponentError(
        f'planner="preset" is for built-in tasks, and none is named {task!r}. '
        f'{did_you_mean(task, PRESETS)} Other tasks take planner="icem", or a planner with '
        f"settings of your own."
    )

"""Tasks: which there are, and what one observes, takes for actions, and is solved by."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path

from pytest_cpg.contracts import ActionSpace, ComponentError, FiniteActions, Task
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.task import (
    ObservationKeys,
    Observed,
    Restored,
    RewardThreshold,
    StateScore,
    tells_success,
)
from pytest_cpg.gates.presets import ENVIRONMENTS, PRESET, preset_name, preset_of
from pytest_cpg.planners import PLANNERS
from pytest_cpg.render.command import width
from pytest_cpg.render.command.project import declare_plugins, from_hook
from pytest_cpg.render.line import listed, padded, wrapped
from pytest_cpg.tasks import PREFIXES, TASKS, named_task
from pytest_cpg.tasks.goal_task import GoalTask, with_goals

_OTHERS = (
    "dmc:DOMAIN-TASK is any task of the DeepMind Control suite, such as dmc:walker-walk, and "
    "gym:ID any environment of Gymnasium, such as gym:Pendulum-v1. What one observes: pytest-cpg "
    "tasks NAME"
)
_BY_REWARD = (
    "minus the reward, which observations do not tell: the model needs a rollout with a score or "
    "reward beside it, or the task a score"
)
_BY_WORD = {
    "path": "the length of the shortest path to the goal, on the map that the environment shows",
    "carry": "the distances of the cubes to their goals, and of the effector to a cube",
}
_CONFTEST = "conftest.py"
# More actions than these are counted.
_MOST_ACTIONS = 9


def declare_tasks(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", nargs="?", help="a task, as a marker names it; without it, a list")
    declare_plugins(parser)


def tasks(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return which tasks there are, or what one observes and how it is solved."""
    tasks = {**TASKS, **from_hook("pytest_cpg_tasks", arguments)}
    if arguments.name is None:
        rows = [("task", "preset planner", "solves of 100 starts")]
        for name in tasks:
            preset = preset_of(name)
            rows.append((name, preset.planner, str(preset.solved)) if preset else (name, "-", "-"))
        rows += [
            (f"gym:{name}", preset.planner, f"{preset.solved} of {preset.starts}")
            for name, preset in ENVIRONMENTS.items()
        ]
        return [*listed(rows), "", *wrapped(_OTHERS, width())], 0
    preset = preset_of(arguments.name)
    try:
        make = named_task(preset_name(arguments.name), tasks)
    except ComponentError as error:
        if arguments.plugins or not Path(_CONFTEST).is_file():
            raise
        fix = f"pytest-cpg tasks {shlex.quote(arguments.name)} -p {_CONFTEST}"
        raise ComponentError(f"{error} For tasks of {_CONFTEST}: {fix}") from None
    options = dict(preset.options) if preset else {}
    goals = options.pop("goals", None)
    task = (make if goals is None else with_goals(make, goals))(**options)
    return list(_described(arguments.name, task)), 0


def _described(name: str, task: Task) -> Iterator[str]:
    yield name
    yield from _fact("observation", f"{task.observation_size} numbers, in this order:")
    yield from _observed(task)
    yield from _fact("action", _actions(task.actions))
    yield from _fact("episode", f"{task.budget} steps of {task.control_period:g} s")
    if has(task, RewardThreshold):
        yield from _fact("solved", f"at a step with a reward of {task.threshold:g} or more")
    goal = ""
    if not tells_success(task):
        goal = ', metric="return"'
        yield from _fact("solved", "at goal=; without, returns are compared")
    if has(task, Restored):
        yield from _fact("restored", f"by {task.restored_by}")
    if isinstance(task, GoalTask):
        yield from _fact("goals", task.note_on_starts.removeprefix("goals are "))
    elif ",score=" in task.name:
        word = task.name.partition(",score=")[2].partition(",")[0].partition(" ")[0]
        yield from _fact("score", _BY_WORD[word])
    elif getattr(task, "has_goal", False):
        yield from _fact("score", "distance to the goal, which is part of the observation")
    elif name.startswith(tuple(PREFIXES)) and has(task, StateScore):
        yield from _fact("score", _BY_REWARD)
    preset = preset_of(name)
    if preset is None:
        yield from _fact("preset", "none; write a planner with settings of your own")
        # In these worlds one step ahead is enough, and each of few actions can be tried.
        planner = "greedy" if name.startswith(("blocks:", "chemistry:")) else "icem"
        yield from _fact("marker", f'@pytest.mark.cpg(task="{name}", planner="{planner}"{goal})')
        return
    planned = PLANNERS[preset.planner](**preset.settings)
    options = "".join(f", {key}={value!r}" for key, value in preset.options.items())
    yield from _fact("preset", f"{planned!r}{options}")
    solves = f"solves {preset.solved} of {preset.starts} starts with the true dynamics"
    behind = preset_name(name).removeprefix(name)
    yield from _fact("", solves + f", with {behind} behind the name" * bool(behind))
    yield from _fact("marker", f'@pytest.mark.cpg(task="{name}", planner="{PRESET}")')


def _observed(task: Task) -> Iterator[str]:
    """Yield a line for each number of an observation, or for each part where that is all known."""
    if has(task, Observed):
        numbered = [(str(place), text) for place, text in enumerate(task.observed)]
    elif has(task, ObservationKeys):
        numbered, begin = [], 0
        for key, count in task.observation_keys.items():
            last = begin + count - 1
            numbered.append((f"{begin}..{last}" if count > 1 else f"{begin}", key))
            begin += count
    else:
        numbered = [(f"0..{task.observation_size - 1}", "as the environment has them")]
    places = padded([(place,) for place, _ in numbered], "")
    for place, (_, text) in zip(places, numbered, strict=True):
        yield from _fact("", f"{place}  {text}")


def _actions(actions: ActionSpace) -> str:
    numbers = f"{actions.size} number{'s'[: actions.size != 1]}"
    if not isinstance(actions, FiniteActions):
        bounds = dict.fromkeys(zip(actions.low, actions.high, strict=True))
        spans = ", ".join(f"{low:g} to {high:g}" for low, high in bounds)
        return f"{numbers}, {spans}{' each' * (len(bounds) == 1 < actions.size)}"
    if len(actions.values) > _MOST_ACTIONS:
        return f"{numbers}, one of {len(actions.values)} combinations"
    rows = [", ".join(f"{value:g}" for value in row) for row in actions.values]
    shown = rows if actions.size == 1 else [f"({row})" for row in rows]
    return f"{numbers}, one of {', '.join(shown)}"


def _fact(name: str, text: str) -> list[str]:
    # A marker is copied.
    return wrapped(text, width(), f"  {name:12s}", breaks_words=False)

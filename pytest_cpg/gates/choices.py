"""Choices: the task and the planner of a marker, by name or given, checked and changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from typing import Any, ClassVar

from pytest_cpg.contracts import (
    BoxActions,
    ComponentError,
    FiniteActions,
    Planner,
    PlannerFactory,
    Plans,
    Task,
    TaskFactory,
)
from pytest_cpg.contracts.errors import all_answers
from pytest_cpg.contracts.lookup import check_complete, lacking, lookup
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import TrainedPlanner
from pytest_cpg.episodes.design import Design, replaced
from pytest_cpg.gates.kind import Components, TaskChoice
from pytest_cpg.gates.presets import PRESET, preset_planner
from pytest_cpg.tasks import may_tell_success, named_task
from pytest_cpg.tasks.goal_task import with_goals
from pytest_cpg.tasks.goals import RANDOM, Goals
from pytest_cpg.tasks.options import OPTIONS
from pytest_cpg.tasks.pixel_task import with_pixels

# What a marker writes for its planner.
AS_TRAINED = "as-trained"

_NONE = """\
planner="as-trained": this {kind} does not say how it is planned with. Write
    planner = {{ name = "icem", horizon = 20 }}
into the .toml file beside a checkpoint, or give the model an attribute
    trained_planner = {{"name": "icem", "horizon": 20}}
or name a planner: planner="icem"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsTrained:
    """Stands for a model's own choice among planners until the model is there.

    A horizon of 0 is left to the model.
    """

    planners: Mapping[str, PlannerFactory] = field(repr=False)
    horizon: int = 0
    name: ClassVar[str] = AS_TRAINED

    def plan(self, *_: Any) -> Plans:
        """Raise ComponentError: several models may have been trained with as many planners."""
        raise ComponentError(
            'planner="as-trained" is the planner of one model, and here several are planned with '
            'the same. Name it: planner="tdmpc2".'
        )


def as_trained(design: Design, model: Any) -> Design:
    """Return a design with the planner that the model names, where it is left to the model.

    Raises ComponentError when the model names none, or one that cannot be made.
    """
    planned = design.planner
    if not isinstance(planned, AsTrained):
        return design
    if not has(model, TrainedPlanner):
        raise ComponentError(_NONE.format(kind=type(model).__name__))
    planner = _made(model.trained_planner, planned.planners)
    return replace(design, planner=replaced("planner", planner, "horizon", planned.horizon or None))


def _made(given: Any, planners: Mapping[str, PlannerFactory]) -> Planner:
    """Return the planner that a model gives, or names with its settings."""
    where = 'planner="as-trained": the model'
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        settings = {key: value for key, value in given.items() if key != "name"}
        factory = lookup("planner", given["name"], planners)
        try:
            return check_complete("planner", given["name"], factory(**settings), Planner)
        except (TypeError, ValueError) as error:
            raise ComponentError(f"{where} says {dict(given)!r}: {error}") from None
    if isinstance(given, Planner) and not isinstance(given, type):
        return given
    raise ComponentError(
        f"{where} has trained_planner = {given!r}. Give a Planner, or its name and settings: "
        f'{{"name": "icem", "horizon": 20}}.'
    )


# A planner that no name can stand for.
_POLICY_GUIDED = "policy-guided"
_TO_BE_SEEN = "gym:ogbench:visual-"


def task_and_planner(
    values: Mapping[str, Any], components: Components
) -> tuple[TaskChoice, Planner]:
    """Return the task and the planner of a marker, each checked; of both is told what is wrong.

    Raises ValueError or ComponentError, naming the value and what to type instead.
    """
    name = values["task"] if isinstance(values["task"], str) else ""
    task = partial(_task_of, values, components)
    planner = partial(_planner_of, values, contributed=components.planners)
    # Presets are those of tasks that are known.
    if values["planner"] == PRESET or not name:
        chosen = task()
        return chosen, planner(chosen.name)
    chosen, searching = all_answers(task, partial(planner, name))
    return chosen, searching


def _task_of(values: Mapping[str, Any], components: Components) -> TaskChoice:
    """Return a task with what a marker says of it, checked as far as can be without building it."""
    task = values["task"]
    make: TaskFactory
    if isinstance(task, str):
        # Other kinds have no such argument, and ask nothing of pictures.
        is_unseen = "observe" in values and values["observe"] is None
        if is_unseen and task.startswith(_TO_BE_SEEN):
            raise ValueError(
                f"observe: {task!r} is there to be seen, and the model would be given numbers. Add "
                f'observe="pixels", or take the same world in numbers: '
                f'task="{task.replace("visual-", "", 1)}".'
            )
        name, make = task, named_task(task, components.tasks)
    else:
        name, make = task.name, partial(_changed, task)
    goal, goals = values["goal"] or {}, values["goals"]
    options = {
        option_name: values[option_name]
        for option_name in OPTIONS
        if values.get(option_name) is not None
    } | goal
    for option, value in options.items():
        try:
            signature(make).bind_partial(**{option: value})
        except TypeError:
            argument = "goal" if option in goal else option
            raise ValueError(
                f"{argument}: task {name!r} does not know it. Leave it out of this marker."
            ) from None
        # Something that cannot be asked what it takes.
        except ValueError:
            continue
    if goals is not None:
        if goal:
            raise ValueError("goal= and goals= both say what a success is. Leave one of them out.")
        goals = _loaded(goals, components.planners)
        make = with_goals(make, goals)
        if goals.offset is not None and "budget" in signature(make).parameters:
            # As in LeWM's evaluation: twice the steps that led there.
            options.setdefault("budget", 2 * goals.offset)
    if (pixels := values.get("observe")) is not None:
        make = with_pixels(make, pixels)
    return TaskChoice(name=name, make=make, options=tuple(options.items()))


def has_goal(values: Mapping[str, Any]) -> bool:
    """Say whether anything tells when an episode has succeeded: of environments, the marker."""
    is_silent = isinstance(values["task"], str) and not may_tell_success(values["task"])
    return not is_silent or not (values["goal"] is None and values["goals"] is None)


def _loaded(goals: Goals, planners: Mapping[str, PlannerFactory]) -> Goals:
    """Return goals with what is in their file, and the planner that draws them, if one is named."""
    try:
        if isinstance(goals.by, str) and goals.by != RANDOM:
            goals = replace(goals, by=lookup("planner", goals.by, planners)())
        return goals.loaded()
    except ValueError as error:
        raise ValueError(f"goals: {error}") from None


def _changed(task: Task, **options: Any) -> Task:
    for name, value in options.items():
        changed = replaced("task", task, name, value)
        if not isinstance(changed.actions, (FiniteActions, BoxActions)):
            raise ValueError(f"{name}: set it on the task itself, {task!r} cannot be changed")
        task = changed
    return task


def _planner_of(
    values: Mapping[str, Any], task: str, contributed: Mapping[str, PlannerFactory]
) -> Planner:
    """Return the planner that a marker names or gives, with its horizon."""
    planners: dict[str, PlannerFactory] = {
        **contributed,
        PRESET: partial(preset_planner, task),
        AS_TRAINED: partial(AsTrained, planners=contributed),
    }
    choice, horizon = values["planner"], values["horizon"]
    if choice == _POLICY_GUIDED and choice not in planners:
        raise ValueError(
            f"planner: {choice!r} has to be given its policy. Write "
            f"planner=PolicyGuided(policy=...), from pytest_cpg.planners."
        )
    if isinstance(choice, str):
        factory = lookup("planner", choice, planners)
        planner = factory() if horizon is None else factory(horizon=horizon)
        return check_complete("planner", choice, planner, Planner)
    if isinstance(choice, type):
        raise ValueError(f"planner: {choice.__name__} is a class. Write {choice.__name__}().")
    if not isinstance(choice, Planner):
        raise ValueError(
            f"planner: need the name of a planner or a Planner, got {choice!r:.60}"
            f"{lacking(choice, Planner)}"
        )
    return replaced("planner", choice, "horizon", horizon)

"""Presets: what a marker gets by planner="preset", and what it may say otherwise."""

import re
from dataclasses import FrozenInstanceError, replace
from inspect import signature
from types import SimpleNamespace

import pytest
from usual_settings import usual_settings

from pytest_cpg.contracts import ComponentError
from pytest_cpg.gates import GATES
from pytest_cpg.gates.kind import Components
from pytest_cpg.gates.presets import (
    ENVIRONMENTS,
    PRESETS,
    completed,
    preset_name,
    preset_of,
    preset_planner,
)
from pytest_cpg.planners import PLANNERS
from pytest_cpg.plugin.marker import gate_of
from pytest_cpg.stats import wilson_interval
from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.goals import Goals


def spec_of(*markers):
    """The gate of markers, the closest first."""
    components = Components(
        tasks={**TASKS, "own": TASKS["maze"]}, planners=PLANNERS, world_models={}
    )
    marks = [SimpleNamespace(args=(), kwargs=marked) for marked in markers]
    return gate_of(marks, GATES["cpg"], usual_settings(), components, nodeid="gate").spec


def test_every_built_in_task_has_a_preset_that_it_understands():
    assert set(PRESETS) == set(TASKS)
    for name, preset in PRESETS.items():
        signature(TASKS[name]).bind(**preset.options)
        assert wilson_interval(preset.solved, 100).low >= 0.9, name


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_has_its_preset_by_its_id(name):
    preset, title = ENVIRONMENTS[name], f"gym:{name.rpartition(':')[2]}"
    assert preset_planner(f"gym:{name},task_id=1") == preset_planner(title)
    full = preset_name(title)
    assert full == title + "".join(f",{key}={value}" for key, value in preset.named.items())
    # What is said of the task already stays.
    assert preset_name(full) == full
    assert preset_of(f"{full} (action_repeat=2)") is preset
    assert wilson_interval(preset.solved, preset.starts).low >= 0.7


def test_a_setting_that_a_presets_planner_does_not_have_is_named_with_the_nearest():
    told = "no setting of acrobot-swingup's preset, icem, 'smothing'. Did you mean 'smoothing'?"
    with pytest.raises(ComponentError, match=re.escape(told)):
        preset_planner("acrobot-swingup", smothing=0.1)


@pytest.mark.parametrize("name", PRESETS)
def test_a_marker_gets_planner_and_task_options_of_its_tasks_preset(name):
    spec = spec_of({"task": name, "planner": "preset"})
    assert spec.design(None).planner == preset_planner(name)
    assert dict(spec.task.options) == dict(PRESETS[name].options)


def test_what_a_marker_says_itself_wins_over_the_preset():
    preset = PRESETS["acrobot-swingup"]
    spec = spec_of(
        {"task": "acrobot-swingup", "budget": None, "horizon": 30},
        {"planner": "preset", "actions": "levels"},
    )
    assert spec.design(None).planner == replace(preset_planner("acrobot-swingup"), horizon=30)
    assert spec.design(None).planner.samples == preset.settings["samples"]
    assert dict(spec.task.options) == {
        "budget": preset.options["budget"],
        "action_repeat": preset.options["action_repeat"],
        "actions": "levels",
    }


def test_a_preset_may_bring_goals_unless_the_marker_says_what_a_success_is():
    title = "gym:stable_worldmodel:swm/PushT-v1"
    preset = {"task": title, "planner": "preset"}
    drawn = ENVIRONMENTS[title.removeprefix("gym:")].options["goals"]
    assert completed(preset)["goals"] is drawn
    own = Goals(offset=9, within=1)
    assert completed({**preset, "goals": own})["goals"] is own
    assert "goals" not in completed({**preset, "goal": {"threshold": 1}})
    named = completed({**preset, "task": f"{title},success=terminated"})
    assert "goals" not in named
    assert named["task"] == f"{title},success=terminated"


def test_another_planner_leaves_a_task_as_it_is():
    assert spec_of({"task": "acrobot-swingup", "planner": "cem"}).task.options == ()


def test_a_task_without_preset_names_those_that_have_one():
    with pytest.raises(ComponentError, match=r"none is named 'own'.*acrobot-swingup, .*maze"):
        spec_of({"task": "own", "planner": "preset"})


def test_a_task_given_as_an_object_is_asked_for_by_its_name():
    task = TASKS["two-room"]()
    with pytest.raises(ComponentError, match=r"by name, got .*two-room.* Write task='two-room', "):
        spec_of({"task": task, "planner": "preset"})
    for name in ("own", ["own"]):
        with pytest.raises(ComponentError, match=r'by name, got .*own.* Write planner="icem", or'):
            spec_of({"task": replace(task, name=name), "planner": "preset"})


def test_a_mistyped_preset_is_suggested():
    with pytest.raises(ComponentError, match="Did you mean 'preset'"):
        spec_of({"task": "maze", "planner": "presets"})


def test_a_preset_is_a_value():
    preset = PRESETS["maze"]
    with pytest.raises(FrozenInstanceError):
        preset.solved = 0
    with pytest.raises(TypeError):
        preset.options["budget"] = 1

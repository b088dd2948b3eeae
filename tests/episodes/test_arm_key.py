import os
import re
import subprocess
import sys
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from shutil import copytree, ignore_patterns
from types import SimpleNamespace

import numpy as np
import pytest
from runs import Sure

import pytest_cpg
from pytest_cpg.contracts import BoxActions, FiniteActions
from pytest_cpg.episodes import arm_cache as arm_keys
from pytest_cpg.episodes.arm_cache import UnkeyedError, arm_key
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.planners import CEM, Chance, RandomShooting
from pytest_cpg.tasks.control.formulas import formulas_of
from pytest_cpg.tasks.grids import GridTask, maze
from pytest_cpg.world_models import OracleDynamics

MAZE = maze()


@dataclass(frozen=True)
class Field:
    """A user's task, as far as a key looks at it."""

    wind: float = 0.0
    cache_key: str | None = "field 1"
    name: str = "field"
    budget: int = 20
    control_period: float = 0.1
    versions: dict[str, str] = field(default_factory=lambda: {"simulator": "1"})
    actions: object = BoxActions(np.array([-1.0]), np.array([1.0]))


class Surrogate:
    def __init__(self, cache_key):
        self.cache_key = cache_key


class Meadow:
    """A user's task that is no dataclass: what the protocol has is all that is known."""

    def __init__(self, **changed):
        known = {field.name: getattr(Field(), field.name) for field in fields(Field)}
        self.__dict__.update(**{**known, **changed})


class Luck:
    """A user's planner that is no dataclass."""

    name, cache_key = "luck", "luck 1"

    def __init__(self, horizon):
        self.horizon = horizon


class Forks(RandomShooting):
    """A user's change to a planner of ours."""


class NearlyMaze(GridTask):
    """A user's change to a task of ours."""


class Disguised(RandomShooting):
    """A user's planner under the name of one of ours."""

    __module__, __qualname__ = RandomShooting.__module__, RandomShooting.__qualname__


def unkeyed(component):
    return replace(component, cache_key=None)


def designed(task=MAZE, planner=None, seed=3, episodes=20, **more):
    planner = planner or RandomShooting()
    return Design(task=task, planner=planner, seed=seed, episodes=episodes, **more)


class Gust:
    """A user's perturbation, whose key says nothing of its settings; its name does."""

    cache_key = "gust 1"

    def __init__(self, strength):
        self.name = f"gust-{strength:g}"

    def push(self, states, moment):
        return states


def key(*, arm="oracle", task=MAZE, **changed):
    model = changed.pop("model", OracleDynamics(task))
    return arm_key(arm, designed(task, **changed), model)


def with_a_door():
    """The maze with one wall less."""
    return replace(MAZE, layout=MAZE.layout.replace("#.#...#...#...#", "#.#.......#...#"))


OUR_CHANGES = [
    {"arm": "chance"},
    {"task": replace(MAZE, name="labyrinth")},
    {"task": replace(MAZE, budget=MAZE.budget + 1)},
    {"task": with_a_door()},
    {"planner": CEM()},
    {"planner": Chance()},
    {"planner": Chance(horizon=5)},
    {"planner": RandomShooting(candidates=51)},
    {"planner": RandomShooting(horizon=16)},
    {"planner": RandomShooting(ties="published")},
    {"planner": CEM(smoothing=0.2)},
    {"planner": CEM(elites=5)},
    {"seed": 4},
    {"starts": "fixed"},
    {"metric": "return"},
    {"perturbation": DropActions(5)},
    {"perturbation": Gust(0.5)},
    {"perturbation": Gust(2)},
    # Bound by name, another maze may pass for this one.
    {"model": OracleDynamics(with_a_door())},
    {"model": Surrogate("finer mesh")},
    {"model": Surrogate("finest mesh")},
]
ANOTHER_BOX = BoxActions(np.array([-1.0]), np.array([2.0]))
USER_CHANGES = [
    {},
    {"task": Field(cache_key="field 2")},
    {"task": Field(name="meadow")},
    {"task": Field(budget=21)},
    {"task": Field(control_period=0.2)},
    {"task": Field(versions={"simulator": "2"})},
    {"task": Field(actions=ANOTHER_BOX)},
    {"task": Field(actions=FiniteActions(np.array([[-1.0], [1.0]])))},
    # The key was forgotten, the setting tells them apart.
    {"task": Field(wind=0.5)},
    {"task": Meadow()},
    {"task": Meadow(cache_key="meadow 2")},
    {"task": Meadow(name="meadow")},
    {"task": Meadow(budget=21)},
    {"task": Meadow(control_period=0.2)},
    {"task": Meadow(versions={"simulator": "2"})},
    {"task": Meadow(actions=ANOTHER_BOX)},
    {"planner": Luck(3)},
    {"planner": Luck(4)},
    {"planner": Sure()},
    {"planner": Sure(cache_key="sure 2")},
    {"planner": Sure(boldness=2.0)},
    {"planner": Sure(levels=(0.0, 2.0))},
    {"planner": Sure(levels=[0.0, 1.0])},
    {"planner": Sure(gains=np.array([1.0, 2.0]))},
    {"planner": Sure(gains=np.array([[1.0, 2.0]]))},
    {"planner": Sure(gains=np.array([1.0, 3.0]))},
    {"planner": Sure(gains=np.float32(1.0))},
    {"planner": Sure(gains=1.0)},
    {"planner": Sure(gains=1)},
    {"planner": Sure(gains=True)},
    {"planner": Sure(gains="1")},
    {"planner": Sure(inner=RandomShooting(candidates=5, horizon=3))},
]


def test_whatever_may_change_an_episode_changes_the_key():
    found = [key(), *(key(**change) for change in OUR_CHANGES)]
    found += [key(**{"task": Field(), **change}) for change in USER_CHANGES]
    assert None not in found
    assert len(set(found)) == 1 + len(OUR_CHANGES) + len(USER_CHANGES)
    assert all(len(each) == 64 for each in found)


@pytest.mark.parametrize(
    "same",
    [
        {"task": maze()},
        {"task": maze(), "model": OracleDynamics(MAZE)},
        {"seed": np.int64(3)},
        {"episodes": 30, "level": 0.9},
        {"planner": RandomShooting(candidates=50, horizon=15, ties="earliest")},
    ],
    ids=["task made again", "oracle of an equal task", "numpy seed", "other sizes", "defaults"],
)
def test_what_changes_no_episode_does_not_change_the_key(same):
    if "model" in same:
        # Another object might be another task: its own definition is in the key.
        assert key(**same) != key()
        assert key(**same) == key(**{**same, "model": OracleDynamics(maze())})
    else:
        assert key(**same) == key()


def test_the_key_of_chance_does_not_depend_on_the_oracle():
    chance = {"arm": "chance", "planner": Chance()}
    models = [OracleDynamics(MAZE), Surrogate("finer mesh"), lambda observations, actions: actions]
    assert len({key(model=model, **chance) for model in models}) == 1
    assert key(**chance) is not None


def test_what_cannot_be_told_apart_in_a_keyed_component_is_left_to_its_key():
    assert key(task=Field(), planner=Sure(gains=abs)) == key(
        task=Field(), planner=Sure(gains=np.sin)
    )
    assert key(planner=Sure(gains=RandomShooting)) == key(planner=Sure(gains=Sure))


def test_another_process_finds_the_same_key():
    program = """
import sys
from pytest_cpg.episodes.arm_cache import arm_key
from pytest_cpg.episodes.design import Design
from pytest_cpg.planners import RandomShooting
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import OracleDynamics
task = maze()
design = Design(task=task, planner=RandomShooting(), episodes=1, seed=3)
print(arm_key("oracle", design, OracleDynamics(task)))
"""
    for hash_seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == key()


@pytest.fixture
def fresh_environment():
    arm_keys._environment.cache_clear()
    yield
    arm_keys._environment.cache_clear()


def changed_of(name):
    return lambda package: "99" if package == name else version(package)


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        (arm_keys, "version", changed_of("pytest-cpg")),
        (arm_keys, "version", changed_of("scipy")),
        (arm_keys, "_source_digest", lambda package: "0"),
        (arm_keys.np, "__version__", "99"),
        (arm_keys.np, "show_config", lambda mode: {"SIMD Extensions": {"found": ["NONE"]}}),
        (arm_keys.platform, "libc_ver", lambda: ("glibc", "99")),
        (arm_keys.platform, "machine", lambda: "vax"),
        (arm_keys.sys, "platform", "vms"),
        (arm_keys.sys, "version_info", (4, 0)),
    ],
    ids=["package", "scipy", "source", "numpy", "simd", "libc", "machine", "system", "python"],
)
def test_the_environment_is_in_the_key(where, name, value, monkeypatch, fresh_environment):
    before = key()
    arm_keys._environment.cache_clear()
    # Only while the key is made: others ask the platform, too.
    with monkeypatch.context() as changed:
        changed.setattr(where, name, value)
        assert key() != before
    arm_keys._environment.cache_clear()
    assert key() == before


@pytest.mark.parametrize("library", ["OpenBLAS", "torch"])
def test_other_kernels_are_other_arms(library, monkeypatch, fresh_environment):
    # What a library chooses by itself, and says: machine/test_processors.py.
    found = []
    for chosen in ("one", "other"):
        arm_keys._environment.cache_clear()
        monkeypatch.setattr(arm_keys, "kernels", lambda: {library: chosen})  # noqa: B023
        found.append(key(arm="learned", model=Surrogate("the same")))
    assert len(set(found)) == 2


@pytest.mark.parametrize("engine", ["torch", "onnxruntime"])
def test_an_engine_is_in_the_key_of_what_it_may_compute_only(monkeypatch, engine):
    surrogate = Surrogate("net")

    def keys():
        return key(model=surrogate), key()

    monkeypatch.setitem(sys.modules, engine, SimpleNamespace(__version__="1"))
    old = keys()
    monkeypatch.setitem(sys.modules, engine, SimpleNamespace(__version__="2"))
    new = keys()
    assert old[0] != new[0]
    assert old[1] == new[1]


@pytest.mark.parametrize(
    "room", ["contracts", "episodes", "machine", "planners", "tasks", "world_models"]
)
def test_a_change_in_a_room_that_an_episode_runs_through_changes_the_source_digest(tmp_path, room):
    package = Path(pytest_cpg.__file__).parent
    copy = tmp_path / "pytest_cpg"
    copytree(package, copy, ignore=ignore_patterns("__pycache__"))
    before = arm_keys._source_digest(copy)
    for path in (copy / room).rglob("*.py"):
        path.write_bytes(path.read_bytes() + b"\n# changed\n")
        assert arm_keys._source_digest(copy) != before, path


@pytest.mark.parametrize(
    ("components", "clause"),
    [
        ({"task": unkeyed(Field())}, "task 'field' has no cache_key"),
        ({"task": Field(cache_key="")}, "task 'field' has no cache_key"),
        ({"task": Field(cache_key=3)}, "task 'field' has no cache_key"),
        ({"planner": unkeyed(Sure())}, "planner 'sure' has no cache_key"),
        ({"planner": Forks()}, "planner 'random-shooting' has no cache_key"),
        ({"planner": Disguised()}, "planner 'random-shooting' has no cache_key"),
        (
            {"task": NearlyMaze(name="maze", layout=MAZE.layout, budget=9)},
            "task 'maze' has no cache_key",
        ),
        ({"task": replace(MAZE, name=abs)}, f"task {str(abs)!r} has no cache_key"),
        (
            {"task": Field(actions=SimpleNamespace(size=1))},
            "the action space of task 'field' has no cache_key",
        ),
        ({"model": Surrogate(None)}, "model 'Surrogate object' has no cache_key"),
        ({"model": OracleDynamics(unkeyed(Field()))}, "model 'OracleDynamics object' has no"),
        # Ours, but it holds functions.
        ({"model": formulas_of("acrobot-swingup")}, "model 'Formulas object' has no cache_key"),
        ({"model": Field}, "model 'Field' has no cache_key"),
        ({"model": np.array([None])}, "model 'ndarray object' has no cache_key"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_key_is_named_and_not_kept(components, clause):
    with pytest.raises(UnkeyedError, match=f"^{re.escape(clause)}"):
        key(**components)


def test_a_subclass_of_our_keyed_class_needs_a_key_of_its_own(monkeypatch):
    monkeypatch.setattr(GridTask, "cache_key", property(lambda self: "ours"), raising=False)
    near = NearlyMaze(name="maze", layout=MAZE.layout, budget=9)
    assert key() is not None
    with pytest.raises(UnkeyedError, match="task 'maze' has no cache_key"):
        key(task=near)
    monkeypatch.setattr(NearlyMaze, "cache_key", "near 1", raising=False)
    assert key(task=near) is not None


class Harder:
    """A task around another one, whose success is not the other's."""

    def __init__(self, task):
        self._task = task

    def __getattr__(self, name):
        return getattr(self._task, name)


class Keyed(Harder):
    """A user's task with a key of its class."""

    cache_key = "keyed 1"


class Steeper(Keyed):
    """A user's task that inherits another one's key."""


@pytest.mark.parametrize("task", [Harder(Field()), Steeper(Field())])
def test_a_key_that_is_passed_on_or_inherited_is_not_this_ones(task):
    assert key(task=Keyed(Field())) is not None
    assert task.cache_key
    with pytest.raises(UnkeyedError):
        key(task=task)

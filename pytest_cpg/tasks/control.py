"""Control: tasks of the DeepMind Control suite, with exact batched physics.

dm_control compiles the model and samples the starts; `Simulator` advances them, and `Formulas` says
what is observed and rewarded.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_cpg.contracts import (
    SHARERS,
    BoolArray,
    ComponentError,
    FiniteActions,
    FloatArray,
    IntArray,
)
from pytest_cpg.tasks.formulas import ACROBOT, CARTPOLE, REACHER, Formulas
from pytest_cpg.tasks.pictures import Frames, draw_control

if TYPE_CHECKING:
    from pytest_cpg.tasks.simulator import Simulator


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ControlTask:
    """A task of the DeepMind Control suite; see `Task`.

    Attributes
    ----------
    simulator : Simulator
        The true dynamics.
    suite : Suite
        Where starts come from.
    formulas : Formulas
        What is observed and rewarded.
    budget : int
        Steps after which an episode has failed.
    control_period : float
        Seconds of simulated time per step.
    versions : mapping
        Of mujoco and dm-control.
    """

    simulator: Simulator = field(repr=False)
    suite: Suite = field(repr=False)
    formulas: Formulas = field(repr=False)
    name: str
    actions: FiniteActions
    budget: int
    control_period: float
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise ValueError(f"budget must be at least 1 step, got {self.budget!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Send what the task is built from; a simulator is large, and belongs to its process."""
        if self.cache_key is None:
            raise TypeError(f"{self.name} has formulas of its own, and cannot be built elsewhere")
        own = {name: getattr(self, name) for name in _SENT}
        formulas = self.formulas
        return _rebuilt, (formulas.domain, formulas.name, self.cache_key, dict(self.versions), own)

    @property
    def cache_key(self) -> str | None:
        """What tells the task's arms from another's; None where the formulas are not ours.

        Starts are not in it: stored arms know theirs.
        """
        if not any(self.formulas is own for own in (ACROBOT, CARTPOLE, REACHER)):
            return None
        return f"{self.formulas.domain} {self.formulas.name} {self.simulator.model_digest()}"

    @property
    def observation_size(self) -> int:
        """Numbers in one observation, ``O``."""
        return self.formulas.observation_size

    @property
    def measured(self) -> IntArray:
        """Columns of a state that noise may be added to: positions and velocities."""
        return self.simulator.measured

    def with_physics(self, **scales: float) -> ControlTask:
        """Return the task with mass, friction or gravity times a factor, and the same starts."""
        return replace(self, simulator=self.simulator.scaled(**scales))

    def reset(self, seeds: IntArray) -> FloatArray:
        """Sample the suite's own start of each seed [N], in [0, 2**32): states [N, S]."""
        return self.suite.starts(seeds, self.formulas.context)

    def step(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, A] to next states; see `Task.step`."""
        return self.simulator.step(states, actions)

    def rollout(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Map states [B, S] and actions [B, H, A] to states [B, H, S]; see `Task.rollout`."""
        return self.simulator.rollout(states, actions)

    def observe(self, states: FloatArray) -> FloatArray:
        """Map states [..., S] to observations [..., O], in the order of dm_control's dict."""
        return self.formulas.observe(states)

    def score(self, observations: FloatArray) -> FloatArray:
        """Rate observations [..., O] by distance to the goal [...]; lower is better."""
        return self.formulas.score(observations)

    def reward(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Give dm_control's reward [...], in [0, 1], of steps that ended in states [..., S]."""
        return self.formulas.reward(states, actions)

    def success(self, states: FloatArray, actions: FloatArray) -> BoolArray:
        """Say whether the reward [...] reaches the task's threshold."""
        return np.asarray(self.reward(states, actions) >= self.formulas.threshold)

    def render(self, states: FloatArray) -> Frames:
        """Draw states [B, S] as the suite's first camera sees them: frames [B, H, W, 3]."""
        return draw_control(self.suite.model, states)


class Suite:
    """One environment of the suite, used for the starts it samples."""

    def __init__(self, domain: str, name: str) -> None:
        self._random = np.random.RandomState(0)
        self._lock = threading.Lock()
        with _named_errors():
            _import_without_display()
            suite = importlib.import_module("dm_control.suite")
            self._environment = suite.load(domain, name, task_kwargs={"random": self._random})
            module = importlib.import_module(f"dm_control.suite.{domain}")
            xml, self.includes = module.get_model_and_assets()
            self.xml = xml if isinstance(xml, str) else xml.decode()

    @property
    def model(self) -> Any:
        """The compiled MuJoCo model."""
        return self._environment.physics.model.ptr

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step."""
        return float(self._environment.control_timestep())

    def starts(self, seeds: IntArray, context: Callable[[Any], FloatArray]) -> FloatArray:
        """Return one start [S] per seed [N], as a fresh environment with that seed would."""
        from pytest_cpg.tasks.simulator import snapshot

        rows = []
        with self._lock:
            physics = self._environment.physics
            for seed in seeds:
                self._random.seed(int(seed))
                self._environment.reset()
                state = snapshot(physics.model.ptr, physics.data.ptr)
                rows.append(np.concatenate([state, context(physics)]))
        return np.stack(rows)


def acrobot_swingup(*, budget: int = 500, threads: int | None = None) -> ControlTask:
    """Return acrobot-swingup: two links, one motor at the elbow, to be stood upright."""
    return _control_task(ACROBOT, budget=budget, threads=threads)


def cartpole_swingup(*, budget: int = 500, threads: int | None = None) -> ControlTask:
    """Return cartpole-swingup: a pole on a cart, to be swung up and kept near the middle."""
    return _control_task(CARTPOLE, budget=budget, threads=threads)


def reacher_easy(*, budget: int = 500, threads: int | None = None) -> ControlTask:
    """Return reacher-easy: a two-link arm in the plane, to touch a target that stays in place."""
    return _control_task(REACHER, budget=budget, threads=threads)


def _control_task(formulas: Formulas, *, budget: int, threads: int | None) -> ControlTask:
    suite = Suite(formulas.domain, formulas.name)
    # Imported after the suite, whose errors say which extra is missing.
    from pytest_cpg.tasks.simulator import Simulator, strip_visuals

    model = strip_visuals(suite.model, suite.xml, suite.includes)
    return ControlTask(
        name=f"{formulas.domain}-{formulas.name}",
        actions=FiniteActions(np.array(list(product(formulas.levels, repeat=model.nu)))),
        budget=budget,
        control_period=suite.control_period,
        versions=MappingProxyType(_versions()),
        formulas=formulas,
        simulator=Simulator(model, threads=_own_share() if threads is None else threads),
        suite=suite,
    )


# Fields of a task that can be given other values; the rest is built where it is received.
_SENT = ("name", "actions", "budget", "control_period")


def _rebuilt(
    domain: str, name: str, key: str, versions: Mapping[str, str], own: Mapping[str, Any]
) -> ControlTask:
    """Return a task that another process has sent, or raise ComponentError if it is another."""
    task = _built_once(domain, name)
    if task.cache_key != key or task.versions != versions:
        raise ComponentError(
            f"{domain}-{name} is not the same here as where it was sent from: there "
            f"{_named_versions(versions)}, here {_named_versions(task.versions)}. Install the same "
            f"versions on every machine."
        )
    return replace(task, **own)


@cache
def _built_once(domain: str, name: str) -> ControlTask:
    """Return one task of a process: its simulator takes a while to build."""
    formulas = {(one.domain, one.name): one for one in (ACROBOT, CARTPOLE, REACHER)}
    return _control_task(formulas[domain, name], budget=500, threads=None)


def _named_versions(versions: Mapping[str, str]) -> str:
    return " with ".join(f"{package} {found}" for package, found in versions.items())


def _own_share() -> int:
    """Return how many threads this process may keep busy, next to others that share the work."""
    if hasattr(os, "sched_getaffinity"):
        processors = len(os.sched_getaffinity(0))
    else:
        processors = os.cpu_count() or 1
    others = os.environ.get(SHARERS) or os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return max(1, processors // int(others))


def _versions() -> dict[str, str]:
    return {package: _version(package) for package in ("mujoco", "dm-control")}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


@contextmanager
def _named_errors() -> Iterator[None]:
    """Say in one line which package is missing, or which two do not fit each other."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in {"dm_control", "mujoco"}:
            raise _mismatch(error) from error
        raise ComponentError(
            f"the control tasks need {error.name}, which is not installed. "
            f'Type: pip install "pytest-cpg[control]"'
        ) from error
    # Versions that do not fit fail in any way; each becomes the one error that says so.
    except Exception as error:
        raise _mismatch(error) from error


def _mismatch(error: Exception) -> ComponentError:
    found = _versions()
    return ComponentError(
        f"dm-control {found['dm-control']} does not work with mujoco {found['mujoco']} "
        f"({type(error).__name__}: {' '.join(str(error).split())}). "
        f'Type: pip install "dm-control>=1.0.50,<1.1" "mujoco>=3.17,<4"'
    )


def _import_without_display() -> None:
    """Keep dm_control from opening a display when it is imported; later rendering still can.

    Its import looks for OpenGL, which takes half a second and changes the environment. A display is
    looked for when something is first rendered instead.
    """
    importlib.import_module("mujoco")
    before = os.environ.get("MUJOCO_GL")
    os.environ["MUJOCO_GL"] = "disable"
    try:
        rendering: Any = importlib.import_module("dm_control._render")
    finally:
        if before is None:
            del os.environ["MUJOCO_GL"]
        else:
            os.environ["MUJOCO_GL"] = before
    if rendering.BACKEND == "off":
        rendering.Renderer = lambda *args, **kwargs: importlib.reload(rendering).Renderer(
            *args, **kwargs
        )

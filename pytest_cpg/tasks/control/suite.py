"""Suite: environments of the DeepMind Control suite, as dm_control makes them."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.lookup import unknown_name
from pytest_cpg.tasks.control.formulas import titled

# Of a control step, but for LQR's, which has no bounds of actions (Tassa et al. 2018).
LARGEST_REWARD = 1.0


class Suite:
    """One environment of the suite, used for the starts it samples."""

    def __init__(self, domain: str, name: str) -> None:
        self.domain, self.name = domain, name
        self._random = np.random.RandomState(0)
        self._lock = threading.RLock()
        with _named_errors():
            _import_without_display()
            suite = importlib.import_module("dm_control.suite")
            self._environment = suite.load(domain, name, task_kwargs={"random": self._random})
            self._domain = importlib.import_module(f"dm_control.suite.{domain}")

    def source(self) -> tuple[str, Mapping[str, bytes]]:
        """Return the model's XML and the files that it includes, by name.

        Those domains have one whose model does not depend on the task.
        """
        xml, includes = self._domain.get_model_and_assets()
        return (xml if isinstance(xml, str) else xml.decode()), includes

    @property
    def model(self) -> Any:
        """The compiled MuJoCo model."""
        return self._environment.physics.model.ptr

    @property
    def control_period(self) -> float:
        """Seconds of simulated time per step."""
        return float(self._environment.control_timestep())

    @property
    def substeps(self) -> int:
        """Time steps of the model in one control step."""
        return round(self.control_period / float(self.model.opt.timestep))

    @cached_property
    def observation_keys(self) -> Mapping[str, int]:
        """How many numbers each observation has, in the order of dm_control's dict."""
        with self.begun(0) as environment:
            observed = environment.task.get_observation(environment.physics)
        return {name: int(np.size(values)) for name, values in observed.items()}

    @contextmanager
    def begun(self, seed: int) -> Iterator[Any]:
        """Lend dm_control's environment, at the start of the episode of a seed."""
        with self.lent() as environment:
            self._random.seed(seed)
            environment.reset()
            yield environment

    @contextmanager
    def lent(self) -> Iterator[Any]:
        """Lend dm_control's environment, to one thread at a time."""
        with self._lock:
            yield self._environment


def suite_parts(name: str) -> tuple[str, str]:
    """Return domain and task of a name, whichever of ``-`` and ``_`` its words are joined by.

    Raises ComponentError when the suite has no such task, or is not installed.
    """
    with _named_errors():
        _import_without_display()
        tasks = importlib.import_module("dm_control.suite").ALL_TASKS
    for domain, task in tasks:
        if titled(domain, task) == name.replace("_", "-"):
            return domain, task
    names = [f"{domain}-{task}" for domain, task in tasks]
    raise unknown_name("DeepMind Control task", "dmc:", name, names)


def suite_versions() -> dict[str, str]:
    """Return the versions of the suite's packages, by name."""
    versions = dict.fromkeys(("mujoco", "dm-control"), "unknown")
    for package in versions:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


@contextmanager
def _named_errors() -> Iterator[None]:
    """Say in one line which package is missing, or which two do not fit each other."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in {"dm_control", "mujoco"}:
            raise _unusable(error) from error
        raise ComponentError(
            f"the control tasks need {error.name}, which is not installed. "
            f'Type: pip install "pytest-cpg[control]"'
        ) from error
    # Versions that do not fit fail in any way; each becomes the one error that says so.
    except Exception as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> ComponentError:
    """Return the error for packages that are there, and fail."""
    cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
    renderer = os.environ.get("MUJOCO_GL")
    # Its import opens the OpenGL that is asked for; without that, none is needed.
    if renderer and "mujoco" not in sys.modules:
        return ComponentError(
            f"mujoco cannot be imported with MUJOCO_GL={renderer} ({cause}). Gates need no OpenGL. "
            f"Type: unset MUJOCO_GL. To film, set it to what this machine has: egl, osmesa or glfw."
        )
    versions = suite_versions()
    return ComponentError(
        f"dm-control {versions['dm-control']} does not work with mujoco {versions['mujoco']} "
        f'({cause}). Type: pip install "dm-control>=1.0.50,<1.1" "mujoco>=3.17,<4"'
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

"""Arm key: all that decides the episodes of an arm, in 64 digits."""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from pytest_cpg.contracts import Planner, Task
from pytest_cpg.contracts.parts import CacheKey, has
from pytest_cpg.contracts.task import LeastReturn
from pytest_cpg.episodes.design import Design
from pytest_cpg.machine.fingerprint import fingerprint
from pytest_cpg.machine.processors import kernels
from pytest_cpg.planners import Chance
from pytest_cpg.world_models import OracleDynamics
from pytest_cpg.world_models.binding.conventions import describe

# What an episode runs through, and what it is kept by.
_ROOMS = ("contracts", "episodes", "machine", "planners", "tasks", "world_models")
_ENGINES = ("torch", "onnxruntime")


class UnkeyedError(Exception):
    """Something whose definition is not known; the message says what, in one clause."""


def arm_key(name: str, design: Design, model: Any, *, by_content: bool = False) -> str:
    """Return 64 hexadecimal digits that tell apart arms whose episodes may differ.

    What defines the package's own tasks and planners is their source and their fields. Those of
    users have an attribute ``cache_key``: a text that is changed with whatever the component does.
    Raises UnkeyedError where something has no key. Number and starts of the episodes are not in
    the key: stored arms know these. `Chance` asks no model. With ``by_content`` a model without a
    key, which is not yet bound, is told from others by its `fingerprint`.
    """
    values = _components(design.task, design.planner, model, by_content=by_content)
    perturbation = "none" if design.perturbation is None else design.perturbation.name
    values.update(arm=name, seed=int(design.seed), starts=design.starts, metric=design.metric)
    values.update(perturbation=perturbation)
    return digest_of({**values, "environment": _environment()})


def model_key(model: Any, **question: str | int) -> str | None:
    """Return what tells apart the answers of models; None where the content of one is not read."""
    try:
        values = {**question, "model": _computing(model, by_content=True)}
    except UnkeyedError:
        return None
    return digest_of({**values, "environment": _environment()})


def digest_of(values: dict[str, Any]) -> str:
    """Return 64 hexadecimal digits of JSON values."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _components(task: Task, planner: Planner, model: Any, *, by_content: bool) -> dict[str, Any]:
    """Return what is known of the components, or raise UnkeyedError."""
    what = f"task {str(task.name)!r}"
    goal = float(task.least_return) if has(task, LeastReturn) else None
    values = {
        "task": _definition(what, task),
        "facts": [str(task.name), int(task.budget), float(task.control_period), goal],
        "actions": _definition(f"the action space of {what}", task.actions),
        "versions": {str(name): str(release) for name, release in task.versions.items()},
        "planner": _definition(f"planner {str(planner.name)!r}", planner),
        "horizon": int(planner.horizon),
    }
    if type(planner) is not Chance and not (type(model) is OracleDynamics and model.task is task):
        values["model"] = _computing(model, by_content=by_content)
    return values


def _computing(model: Any, *, by_content: bool) -> list[Any]:
    """Return what a model is and computes with, or raise UnkeyedError."""
    # What is not loaded has no part in it.
    engines = [str(getattr(sys.modules.get(name), "__version__", "")) for name in _ENGINES]
    chosen = kernels().get("torch", "")
    return [_model_definition(model, by_content=by_content), *engines, chosen]


def _definition(what: str, value: Any) -> Any:
    """Return JSON values that are others for whatever differs, or raise UnkeyedError."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (list, tuple):
        return [kind.__name__, *(_definition(what, item) for item in value)]
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufcU":
        return ["array", value.dtype.str, list(value.shape), value.tobytes().hex()]
    key, settings = _explicit_key(value), {}
    if isinstance(value, type) or (key is None and not (_is_own(kind) and is_dataclass(value))):
        raise UnkeyedError(f"{what} has no cache_key")
    for field in fields(value) if is_dataclass(value) else ():
        # Settings are told apart even if the key forgets them; what cannot be, it stands for.
        with suppress(*[UnkeyedError] if key else []):
            settings[field.name] = (
                _definition(what, getattr(value, field.name)) if field.init else 0
            )
    return [f"{kind.__module__}.{kind.__qualname__}", key, settings]


def _model_definition(model: Any, *, by_content: bool) -> Any:
    what = f"model {describe(model)}"
    try:
        return _definition(what, model)
    except UnkeyedError:
        if not by_content:
            raise
    try:
        return ["content", fingerprint(model)]
    except ValueError as error:
        raise UnkeyedError(f"{what} has no cache_key, and {error}") from None


def _explicit_key(value: Any) -> str | None:
    """Return the key that a component or its very class defines; others are of something else."""
    kind = type(value)
    if not any("cache_key" in names for names in (vars(kind), getattr(value, "__dict__", {}))):
        return None
    key: Any = value.cache_key if has(value, CacheKey) else None
    return key if isinstance(key, str) and key else None


def _is_own(kind: type) -> bool:
    """Say whether a class is one of this package's, whose source is in the key."""
    module, name = kind.__module__, kind.__qualname__
    return module.startswith("pytest_cpg.") and getattr(sys.modules.get(module), name, None) is kind


@cache
def _environment() -> dict[str, Any]:
    """Return what else decides the bits of an episode: our source, libraries and the processor."""
    return {
        "pytest-cpg": version("pytest-cpg"),
        "source": _source_digest(Path(__file__).parents[1]),
        "numpy": np.__version__,
        # Planners draw through its normal distribution.
        "scipy": version("scipy"),
        # Numpy's sines and sums are other code on other processors; the rest are the C library's.
        "openblas": kernels().get("OpenBLAS", ""),
        "simd": (np.show_config(mode="dicts") or {}).get("SIMD Extensions"),
        "libc": "".join(platform.libc_ver()) or platform.version(),
        "machine": [sys.platform, platform.machine()],
        # Sums of floats round otherwise since 3.12.
        "python": sys.version_info[:2],
    }


def _source_digest(package: Path) -> str:
    paths = [path for room in _ROOMS for path in (package / room).rglob("*.py")]
    return digest_of({str(path.relative_to(package)): path.read_bytes().hex() for path in paths})

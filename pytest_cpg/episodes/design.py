"""Design: everything but the dynamics, which is what all arms of a gate share."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from pytest_cpg.contracts import Planner, Task
from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes.arm import Metric
from pytest_cpg.episodes.perturbations import Perturbation

StartMode: TypeAlias = Literal["sampled", "fixed"]
T = TypeVar("T")
# In the repr of a planner that has none of its own: where it lay in memory.
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRecord:
    """A design as reports and files hold it: what two results must share to be compared.

    Not in it are the seed, with which episode ``i`` has one start, and what decides only how many
    episodes are run, and how they are judged. Horizon and budget are in steps, the control period
    in seconds of simulated time; an empty perturbation is none.
    """

    task: str
    planner: str
    starts: StartMode
    budget: int
    horizon: int
    control_period: float
    versions: Mapping[str, str]
    metric: Metric = "success"
    perturbation: str = ""

    def __post_init__(self) -> None:
        if self.budget < 1:
            raise ValueError(f"need a budget of at least 1 step, got {self.budget!r}")

    @property
    def key(self) -> dict[str, Any]:
        """All of it as plain values: the same for the same design in any process and release."""
        values: dict[str, Any] = encode(self)
        values["planner"] = _ADDRESS.sub("", self.planner)
        if not self.perturbation:
            del values["perturbation"]
        return values

    @property
    def short_hash(self) -> str:
        """Twelve hexadecimal digits that tell designs apart."""
        text = json.dumps(self.key, sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def changes(self, now: DesignRecord) -> list[str]:
        """Return one clause, ``"what old -> new"``, for each difference."""
        old, new = ({"perturbation": "", **record.key} for record in (self, now))
        before, after = old.pop("versions"), new.pop("versions")
        pairs = [(name.replace("_", " "), old[name], new[name]) for name in old]
        pairs += [
            (package, before.get(package, "none"), after.get(package, "none"))
            for package in sorted({*before, *after})
        ]
        return [
            f"{name} {then or 'none'} -> {today or 'none'}"
            for name, then, today in pairs
            if then != today
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Everything but the dynamics: what all arms of a gate share.

    Starts are from the task's own distribution, or all from one state; ``level`` is the coverage of
    the intervals. Episodes judged by their return go on after a success. What goes wrong in the
    real steps of every arm is the perturbation.
    """

    task: Task
    planner: Planner
    episodes: int
    seed: int
    starts: StartMode = "sampled"
    level: float = 0.95
    metric: Metric = "success"
    perturbation: Perturbation | None = None

    @property
    def record(self) -> DesignRecord:
        """What it is, in plain values: a user's task may give numpy's, which JSON does not know."""
        return DesignRecord(
            task=str(self.task.name),
            planner=repr(self.planner),
            starts=self.starts,
            metric=self.metric,
            budget=int(self.task.budget),
            horizon=int(self.planner.horizon),
            control_period=float(self.task.control_period),
            versions={str(name): str(version) for name, version in self.task.versions.items()},
            perturbation="" if self.perturbation is None else self.perturbation.name,
        )


def replaced(kind: str, component: T, name: str, value: Any) -> T:
    """Return a component with one field changed, or raise ValueError when it cannot be."""
    if value is None or getattr(component, name, None) == value:
        return component
    if is_dataclass(component) and name in {field.name for field in fields(component)}:
        return replace(component, **{name: value})  # type: ignore[type-var]  # checked above
    raise ValueError(f"{name}: set it on the {kind} itself, {component!r} cannot be changed")

"""Design: everything but the dynamics, which is what all arms of a gate share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from pytest_cpg.contracts import Planner, Task
from pytest_cpg.episodes.arm import Metric
from pytest_cpg.episodes.perturbations import Perturbation

StartMode: TypeAlias = Literal["sampled", "fixed"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRecord:
    """A design as reports and files hold it.

    Attributes
    ----------
    task, planner : str
        The task's name, and the planner with all its settings.
    starts : "sampled" or "fixed"
    metric : "success" or "return"
    seed, budget, horizon : int
        Of starts and planner noise; steps an episode may take, and a plan looks ahead.
    control_period : float
        Seconds of simulated time per step.
    versions : mapping
        Package name to version, of what simulates.
    perturbation : str
        The name of what goes wrong in real steps; empty for nothing.
    """

    task: str
    planner: str
    starts: StartMode
    metric: Metric
    seed: int
    budget: int
    horizon: int
    control_period: float
    versions: Mapping[str, str]
    perturbation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Everything but the dynamics: what all arms of a gate share.

    Attributes
    ----------
    episodes : int
        Episodes per arm.
    seed : int
        Decides starts and planner noise.
    starts : "sampled" or "fixed"
        From the task's own distribution, or all from one state.
    level : float
        Coverage of the intervals, in (0, 1).
    metric : "success" or "return"
        What an episode is for. Episodes judged by their return go on after a success.
    oracle_episodes : int or None
        Episodes of the oracle arm when it has more than the others.
    perturbation : Perturbation or None
        What goes wrong in the real steps of every arm.
    """

    task: Task
    planner: Planner
    episodes: int
    seed: int
    starts: StartMode = "sampled"
    level: float = 0.95
    metric: Metric = "success"
    oracle_episodes: int | None = None
    perturbation: Perturbation | None = None

    @property
    def record(self) -> DesignRecord:
        """What it is, in plain values: a user's task may give numpy's, which JSON does not know."""
        return DesignRecord(
            task=str(self.task.name),
            planner=repr(self.planner),
            starts=self.starts,
            metric=self.metric,
            seed=int(self.seed),
            budget=int(self.task.budget),
            horizon=int(self.planner.horizon),
            control_period=float(self.task.control_period),
            versions={str(name): str(found) for name, found in self.task.versions.items()},
            perturbation="" if self.perturbation is None else self.perturbation.name,
        )

    @property
    def longest_arm(self) -> int:
        """Episodes of the arm that has most of them."""
        return max(self.episodes, self.oracle_episodes or 0)


def replaced(kind: str, component: T, name: str, value: Any) -> T:
    """Return a component with one field changed, when there is a change to make.

    Raises
    ------
    ValueError
        When it cannot be changed.
    """
    if value is None or getattr(component, name, None) == value:
        return component
    if is_dataclass(component) and name in {field.name for field in fields(component)}:
        return replace(component, **{name: value})  # type: ignore[type-var]  # checked above
    raise ValueError(f"{name}: set it on the {kind} itself, {component!r} cannot be changed")

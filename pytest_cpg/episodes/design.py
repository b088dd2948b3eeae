"""Design: everything but the dynamics, which is what both arms of a gate share."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from pytest_cpg.contracts import Planner, Task
from pytest_cpg.episodes.arm import Metric
from pytest_cpg.episodes.perturbations import Perturbation
from pytest_cpg.gates.planning_gap.stopping import StopMode, StoppingRule, stopping_rule

StartMode: TypeAlias = Literal["sampled", "fixed"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Everything but the dynamics: what both arms of a gate share.

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
    tolerance : float
        How near to 0 or 1 a rate counts as such, in [0, 0.5].
    min_oracle : float or None
        Oracle success rate below which the planner is the bottleneck, whatever the interval of the
        gap says; the oracle's own interval has to end below it.
    interval : str
        What bounds the gap of a fixed number of episodes: "agresti-caffo" or a paired method.
    margin : float or None
        The largest gap that is no loss: in (0, 1), or above 0 in units of return.
    metric : "success" or "return"
        Which gap is judged. Episodes judged by their return go on after a success.
    stop : "fixed", "sequential" or "anytime"
        Run all episodes, or stop at the first look that settles the verdict.
    oracle_episodes : int or None
        Episodes of the oracle arm when it has more than the others.
    family_size : int
        Gates that share one error rate: the level of the gap's interval is the stricter for it.
    group : str
        The recipe that this model is one checkpoint of; empty for none.
    perturbation : Perturbation or None
        What goes wrong in the real steps of every arm.
    is_aa : bool
        Whether this is the A/A check: the oracle in both arms, so that no model is judged.
    is_smoke : bool
        Whether this is to show that everything runs, and nothing else.
    """

    task: Task
    planner: Planner
    episodes: int
    seed: int
    starts: StartMode
    level: float
    tolerance: float
    min_oracle: float | None = None
    interval: str = "agresti-caffo"
    margin: float | None = None
    metric: Metric = "success"
    stop: StopMode = "fixed"
    oracle_episodes: int | None = None
    family_size: int = 1
    group: str = ""
    perturbation: Perturbation | None = None
    is_aa: bool = False
    is_smoke: bool = False

    @property
    def gap_level(self) -> float:
        """Coverage of the gap's interval: Bonferroni's share of the family's error."""
        return 1 - (1 - self.level) / self.family_size

    @property
    def method(self) -> str:
        """What bounds the gap in the end: rules that may stop early have an interval of their own.

        For those it is the fixed-size method that theirs comes from.
        """
        if self.stop == "fixed":
            return self.interval
        return "bonett-price" if self.margin is None else "tango"

    @property
    def rule(self) -> StoppingRule:
        """When outcomes are looked at."""
        return stopping_rule(
            self.stop,
            episodes=self.episodes,
            method=self.interval,
            level=self.gap_level,
            margin=self.margin,
        )


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

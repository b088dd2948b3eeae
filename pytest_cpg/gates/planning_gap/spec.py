"""Spec: what a test asks of its planning gap, checked and complete."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_cpg.contracts import Task
from pytest_cpg.episodes.arm import Metric
from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.arguments import between
from pytest_cpg.gates.as_trained import as_trained
from pytest_cpg.gates.choices import task_and_planner
from pytest_cpg.gates.kind import Asked, TaskChoice
from pytest_cpg.gates.planning_gap.criteria import Criteria
from pytest_cpg.gates.planning_gap.result import GateResult
from pytest_cpg.gates.planning_gap.sizes import Sizes, interval_of, sizes_of
from pytest_cpg.gates.planning_gap.stopping import StopMode
from pytest_cpg.gates.presets import completed
from pytest_cpg.stats import Verdict
from pytest_cpg.world_models import AA_MODEL

_SMOKE_EPISODES = 2
# Verdicts that something is to be done about.
_DIAGNOSED = (Verdict.MODEL_BOTTLENECK, Verdict.PLANNER_BOTTLENECK)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One test's planning gap.

    Attributes
    ----------
    design : callable
        Returns what all arms share, of the task once it is built.
    diagnosed : str
        As --cpg-diagnose.
    """

    task: TaskChoice
    design: Callable[[Task], Design]
    criteria: Criteria
    diagnosed: str

    def planned(self, task: Task, model: Any) -> Design:
        """Return what all arms share, planned as the model says where that is left to it."""
        return as_trained(self.design(task), model)

    def is_diagnosed(self, result: GateResult) -> bool:
        """Say whether a result is asked why it is as it is."""
        if result.is_smoke or result.is_aa or self.diagnosed == "never":
            return False
        return self.diagnosed == "always" or result.verdict in _DIAGNOSED


def spec_of(asked: Asked) -> Spec:
    """Return what a test asks for.

    Raises ValueError or ComponentError, naming the value and what to type instead.
    """
    values = completed(dict(asked.values))
    task, planner = task_and_planner(values, asked.components)
    metric: Metric = values["metric"]
    if metric == "return":
        _check_returns(asked)
    elif task.name.startswith("gym:") and task.name == values["task"]:
        _check_goal(values)
    if values["threshold"] is not None and values["least_return"] is not None:
        raise ValueError(
            "threshold= says which step succeeds, and least_return= which episode does. Leave one "
            "of them out of this marker."
        )
    margin = _margin(values["margin"], metric)
    has_margin = margin is not None and metric == "success"
    interval = interval_of(
        "auto" if metric == "return" else values["interval"],
        asked.family_size,
        has_margin=has_margin,
    )
    stop: StopMode = "fixed" if metric == "return" else values["stop"]
    sizes = sizes_of(
        asked,
        stop=stop,
        metric=metric,
        level=asked.shared(values["confidence"]),
        interval=interval,
        has_margin=has_margin,
    )
    if asked.is_smoke:
        stop, sizes = "fixed", Sizes(_SMOKE_EPISODES)
    shared = partial(
        Design,
        planner=planner,
        episodes=sizes.episodes,
        seed=values["seed"],
        starts=values["starts"],
        level=values["confidence"],
        metric=metric,
        oracle_episodes=sizes.oracle_episodes,
        perturbation=values["perturbation"],
    )
    criteria = Criteria(
        tolerance=values["tolerance"],
        min_oracle=values["min_oracle"],
        interval=interval,
        margin=margin,
        stop=stop,
        family_size=asked.family_size,
        group=values["group"],
        is_aa=values["model"] == AA_MODEL,
        is_smoke=asked.is_smoke,
    )
    return Spec(
        task=task,
        design=lambda built: shared(task=built),
        criteria=criteria,
        diagnosed=asked.options["diagnose"],
    )


def _margin(given: Any, metric: Metric) -> float | None:
    if given is None:
        return None
    try:
        return between(0, 1 if metric == "success" else float("inf"))(given)
    except ArgumentTypeError as error:
        raise ValueError(f"margin: {error}") from None


def _check_goal(values: Mapping[str, Any]) -> None:
    """Refuse an environment that nothing tells when an episode of it has succeeded."""
    if values["threshold"] is None and values["least_return"] is None:
        raise ValueError(
            f'task {values["task"]!r} has no goal of its own. Write metric="return", threshold= '
            f"with the reward of a step that succeeds, or least_return= with the return of such an "
            f"episode."
        )


def _check_returns(asked: Asked) -> None:
    """Refuse what a marker asks of returns in vain; what a session asks is for its other gates."""
    in_marker = {
        name: value for name, value in asked.values.items() if asked.sources[name] == "marker"
    }
    if asked.values["least_return"] is not None:
        raise ValueError(
            'least_return= says which returns are a success, and metric="return" compares the '
            "returns themselves. Leave one of them out of this marker."
        )
    if in_marker.get("stop", "fixed") != "fixed":
        raise ValueError(
            f'stop={in_marker["stop"]!r} looks at successes early, and metric="return" has no such '
            f"rule. Leave stop= out of this marker."
        )
    if in_marker.get("interval", "auto") != "auto":
        raise ValueError(
            f'interval={in_marker["interval"]!r} bounds success rates: metric="return" has its own '
            f"interval (t, on paired differences). Leave interval= out of this marker."
        )

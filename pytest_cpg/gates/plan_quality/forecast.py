"""Forecast: what a gate on plans could tell, before any episode is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cpg.contracts import Task
from pytest_cpg.gates.kept import read_cost
from pytest_cpg.gates.kind import ForecastLine
from pytest_cpg.gates.notation import duration
from pytest_cpg.gates.plan_quality.compare import KeptPlans
from pytest_cpg.gates.plan_quality.result import PlanQualityResult
from pytest_cpg.gates.plan_quality.spec import FEWEST_EPISODES, Spec
from pytest_cpg.stats.student import student_critical_value

# Of an episode's exploitation, where nothing is known: episodes of constructed faults have less.
_ASSUMED_DEVIATION = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the last run took."""

    seconds_per_episode: float

    def __post_init__(self) -> None:
        if self.seconds_per_episode < 0:
            raise ValueError(f"no such cost: {self}")


def cost_of(result: PlanQualityResult) -> Cost:
    """Return what a forecast needs to know of the last run."""
    return Cost(seconds_per_episode=result.seconds / result.episodes)


def forecast_of(
    spec: Spec, task: Task, *, cost: Mapping[str, Any] | None, accepted: KeptPlans | None
) -> ForecastLine:
    """Return how sure the exploitation will be, and what it costs."""
    count, known = spec.design(task).episodes, read_cost(Cost, cost)
    is_known = accepted is not None and len(accepted.worlds) >= FEWEST_EPISODES
    deviation = _ASSUMED_DEVIATION
    if accepted is not None and is_known:
        deviation = float(accepted.exploitation.values.std(ddof=1))
    seconds = None if known is None else known.seconds_per_episode * count
    half = student_critical_value(spec.criteria.level, freedom=count - 1) * deviation
    return ForecastLine(
        cells={
            "episodes": str(count),
            "neighbours": f"{spec.criteria.k} {spec.criteria.neighbours}",
            "exploitation": f"<={spec.criteria.max_exploitation:.2f}",
            "+-": f"{half / math.sqrt(count):.3f}{'?' * (not is_known)}",
            "time": duration(seconds),
        },
        seconds=seconds,
        notes=(
            "+-: half of Student's interval of the exploitation; few episodes may have a wider one",
            *([] if is_known else ["? deviation assumed: nothing was accepted yet"]),
        ),
    )

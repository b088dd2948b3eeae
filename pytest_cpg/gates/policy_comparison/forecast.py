"""Forecast: what a comparison of policies asks, before anything is imagined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_cpg.gates.kept import read_cost
from pytest_cpg.gates.kind import ForecastLine
from pytest_cpg.gates.notation import duration
from pytest_cpg.gates.policy_comparison.compare import KeptAnswers
from pytest_cpg.gates.policy_comparison.result import ComparisonResult
from pytest_cpg.gates.policy_comparison.spec import Spec
from pytest_cpg.stats import wilson_interval

_ASSUMED_LOSS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the last run took."""

    seconds: float

    def __post_init__(self) -> None:
        if self.seconds < 0:
            raise ValueError(f"no such cost: {self}")


def cost_of(result: ComparisonResult) -> Cost:
    """Return what a forecast needs to know of the last run."""
    return Cost(seconds=result.seconds)


def forecast_of(
    spec: Spec,
    task: None,  # noqa: ARG001
    *,
    cost: Mapping[str, Any] | None,
    accepted: KeptAnswers | None,
) -> ForecastLine:
    """Return the number of queries and steps, how sure the loss will be, and the last cost."""
    known = read_cost(Cost, cost)
    seconds = None if known is None else known.seconds
    count, steps = len(spec.queries), 2 * int(spec.queries.horizons.sum())
    loss = _ASSUMED_LOSS if accepted is None else accepted.wrong.count("1") / len(accepted.wrong)
    interval = wilson_interval(round(loss * count), count, level=spec.criteria.level)
    assumed = "?" * (accepted is None)
    return ForecastLine(
        cells={
            "queries": str(count),
            "steps": str(steps),
            "loss": f"{loss:.2f}{assumed}",
            "+-": f"{(interval.high - interval.low) / 2:.3f}",
            "time": duration(seconds),
        },
        notes=(
            "steps: imagined by each member of the ensemble; +-: half of the interval of the loss, "
            "if every query is from a start of its own",
            *(["? loss assumed: nothing was accepted yet"] if accepted is None else []),
        ),
        seconds=seconds,
    )

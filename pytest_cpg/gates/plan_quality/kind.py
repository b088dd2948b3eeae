"""Plan quality as a kind of gate.

Loaded with the first gate of its marker: whatever measures is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_cpg.gates import GATES
from pytest_cpg.gates.arguments import (
    OF_EPISODES,
    REQUIRED,
    Argument,
    as_given,
    between,
    of_option,
    one_of,
    whole,
)

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task
    from pytest_cpg.gates.card import Card, Ruling, Severity
    from pytest_cpg.gates.drift import Drift
    from pytest_cpg.gates.kind import Alarm, Asked, ForecastLine, MaxVerdict, Run
    from pytest_cpg.gates.plan_quality.compare import KeptPlans
    from pytest_cpg.gates.plan_quality.result import PlanQualityResult
    from pytest_cpg.gates.plan_quality.spec import Spec


_share = between(0, 1)
_KNOWN = GATES["cpg_plan_quality"]


class PlanQuality:
    """Whether plans that a learned model likes are as good in truth."""

    marker, fixture, help = _KNOWN.marker, _KNOWN.fixture, _KNOWN.help
    example = 'task="reacher-easy", planner="preset"'
    has_smoke_test = True
    arguments = (
        Argument("task", as_given, REQUIRED, help="the name of a task, or a Task"),
        Argument("planner", as_given, "random-shooting", help="the name of a planner, or one"),
        Argument("max_exploitation", _share, 0.1, help="score in the model beyond that in truth"),
        Argument("min_score", _share, help="the smallest mean score in truth"),
        Argument("k", whole(2), 24, help="neighbours of each plan"),
        Argument(
            "neighbours", one_of("random", "adversarial"), "random", help="how they are found"
        ),
        of_option("episodes"),
        of_option("seed"),
        of_option("confidence"),
        *OF_EPISODES,
    )

    @property
    def labels(self) -> Mapping[str, Severity]:
        """The gate's words, best first."""
        from pytest_cpg.gates.plan_quality.ruling import LABELS

        return MappingProxyType(LABELS)

    @property
    def result(self) -> type[PlanQualityResult]:
        """The type of results."""
        from pytest_cpg.gates.plan_quality.result import PlanQualityResult

        return PlanQualityResult

    def parse(self, asked: Asked) -> Spec:
        """Return what is asked for, checked."""
        from pytest_cpg.gates.plan_quality.spec import spec_of

        return spec_of(asked)

    def measure(self, spec: Spec, model: Any, run: Run) -> PlanQualityResult:
        """Plan with the model, and score all of its plans in it and in truth."""
        from pytest_cpg.gates.plan_quality.measure import measure_plans

        return measure_plans(spec, model, run)

    def judge(self, result: PlanQualityResult, max_verdict: MaxVerdict) -> Ruling:  # noqa: ARG002
        """Return what a result says."""
        from pytest_cpg.gates.plan_quality.ruling import ruling_of

        return ruling_of(result)

    def card(
        self,
        result: PlanQualityResult,
        max_verdict: MaxVerdict,  # noqa: ARG002
        *,
        model: str = "",
    ) -> Card:
        """Return what a result looks like."""
        from pytest_cpg.gates.plan_quality.card import card_of

        return card_of(result, model=model)

    def alarm(self, result: PlanQualityResult) -> Alarm:
        """Return what a result brings to the family of all gates."""
        from pytest_cpg.gates.plan_quality.ruling import alarm_of

        return alarm_of(result)

    def cost(self, result: PlanQualityResult) -> dict[str, float]:
        """Return what a forecast needs to know of the last run."""
        from pytest_cpg.gates.plan_quality.forecast import cost_of

        return cost_of(result)

    def forecast(
        self,
        spec: Spec,
        task: Task,
        *,
        cost: Mapping[str, Any] | None,
        accepted: KeptPlans | None,
    ) -> ForecastLine:
        """Return how sure a gate will be, and what its last run cost."""
        from pytest_cpg.gates.plan_quality.forecast import forecast_of

        return forecast_of(spec, task, cost=cost, accepted=accepted)

    def entry(self, result: PlanQualityResult) -> KeptPlans:
        """Return what is kept of an accepted result."""
        from pytest_cpg.gates.plan_quality.compare import KeptPlans

        return KeptPlans.of(result)

    def read_entry(self, values: Mapping[str, Any], *, commit: str) -> KeptPlans:
        """Return what was kept of a result that was accepted at a commit."""
        from pytest_cpg.gates.plan_quality.compare import KeptPlans

        return KeptPlans.read(values, commit=commit)

    def compare(self, accepted: KeptPlans | None, result: PlanQualityResult) -> Drift:
        """Compare a result with the one that was accepted."""
        from pytest_cpg.gates.plan_quality.compare import compare

        return compare(accepted, result)

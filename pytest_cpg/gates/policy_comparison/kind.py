"""The comparison of policies as a kind of gate.

Loaded in every session with gates: whatever measures is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_cpg.gates import GATES
from pytest_cpg.gates.arguments import (
    REQUIRED,
    Argument,
    as_given,
    between,
    of_option,
    one_of,
    whole,
)

if TYPE_CHECKING:
    from pytest_cpg.gates.card import Card, Ruling, Severity
    from pytest_cpg.gates.drift import Drift
    from pytest_cpg.gates.kind import Alarm, Asked, ForecastLine, MaxVerdict, Run
    from pytest_cpg.gates.policy_comparison.compare import KeptAnswers
    from pytest_cpg.gates.policy_comparison.result import ComparisonResult
    from pytest_cpg.gates.policy_comparison.spec import Spec


_share = between(0, 1)
_KNOWN = GATES["cpg_opcc"]


class PolicyComparison:
    """How often a model is wrong about the better of two policies, and whether it knows when."""

    marker, fixture, help = _KNOWN.marker, _KNOWN.fixture, _KNOWN.help
    example = 'queries="maze-umaze"'
    wanted_model = "several in one: members = E, and step or rollout"
    arguments = (
        Argument("queries", as_given, REQUIRED, help="a published name, a file, or PolicyQueries"),
        Argument("confidence", one_of("pci", "ev", "u-pci"), "pci", help="how sure an answer is"),
        Argument("min_auroc", _share, 0.6, help="how well confidence tells right from wrong"),
        Argument("max_risk", _share, 0.05, help="the share of wrong answers that is acceptable"),
        Argument("min_coverage", _share, 0.5, help="the share answered at that risk"),
        Argument("max_loss", _share, help="the share of wrong answers among all"),
        Argument("min_queries", whole(20), 200, help="fewer queries are an error"),
        Argument("resamples", whole(100), 1000, help="of the queries, for every interval"),
        Argument("level", None, option="confidence", help="of the intervals"),
        of_option("seed"),
    )

    @property
    def labels(self) -> Mapping[str, Severity]:
        """The gate's words, best first."""
        from pytest_cpg.gates.policy_comparison.ruling import LABELS

        return MappingProxyType(LABELS)

    @property
    def result(self) -> type[ComparisonResult]:
        """The type of results."""
        from pytest_cpg.gates.policy_comparison.result import ComparisonResult

        return ComparisonResult

    def parse(self, asked: Asked) -> Spec:
        """Return what is asked for, checked."""
        from pytest_cpg.gates.policy_comparison.spec import spec_of

        return spec_of(asked)

    def measure(self, spec: Spec, model: Any, run: Run) -> ComparisonResult:
        """Ask the model every query, and grade its answers."""
        from pytest_cpg.gates.policy_comparison.measure import measure_comparison

        return measure_comparison(
            spec,
            model,
            training_data=run.given["training_data"],
            progress=run.progress,
            execution=run.execution,
        )

    def judge(self, result: ComparisonResult, max_verdict: MaxVerdict) -> Ruling:  # noqa: ARG002
        """Return what a result says."""
        from pytest_cpg.gates.policy_comparison.ruling import ruling_of

        return ruling_of(result)

    def card(
        self,
        result: ComparisonResult,
        max_verdict: MaxVerdict,  # noqa: ARG002
        *,
        model: str = "",
    ) -> Card:
        """Return what a result looks like."""
        from pytest_cpg.gates.policy_comparison.card import card_of

        return card_of(result, model=model)

    def alarm(self, result: ComparisonResult) -> Alarm:
        """Return what a result brings to the family of all gates."""
        from pytest_cpg.gates.policy_comparison.ruling import alarm_of

        return alarm_of(result)

    def cost(self, result: ComparisonResult) -> dict[str, Any]:
        """Return what a forecast needs to know of the last run, as plain values."""
        return {"seconds": result.seconds, "members": result.design.members}

    def forecast(
        self,
        spec: Spec,
        task: None,  # noqa: ARG002
        *,
        cost: Mapping[str, Any] | None,
        accepted: KeptAnswers | None,
    ) -> ForecastLine:
        """Return what a gate asks, and what its last run cost."""
        from pytest_cpg.gates.policy_comparison.forecast import forecast_of

        return forecast_of(spec, cost=cost, accepted=accepted)

    def entry(self, result: ComparisonResult) -> KeptAnswers:
        """Return what is kept of an accepted result."""
        from pytest_cpg.gates.policy_comparison.compare import KeptAnswers

        return KeptAnswers.of(result)

    def read_entry(self, values: Mapping[str, Any], *, commit: str) -> KeptAnswers:
        """Return what was kept of a result that was accepted at a commit."""
        from pytest_cpg.gates.policy_comparison.compare import KeptAnswers

        return KeptAnswers.read(values, commit=commit)

    def compare(self, accepted: KeptAnswers | None, result: ComparisonResult) -> Drift:
        """Compare a result with the one that was accepted."""
        from pytest_cpg.gates.policy_comparison.compare import compare

        return compare(accepted, result)

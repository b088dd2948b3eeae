"""The comparison of policies as a kind of gate, loaded with the first one that is collected."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

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
from pytest_cpg.gates.kept import reading
from pytest_cpg.gates.kind import Run
from pytest_cpg.gates.policy_comparison.card import card_of
from pytest_cpg.gates.policy_comparison.compare import KeptAnswers, compare
from pytest_cpg.gates.policy_comparison.forecast import cost_of, forecast_of
from pytest_cpg.gates.policy_comparison.measure import measure_comparison
from pytest_cpg.gates.policy_comparison.result import ComparisonResult
from pytest_cpg.gates.policy_comparison.ruling import LABELS, alarm_of, ruling_of
from pytest_cpg.gates.policy_comparison.spec import Spec, spec_of

_share = between(0, 1)
_KNOWN = GATES["cpg_opcc"]


class PolicyComparison:
    """How often a model is wrong about the better of two policies, and whether it knows when."""

    marker, fixture, help = _KNOWN.marker, _KNOWN.fixture, _KNOWN.help
    example = 'queries="queries.npz"'
    wanted_model = "several in one: members = E, and step or rollout"
    resumes = True
    arguments = (
        Argument("queries", as_given, REQUIRED, help="a file, or PolicyQueries"),
        Argument("terminated", as_given, help="where episodes end: observations [B, O] to bool"),
        Argument("confidence", one_of("pci", "ev", "u-pci"), "pci", help="how sure an answer is"),
        Argument("min_auroc", _share, 0.6, help="how well confidence tells right from wrong"),
        Argument("max_risk", _share, 0.05, help="the share of wrong ones among the surest"),
        Argument("min_coverage", _share, 0.5, help="the share of all that the surest are"),
        Argument("max_loss", _share, help="the share of wrong answers among all"),
        Argument("min_queries", whole(20), 200, help="fewer queries are an error"),
        Argument("resamples", whole(100, 100_000), 1000, help="of the queries, for every interval"),
        Argument("level", None, option="confidence", help="of the intervals"),
        of_option("seed"),
    )

    labels = MappingProxyType(LABELS)
    result = ComparisonResult
    parse = staticmethod(spec_of)
    judge = staticmethod(ruling_of)
    card = staticmethod(card_of)
    alarm = staticmethod(alarm_of)
    cost = staticmethod(cost_of)
    forecast = staticmethod(forecast_of)
    entry = staticmethod(KeptAnswers.of)
    read_entry = staticmethod(reading(KeptAnswers))
    compare = staticmethod(compare)

    def measure(self, spec: Spec, model: Any, run: Run) -> ComparisonResult:
        """Ask the model every query, and grade its answers."""
        return measure_comparison(
            spec,
            model,
            training_data=run.given["training_data"],
            progress=run.progress,
            execution=run.execution,
        )

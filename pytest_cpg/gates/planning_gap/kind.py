"""The planning gap as a kind of gate.

Loaded with the first gate that is collected: whatever measures is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pytest_cpg.episodes.perturbations import parse_perturbation
from pytest_cpg.gates import GATES
from pytest_cpg.gates.arguments import (
    OF_EPISODES,
    REQUIRED,
    Argument,
    as_given,
    between,
    name,
    of_option,
    one_of,
)
from pytest_cpg.gates.card import Card, Ruling, Severity
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.finding import Compared, Finding
from pytest_cpg.gates.kind import Alarm, ForecastLine, Lost, MaxVerdict, Measuring, Run, worst_of
from pytest_cpg.gates.options import OF_PLANNING_GAP
from pytest_cpg.gates.planning_gap.accepted import BaselineGate
from pytest_cpg.gates.planning_gap.compare import compare, unprovable
from pytest_cpg.gates.planning_gap.lost import Loss
from pytest_cpg.gates.planning_gap.result import GateResult, without_effect
from pytest_cpg.gates.planning_gap.spec import Spec, spec_of
from pytest_cpg.gates.planning_gap.stopping import gap_p_value_of
from pytest_cpg.stats import Verdict

if TYPE_CHECKING:
    from pytest_cpg.contracts import Task
    from pytest_cpg.episodes.traces import Replay
    from pytest_cpg.gates.planning_gap.benchmark import Benchmark
    from pytest_cpg.gates.planning_gap.forecast import Cost

_KNOWN = GATES["cpg"]


class PlanningGap:
    """How many starts a learned model loses against the true dynamics."""

    marker, fixture, help = _KNOWN.marker, _KNOWN.fixture, _KNOWN.help
    options = OF_PLANNING_GAP
    example = 'task="reacher-easy", planner="preset"'
    arguments = (
        Argument("task", as_given, REQUIRED, help="the name of a task, or a Task"),
        Argument("planner", as_given, "random-shooting", help="the name of a planner, or one"),
        of_option("episodes"),
        of_option("seed"),
        of_option("confidence"),
        of_option("tolerance"),
        of_option("interval"),
        Argument("margin", as_given, help="non-inferiority margin: the largest gap still accepted"),
        Argument("metric", one_of("success", "return"), "success", help="which gap is judged"),
        of_option("stop"),
        of_option("max_episodes"),
        of_option("oracle_episodes"),
        *OF_EPISODES,
        Argument("min_oracle", between(0, 1), help="success rate that the oracle has to reach"),
        Argument(
            "group",
            name,
            "",
            help="the recipe that the model is one checkpoint of",
            is_of_session=True,
        ),
        Argument("perturbation", parse_perturbation, help="what goes wrong in real steps"),
    )
    has_smoke_test = resumes = True

    labels = MappingProxyType(
        {one.value: Severity(one.severity) for one in sorted(Verdict, key=lambda one: one.severity)}
    )
    result = GateResult
    parse = staticmethod(spec_of)
    entry = staticmethod(BaselineGate.of)
    read_entry = staticmethod(BaselineGate.read)
    read_lost = staticmethod(Loss.read)
    unprovable = staticmethod(unprovable)
    without_effect = staticmethod(without_effect)

    def accepts(self, spec: Spec) -> MaxVerdict:
        """Return what a marker accepts that does not say it.

        A margin asks for proof, so that what is not proven must not pass.
        """
        worst = Severity.UNSURE if spec.criteria.margin is None else Severity.GOOD
        return worst_of(worst, self.labels)

    def measure(self, spec: Spec, model: Any, run: Run) -> GateResult:
        """Run the arms on the same starts, and ask why there is a gap."""
        from pytest_cpg.gates.plan_quality.measure import exploitation_of
        from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
        from pytest_cpg.gates.planning_gap.measure import measure_gap

        design, oracle = spec.planned(run.task(spec.task), model), run.given["oracle_dynamics"]
        result = measure_gap(
            design,
            spec.criteria,
            oracle=oracle,
            learned=model,
            progress=run.stage,
            execution=run.execution,
        )
        if not spec.is_diagnosed(result):
            return result
        found = diagnose(
            design,
            oracle=oracle,
            learned=model,
            result=result,
            training_data=run.given["training_data"],
            progress=run.stage,
        )
        result = replace(result, diagnosis=found)
        # Of a diagnosis that was broken off there is nothing to ask again.
        if not found.decisions:
            return result
        exploited = exploitation_of(
            design, found.episodes, oracle=oracle, learned=model, progress=run.progress
        )
        return replace(result, exploitation=exploited)

    def judge(self, result: GateResult, max_verdict: MaxVerdict) -> Ruling:
        """Return what a result says."""
        from pytest_cpg.gates.planning_gap.ruling import ruling_of

        return ruling_of(result, Verdict(max_verdict.label))

    def card(self, result: GateResult, max_verdict: MaxVerdict, *, model: str = "") -> Card:
        """Return what a result looks like."""
        from pytest_cpg.gates.planning_gap.card import card_of

        return card_of(result, Verdict(max_verdict.label), model=model)

    def alarm(self, result: GateResult) -> Alarm:
        """Return what a result brings to the family of all gates."""
        is_within = result.margin is not None and result.verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE
        return Alarm(
            p_value=lambda: gap_p_value_of(result),
            rate=(1 - result.level) / 2,
            is_settled=is_within or result.verdict is Verdict.MODEL_BOTTLENECK,
        )

    def together(self, compared: Sequence[Compared], groups: Mapping[str, str]) -> list[Finding]:
        """Return what several checkpoints of a recipe say together."""
        from pytest_cpg.gates.planning_gap.recipes import recipe_findings

        return recipe_findings(compared, groups)

    def cost(self, result: GateResult) -> Cost:
        """Return what a forecast needs to know of the last run."""
        from pytest_cpg.gates.planning_gap.forecast import cost_of

        return cost_of(result)

    def runner(self, spec: Spec, measuring: Measuring) -> Benchmark:
        """Return the value of the fixture ``benchmark_runner``."""
        from pytest_cpg.gates.planning_gap.benchmark import Benchmark

        design = spec.design(measuring.task(spec.task))
        return Benchmark(design=design, criteria=spec.criteria, measuring=measuring)

    def forecast(
        self,
        spec: Spec,
        task: Task,
        *,
        cost: Mapping[str, Any] | None,
        accepted: BaselineGate | None,
    ) -> ForecastLine:
        """Return what a gate could find, from its last run and the last accepted result."""
        from pytest_cpg.gates.planning_gap.forecast import forecast

        return forecast(spec.design(task), spec.criteria, cost=cost, accepted=accepted)

    def compare(self, accepted: BaselineGate | None, result: GateResult) -> Drift:
        """Compare a result with the one that was accepted."""
        return compare(result, accepted, level=result.level)

    def lost(self, result: GateResult) -> Lost:
        """Return the episodes that only the oracle solved; those that it solved soon show most."""
        episodes, loss = result.lost_episodes, Loss.of(result)
        steps = dict(zip(episodes, loss.oracle_steps, strict=True))
        return Lost(episodes, loss, tuple(sorted(episodes, key=lambda one: steps[one])))

    def lost_by_breaking(self, spec: Spec, model: Any, run: Run, *, episode: int) -> Lost:
        """Return the episode in which a model broke."""
        design = spec.planned(run.task(spec.task), model)
        return Lost((episode,), Loss.of_broken(design, model))

    def replay(
        self,
        spec: Spec,
        model: Any,
        run: Run,
        *,
        episodes: Sequence[int],
        then: Loss | None = None,
    ) -> Replay:
        """Run both arms again on some episodes, and keep all that was planned."""
        from pytest_cpg.episodes.replay import replay

        design = spec.planned(run.task(spec.task), model)
        if then is not None:
            most = max(episodes) + 1
            design = replace(
                design,
                seed=then.seed,
                starts=then.design.starts,
                metric=then.design.metric,
                episodes=most,
                oracle_episodes=None,
            )
        found = replay(
            design,
            oracle=run.given["oracle_dynamics"],
            learned=model,
            episodes=episodes,
            progress=run.stage,
        )
        return found if then is None else replace(found, changed=then.changes(found, model))

"""The planning gap as a kind of gate, and what a test asks of it, checked and complete."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from types import MappingProxyType
from typing import Any

from pytest_cpg.contracts import Task, TaskFactory
from pytest_cpg.episodes.arm import Metric
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.disturbance import as_observed, changes_observations
from pytest_cpg.episodes.perturbation_names import (
    PERTURBATIONS,
    PerturbationFactory,
    parse_perturbation,
)
from pytest_cpg.episodes.perturbations import Perturbation
from pytest_cpg.episodes.replay import Replay, replay
from pytest_cpg.gates import BUILT_IN
from pytest_cpg.gates.arguments import (
    OF_EPISODES,
    REQUIRED,
    Argument,
    as_given,
    between,
    name,
    of_option,
    one_of,
    task_or_name,
)
from pytest_cpg.gates.card import Card, Ruling, Severity
from pytest_cpg.gates.choices import as_trained, has_goal, task_and_planner
from pytest_cpg.gates.kind import (
    Alarm,
    Asked,
    ForecastLine,
    Lost,
    MaxVerdict,
    Measuring,
    Run,
    TaskChoice,
    worst_of,
)
from pytest_cpg.gates.options import OF_PLANNING_GAP
from pytest_cpg.gates.plan_quality.measure import exploitation_of
from pytest_cpg.gates.planning_gap import stopping
from pytest_cpg.gates.planning_gap.benchmark import Benchmark
from pytest_cpg.gates.planning_gap.card import card_of
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.forecast import cost_of, forecast
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.gates.planning_gap.records import BaselineGate, Loss, compare, unprovable
from pytest_cpg.gates.planning_gap.result import GateResult, without_effect
from pytest_cpg.gates.planning_gap.ruling import recipe_findings, ruling_of
from pytest_cpg.gates.presets import completed
from pytest_cpg.stats import Verdict
from pytest_cpg.stats.paired import METHODS
from pytest_cpg.world_models import AA_MODEL, weights_digest

_SMOKE_EPISODES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One test's planning gap: ``design`` returns what all arms share, of the task when built.

    ``diagnosed`` is as of --cpg-diagnose.
    """

    task: TaskChoice
    design: Callable[[Task], Design]
    criteria: stopping.Criteria
    diagnosed: str
    perturbations: Mapping[str, PerturbationFactory]

    def planned(self, task: Task, model: Any) -> Design:
        """Return what all arms share, planned as the model says where that is left to it."""
        return as_trained(self.design(task), model)

    def is_diagnosed(self, result: GateResult) -> bool:
        """Say whether a result is asked why it is as it is."""
        if result.is_smoke or result.is_aa or self.diagnosed == "never":
            return False
        # Of these something is to be done.
        is_bad = result.verdict in (Verdict.MODEL_BOTTLENECK, Verdict.PLANNER_BOTTLENECK)
        return self.diagnosed == "always" or is_bad


def spec_of(asked: Asked) -> Spec:
    """Return what a test asks for.

    Raises ValueError or ComponentError, naming the value and what to type instead.
    """
    values = completed(dict(asked.values))
    task, planner = task_and_planner(values, asked.components)
    metric: Metric = values["metric"]
    if metric == "return":
        _check_returns(asked)
    elif task.name == values["task"]:
        _check_goal(values)
    perturbations = asked.components.perturbations or PERTURBATIONS
    try:
        perturbation = parse_perturbation(values["perturbation"], perturbations)
    except ValueError as error:
        raise ValueError(f"perturbation: {error}") from None
    if changes_observations(perturbation):
        task = replace(task, make=partial(_made_as_observed, task.make, perturbation))
    margin = values["margin"]
    try:
        if margin is not None and metric == "success":
            margin = between(0, 1)(margin)
    except ArgumentTypeError as error:
        raise ValueError(f"margin: {error}") from None
    interval = stopping.interval_of(
        "auto" if metric == "return" else values["interval"],
        asked.family_size,
        has_margin=margin is not None and metric == "success",
    )
    stop: stopping.StopMode = "fixed" if metric == "return" else values["stop"]
    episodes = stopping.sizes_of(
        asked, stop=stop, metric=metric, level=asked.shared(values["confidence"]), interval=interval
    )
    if asked.is_smoke:
        stop, episodes = "fixed", _SMOKE_EPISODES
    criteria = stopping.Criteria(
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
        design=lambda built: Design(
            task=built,
            planner=planner,
            episodes=episodes,
            seed=values["seed"],
            starts=values["starts"],
            level=values["confidence"],
            metric=metric,
            perturbation=perturbation,
        ),
        criteria=criteria,
        diagnosed=asked.options["diagnose"],
        perturbations=perturbations,
    )


def _made_as_observed(make: TaskFactory, perturbation: Perturbation | None, **options: Any) -> Task:
    return as_observed(make(**options), perturbation)


def _check_goal(values: Mapping[str, Any]) -> None:
    """Refuse an environment of which nothing tells when an episode has succeeded."""
    if not has_goal(values):
        raise ValueError(
            f'task {values["task"]!r} has no goal of its own. Write metric="return", goal=1 with '
            f'the reward of a step that succeeds, goal="return>=50" with the return of such an '
            f'episode, or places to reach: goals={{"offset": 25, "within": 0.1}}.'
        )


def _check_returns(asked: Asked) -> None:
    """Refuse what a marker asks of returns in vain; what a session asks is for its other gates."""
    if "least_return" in (asked.values["goal"] or {}):
        raise ValueError(
            'goal= says which returns are a success, and metric="return" compares the returns '
            "themselves. Leave one of them out of this marker."
        )
    for option, usual, why in (
        ("stop", "fixed", 'looks at successes early, and metric="return" has no such rule'),
        (
            "interval",
            "auto",
            'bounds success rates: metric="return" has its own interval (t, on paired differences)',
        ),
    ):
        value = asked.values[option]
        if asked.sources[option] == "marker" and value != usual:
            raise ValueError(f"{option}={value!r} {why}. Leave {option}= out of this marker.")


class PlanningGap:
    """How many starts a learned model loses against the true dynamics."""

    marker = fixture = "cpg"
    fixtures = BUILT_IN[marker].fixtures
    help = "gate this test on the planning gap between the true dynamics and a learned world model."
    options = OF_PLANNING_GAP
    example = 'task="reacher-easy", planner="preset"'
    arguments = (
        Argument("task", task_or_name, REQUIRED, help="the name of a task, or a Task"),
        Argument("planner", as_given, "random-shooting", help="the name of a planner, or one"),
        of_option("episodes"),
        of_option("seed"),
        of_option("confidence"),
        Argument(
            "tolerance",
            between(0, 0.5),
            0.05,
            help="success rates this near to 0 or 1 count as 0 or 1",
        ),
        Argument(
            "interval",
            one_of("auto", *METHODS),
            "auto",
            help="what bounds the gap and judges it; leave it alone, but to repeat what others did",
        ),
        Argument(
            "margin", between(0, inf), help="non-inferiority margin: the largest gap still accepted"
        ),
        Argument("metric", one_of("success", "return"), "success", help="which gap is judged"),
        of_option("stop"),
        of_option("max_episodes"),
        *OF_EPISODES,
        Argument("min_oracle", between(0, 1), help="success rate that the oracle has to reach"),
        Argument(
            "group",
            name,
            "",
            help="the recipe that the model is one checkpoint of",
            is_of_session=True,
        ),
        Argument("perturbation", as_given, help="what goes wrong in real steps"),
    )
    has_smoke_test = resumes = True

    labels = MappingProxyType(
        {
            verdict.value: Severity(verdict.severity)
            for verdict in sorted(Verdict, key=lambda verdict: verdict.severity)
        }
    )
    result = GateResult
    parse = staticmethod(spec_of)
    entry = staticmethod(BaselineGate.of)
    read_entry = staticmethod(BaselineGate.read)
    read_lost = staticmethod(Loss.read)
    unprovable = staticmethod(unprovable)
    compare = staticmethod(compare)
    cost = staticmethod(cost_of)
    together = staticmethod(recipe_findings)
    without_effect = staticmethod(without_effect)

    def accepts(self, spec: Spec) -> MaxVerdict:
        """Return what a marker accepts that does not say it.

        A margin asks for proof, so that what is not proven must not pass.
        """
        worst = Severity.UNSURE if spec.criteria.margin is None else Severity.GOOD
        return worst_of(worst, self.labels)

    def measure(self, spec: Spec, model: Any, run: Run) -> GateResult:
        """Run the arms on the same starts, and ask why there is a gap."""
        design, oracle = spec.planned(run.task(spec.task), model), run.given["oracle_dynamics"]
        result = measure_gap(
            design,
            spec.criteria,
            oracle=oracle,
            learned=model,
            progress=stopping.with_hint(run.stage, spec.criteria, design),
            execution=run.execution,
        )
        if not spec.is_diagnosed(result):
            return result
        diagnosis = diagnose(
            design,
            oracle=oracle,
            learned=model,
            result=result,
            training_data=run.given["training_data"],
            progress=run.stage,
        )
        result = replace(result, diagnosis=diagnosis)
        # Of a diagnosis that was broken off there is nothing to ask again.
        if not diagnosis.decisions:
            return result
        exploited = exploitation_of(
            design, diagnosis.episodes, oracle=oracle, learned=model, progress=run.progress
        )
        return replace(result, exploitation=exploited)

    def judge(self, result: GateResult, max_verdict: MaxVerdict) -> Ruling:
        """Return what a result says."""
        return ruling_of(result, Verdict(max_verdict.label))

    def card(self, result: GateResult, max_verdict: MaxVerdict, *, model: str = "") -> Card:
        """Return what a result looks like."""
        return card_of(result, Verdict(max_verdict.label), model=model)

    def alarm(self, result: GateResult) -> Alarm:
        """Return what a result brings to the family of all gates."""
        is_within = result.margin is not None and result.verdict is Verdict.MODEL_AS_GOOD_AS_ORACLE
        return Alarm(
            p_value=lambda: stopping.gap_p_value_of(result),
            rate=(1 - result.level) / 2,
            is_settled=is_within or result.verdict is Verdict.MODEL_BOTTLENECK,
        )

    def runner(self, spec: Spec, measuring: Measuring) -> Benchmark:
        """Return the value of the fixture ``benchmark_runner``."""
        design = spec.design(measuring.task(spec.task))
        return Benchmark(
            design=design,
            criteria=spec.criteria,
            measuring=measuring,
            perturbations=spec.perturbations,
        )

    def forecast(
        self,
        spec: Spec,
        task: Task,
        *,
        cost: Mapping[str, Any] | None,
        accepted: BaselineGate | None,
    ) -> ForecastLine:
        """Return what a gate could find, from its last run and the last accepted result."""
        return forecast(spec.design(task), spec.criteria, cost=cost, accepted=accepted)

    def lost(self, result: GateResult) -> Lost:
        """Return the episodes that only the oracle solved; usual ones show most.

        Those that it solved at once have nothing to show of the oracle.
        """
        episodes, loss = result.lost_episodes, Loss.of(result)
        middle = sorted(loss.oracle_steps)[(len(episodes) - 1) // 2] if episodes else 0
        by_episode = zip(episodes, loss.oracle_steps, strict=True)
        telling = sorted(by_episode, key=lambda lost: abs(lost[1] - middle))
        return Lost(episodes, loss, tuple(episode for episode, _ in telling))

    def lost_by_breaking(self, spec: Spec, model: Any, run: Run, *, episode: int) -> Lost:
        """Return the episode in which a model broke."""
        design = spec.planned(run.task(spec.task), model)
        digest, seed = weights_digest(model), int(design.seed)
        loss = Loss(design=design.record, seed=seed, oracle_steps=(0,), weights=digest)
        return Lost((episode,), loss)

    def replay(
        self, spec: Spec, model: Any, run: Run, *, episodes: Sequence[int], then: Loss | None = None
    ) -> Replay:
        """Run both arms again on some episodes, and keep all that was planned."""
        design = spec.planned(run.task(spec.task), model)
        if then is not None:
            starts, metric, count = then.design.starts, then.design.metric, max(episodes) + 1
            design = replace(design, seed=then.seed, starts=starts, metric=metric, episodes=count)
        replayed = replay(
            design,
            oracle=run.given["oracle_dynamics"],
            learned=model,
            episodes=episodes,
            progress=run.stage,
        )
        return (
            replayed if then is None else replace(replayed, changed=then.changes(replayed, model))
        )

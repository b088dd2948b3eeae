"""A kind of gate of one's own: how far a model's next step is off, with a bootstrap interval."""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pytest_cpg import Interval
from pytest_cpg.gates.arguments import REQUIRED, Argument, between, name, of_option, whole
from pytest_cpg.gates.card import Bound, Card, Effect, Row, Ruling, Severity, Table
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import Alarm, ForecastLine, TaskChoice
from pytest_cpg.world_models.transitions import collect_transitions


@dataclass(frozen=True)
class Limit:
    """What a test asks for."""

    task: TaskChoice
    limit: float
    transitions: int
    seed: int
    level: float


@dataclass(frozen=True)
class StepError:
    """What was measured, and all that it is judged by."""

    design: str
    transitions: int
    seed: int
    limit: float
    error: Interval
    p_value: float


class OneStepError:
    """Whether the mean error of one step is below a limit."""

    marker = fixture = "one_step_error"
    help = "gate this test on the mean error of one step of a learned world model."
    arguments = (
        Argument("task", name, REQUIRED, help="the name of a task"),
        Argument("limit", between(0, float("inf")), REQUIRED, help="the largest mean error"),
        Argument("transitions", whole(10), 500, help="random steps that are predicted"),
        of_option("seed"),
        of_option("confidence"),
    )
    fixtures = ()
    labels = MappingProxyType(
        {"ACCURATE": Severity.GOOD, "UNCLEAR": Severity.UNSURE, "INACCURATE": Severity.BAD}
    )
    result = StepError

    def parse(self, asked):
        own = {one: asked.values[one] for one in ("limit", "transitions", "seed")}
        level = asked.shared(asked.values["confidence"])
        return Limit(task=asked.task(asked.values["task"]), level=level, **own)

    def measure(self, spec, model, run):
        steps = collect_transitions(run.task(spec.task), count=spec.transitions, seed=spec.seed)
        run.progress("one step", 0, spec.transitions)
        predicted = model(steps.observations, steps.actions)
        errors = np.abs(predicted - steps.next_observations).mean(axis=1)
        rows = np.random.default_rng(spec.seed).integers(len(errors), size=(2000, len(errors)))
        means = errors[rows].mean(axis=1)
        low, high = np.quantile(means, [(1 - spec.level) / 2, (1 + spec.level) / 2]).tolist()
        mean, method = float(errors.mean()), "percentile bootstrap"
        return StepError(
            design=f"{spec.task.name}, {spec.transitions} transitions, seed {spec.seed}",
            transitions=spec.transitions,
            seed=spec.seed,
            limit=spec.limit,
            error=Interval(estimate=mean, low=low, high=high, level=spec.level, method=method),
            p_value=float((means <= spec.limit).mean()),
        )

    def judge(self, result, max_verdict):
        label = "ACCURATE" if result.error.high <= result.limit else "UNCLEAR"
        label = "INACCURATE" if result.error.low > result.limit else label
        return Ruling(label=label, severity=self.labels[label], brief=f"limit {result.limit:g}")

    def card(self, result, max_verdict, *, model=""):
        error = result.error
        cells = {"error": f"{error.estimate:.4f}", "CI": f"[{error.low:.4f},{error.high:.4f}]"}
        row = Row(name=model or "learned", cells=tuple(cells.values()), bound=Bound.of(error))
        return Card(
            headline=f"one-step error {' '.join(cells.values())}",
            size=f"n={result.transitions}",
            cells={**cells, "limit": f"{result.limit:g}"},
            table=Table(
                name="model",
                columns=tuple(cells),
                rows=(row,),
                axis=(0.0, 2 * max(error.high, result.limit)),
            ),
            meaning=("Train on more transitions, or raise the limit.",),
            effect=Effect.of(error, unit="of one step", margin=result.limit),
            rerun={"seed": result.seed},
            numbers={"error": error.estimate, "error_low": error.low, "error_high": error.high},
        )

    def entry(self, result):
        return {"design": result.design, "error": result.error}

    def compare(self, accepted, result):
        if accepted is None:
            return Drift.new()
        if accepted["design"] != result.design:
            text = f"{accepted['design']} -> {result.design}"
            return Drift(label=Label.INCOMPARABLE, text=text)
        then, now = Interval(**accepted["error"]), result.error
        label = Label.UNCHANGED if then == now else Label.UNRESOLVED
        label = Label.REGRESSED if now.low > then.high else label
        label = Label.IMPROVED if now.high < then.low else label
        text = f"the error was {then.estimate:.4f}, and is {now.estimate:.4f}"
        return Drift(label=label, text=text)

    def forecast(self, spec, task, *, cost, accepted):
        cells = {"transitions": str(spec.transitions), "limit": f"{spec.limit:g}"}
        return ForecastLine(cells=cells)

    def alarm(self, result):
        rate = (1 - result.error.level) / 2
        return Alarm(p_value=lambda: result.p_value, rate=rate, is_settled=result.p_value <= rate)


def pytest_cpg_gates():
    """Name the kind by its marker."""
    return {"one_step_error": OneStepError()}

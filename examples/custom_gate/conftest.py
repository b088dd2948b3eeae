"""A kind of gate of one's own: how far a model's next step is off, with a bootstrap interval."""

from dataclasses import dataclass

import numpy as np

from pytest_cpg import Interval
from pytest_cpg.gates.arguments import REQUIRED, Argument, between, name, of_option, whole
from pytest_cpg.gates.card import Card, Effect, Ruling, Severity, Table, numbers_of
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import Alarm, ForecastLine
from pytest_cpg.stats.sampled import Percentile
from pytest_cpg.world_models.transitions import collect_transitions


@dataclass(frozen=True)
class StepError:
    """What was measured, and all that it is judged by."""

    task: str
    limit: float
    transitions: int
    seed: int
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
    labels = {"ACCURATE": Severity.GOOD, "UNCLEAR": Severity.UNSURE, "INACCURATE": Severity.BAD}
    result = StepError

    def parse(self, asked):
        return asked

    def measure(self, spec, model, run):
        own = {one: spec.values[one] for one in ("task", "limit", "transitions", "seed")}
        count, seed = own["transitions"], own["seed"]
        steps = collect_transitions(run.task(spec.task), count=count, seed=seed)
        run.progress("one step", 0, count)
        predicted = model(steps.observations, steps.actions)
        errors = np.abs(predicted - steps.next_observations).mean(axis=1)
        rows = np.random.default_rng(seed).integers(count, size=(2000, count))
        means = errors[rows].mean(axis=1)
        level, p_value = spec.shared(spec.values["confidence"]), (means <= own["limit"]).mean()
        error = Percentile(estimate=float(errors.mean()), resamples=means).interval(level)
        return StepError(error=error, p_value=float(p_value), **own)

    def judge(self, result, max_verdict):
        label = "ACCURATE" if result.error.high <= result.limit else "UNCLEAR"
        label = "INACCURATE" if result.error.low > result.limit else label
        return Ruling(label=label, severity=self.labels[label])

    def card(self, result, max_verdict, *, model=""):
        error, widest = result.error, 2 * max(result.error.high, result.limit)
        cells = {"error": f"{error.estimate:.4f}", "CI": f"[{error.low:.4f}, {error.high:.4f}]"}
        return Card(
            kind="one-step error",
            headline=f"one-step error {' '.join(cells.values())}",
            size=f"{result.transitions} steps",
            cells={**cells, "limit": f"{result.limit:g}"},
            table=Table.of(model, cells, error, axis=(0.0, widest)),
            meaning=("The model's next step is off by more than the limit.",)
            * (error.estimate > result.limit),
            advice=("Train on more transitions, or raise the limit.",),
            effect=Effect(found=error, unit="of one step", margin=result.limit),
            numbers=numbers_of({"error": error}),
        )

    def entry(self, result):
        design = f"{result.task}, {result.transitions} transitions, seed {result.seed}"
        return {"design": design, "error": result.error}

    def compare(self, accepted, result):
        if accepted is None:
            return Drift.new(now=f"{result.error.estimate:.4f}")
        now, then = self.entry(result), Interval(**accepted["error"])
        if accepted["design"] != now["design"]:
            text = f"{accepted['design']} -> {now['design']}"
            return Drift(label=Label.INCOMPARABLE, text=text)
        error, was = result.error, f"{then.estimate:.4f}"
        now = f"{error.estimate:.4f}"
        label = Label.of(error.low - then.high, error.high - then.low, is_same=then == error)
        return Drift(label=label, text=f"error {was} -> {now}", was=was, now=now)

    def forecast(self, spec, task, *, cost, accepted):
        cells = {one: f"{spec.values[one]:g}" for one in ("transitions", "limit")}
        return ForecastLine(cells=cells)

    def alarm(self, result):
        p_value, rate = result.p_value, (1 - result.error.level) / 2
        return Alarm(p_value=lambda: p_value, rate=rate, is_settled=p_value <= rate)


def pytest_cpg_gates():
    """Name the kind by its marker."""
    return {"one_step_error": OneStepError()}

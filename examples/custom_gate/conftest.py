"""A kind of gate of one's own: how far a model's next step is off, with a bootstrap interval."""

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from pytest_cpg.gates.arguments import REQUIRED, Argument, between, name, of_option, whole
from pytest_cpg.gates.card import Bound, Card, Effect, Row, Ruling, Severity, Table
from pytest_cpg.gates.comparison import Comparison, Label
from pytest_cpg.gates.kind import Alarm, Forecast, TaskChoice
from pytest_cpg.world_models.transitions import collect_transitions

_RESAMPLES = 2000


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a test asks for."""

    task: TaskChoice
    limit: float
    transitions: int
    seed: int
    level: float


@dataclass(frozen=True, kw_only=True)
class StepError:
    """What was measured, and all that it is judged by."""

    design: str
    mean: float
    low: float
    high: float
    p_value: float
    limit: float
    transitions: int
    level: float


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
        values = asked.values
        return Limit(
            task=asked.task(values["task"]),
            limit=values["limit"],
            transitions=values["transitions"],
            seed=values["seed"],
            # All gates of a session may have to share one error rate.
            level=1 - (1 - values["confidence"]) / asked.family_size,
        )

    def measure(self, spec, model, run):
        steps = collect_transitions(run.task(spec.task), count=spec.transitions, seed=spec.seed)
        run.progress("one step", 0, spec.transitions)
        predicted = model(steps.observations, steps.actions)
        errors = np.abs(predicted - steps.next_observations).mean(axis=1)
        rows = np.random.default_rng(spec.seed).integers(
            len(errors), size=(_RESAMPLES, len(errors))
        )
        means = errors[rows].mean(axis=1)
        low, high = np.quantile(means, [(1 - spec.level) / 2, (1 + spec.level) / 2])
        return StepError(
            design=f"{spec.task.name}, {spec.transitions} transitions, seed {spec.seed}",
            mean=float(errors.mean()),
            low=float(low),
            high=float(high),
            p_value=float((means <= spec.limit).mean()),
            limit=spec.limit,
            transitions=spec.transitions,
            level=spec.level,
        )

    def judge(self, result, accepted):
        label = "UNCLEAR"
        if result.high <= result.limit:
            label = "ACCURATE"
        if result.low > result.limit:
            label = "INACCURATE"
        return Ruling(label=label, severity=self.labels[label], brief=f"limit {result.limit:g}")

    def card(self, result, accepted, *, model=""):
        shown = (f"{result.mean:.4f}", f"[{result.low:.4f},{result.high:.4f}]")
        bound = Bound(estimate=result.mean, low=result.low, high=result.high)
        return Card(
            headline=f"one-step error {' '.join(shown)}",
            size=f"n={result.transitions}",
            cells={"error": shown[0], "CI": shown[1], "limit": f"{result.limit:g}"},
            table=Table(
                name="model",
                columns=("error", "CI"),
                rows=(Row(name=model or "learned", cells=shown, bound=bound),),
                axis=(0.0, 2 * max(result.high, result.limit)),
            ),
            meaning=("Train on more transitions, or raise the limit.",),
            effect=Effect(
                estimate=result.mean,
                low=result.low,
                high=result.high,
                level=result.level,
                unit="of one step",
                margin=result.limit,
            ),
            numbers={"error": result.mean, "error_low": result.low, "error_high": result.high},
        )

    def entry(self, result):
        return {
            "design": result.design,
            "mean": result.mean,
            "low": result.low,
            "high": result.high,
        }

    def compare(self, accepted, result):
        if accepted is None:
            return Comparison(label=Label.NEW, text="nothing accepted yet")
        if accepted["design"] != result.design:
            text = f"{accepted['design']} -> {result.design}"
            return Comparison(label=Label.INCOMPARABLE, text=text)
        label = Label.UNCHANGED if accepted["mean"] == result.mean else Label.UNRESOLVED
        if result.low > accepted["high"]:
            label = Label.REGRESSED
        if result.high < accepted["low"]:
            label = Label.IMPROVED
        text = f"the error was {accepted['mean']:.4f}, and is {result.mean:.4f}"
        return Comparison(label=label, text=text)

    def forecast(self, spec, task, *, cost, accepted):
        return Forecast(cells={"transitions": str(spec.transitions), "limit": f"{spec.limit:g}"})

    def alarm(self, result):
        rate = (1 - result.level) / 2
        return Alarm(p_value=lambda: result.p_value, rate=rate, is_settled=result.p_value <= rate)


def pytest_cpg_gates():
    """Name the kind by its marker."""
    return {"one_step_error": OneStepError()}

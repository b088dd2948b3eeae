"""Gate on one number that may be at most a limit: all of a kind but how the number is measured."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from pytest_cpg.contracts import FloatArray, Task
from pytest_cpg.contracts.errors import CURE, KindError, WorldModelError
from pytest_cpg.gates.arguments import REQUIRED, Argument, between, of_option, task_or_name
from pytest_cpg.gates.card import Effect, Severity, Table, Trend, numbers_of
from pytest_cpg.gates.criteria import CriteriaKind
from pytest_cpg.gates.criterion import Blindness, Criterion, worsening
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import Asked, Run
from pytest_cpg.stats import Interval, Sampled
from pytest_cpg.stats.sampled import Percentile, Share

if TYPE_CHECKING:
    from pytest_cpg.gates.rows import Questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A number, and all that it is judged by; ``size`` says of how much, as "500 steps".

    ``limit``, above 0, is the largest that is accepted, and ``p_value`` one-sided, against the
    claim that the number is at most that. Where it is a mean, ``errors`` [N] are of each question.
    Numbers under other ``conditions`` are not compared. ``beside`` maps each of what knows nothing,
    as "copy", to its number, of which ``ignorant`` is the smallest. ``facts`` are shown, too.
    """

    limit: float
    size: str
    conditions: Mapping[str, str]
    found: Interval
    p_value: float
    errors: FloatArray | None = None
    blind: str = ""
    check: str = ""
    ignorant: float | None = None
    beside: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    faults: ClassVar[Sequence[str]] = ()

    @property
    def level(self) -> float:
        """Of the interval."""
        return self.found.level


class Reading(NamedTuple):
    """What was measured of a model.

    Attributes
    ----------
    errors : array [N] or None
        As of `Measured`.
    ignorant : mapping
        Each of what knows nothing, by the heading of its column, to its number.
    more : mapping
        What else the kind's result holds.
    """

    number: Sampled
    size: str
    errors: FloatArray | None = None
    ignorant: Mapping[str, Sampled] = {}
    more: Mapping[str, Any] = {}


# Of a float32, in which most models predict.
_LARGEST = 3.4e38
_RESAMPLES = 2000
_WANTED = 'to return the number as sampled, and on how much: Percentile(...), "500 steps".'
# Of a smoke test.
_FEW = 8
# The column of a model that knows nothing; other columns, as messages have them.
KNOWS_NOTHING = "knows nothing"
_IGNORANT = {
    KNOWS_NOTHING: "a model that knows nothing",
    "copy": "a copy of the input",
    "swapped": "the model's own predictions of other actions",
    "all": "a model in which everything answers",
}
_LABELS = {
    "WITHIN LIMIT": Severity.GOOD,
    "UNCLEAR": Severity.UNSURE,
    "ABOVE LIMIT": Severity.BAD,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class AtMost(CriteriaKind[Measured]):
    """A kind of gate on one number, which is smaller for better models: of one criterion.

    The number is what ``sample`` measures, or the mean of the errors in many questions. These are
    spread over workers, go on after an interruption, and are compared one by one.

    Attributes
    ----------
    marker, help : str
        As of any kind; the fixture has the marker's name.
    number : str
        Heads its column, and begins sentences: "one-step error".
    sample : callable, optional
        Measures a model, given what is asked, the model and the run: returns the number as sampled,
        and on how much, as "500 steps".
    questions, error : callable, optional
        In its place: ``questions(asked, task)`` returns arrays [N, ...] with a row for each
        question, and ``error(model, *rows)`` the errors [B] of a model that is bound to the task,
        as `world_models.bind` returns it.
    ignorant : world model, optional
        One that knows nothing: its number stands beside, and where it would pass, the gate is
        blind.
    own : tuple of Argument
        What the marker takes beside the task, the limit, the seed and the level.
    labels : mapping
        Best first: one for each of GOOD, UNSURE and BAD.
    unit : str
        What it is counted in or by, as "of one step".
    meaning, advice, sharpen : str
        Why the number is above the limit, what to do then, and what where the gate is blind: one
        sentence each.
    most : float
        The largest number that a model can have, such as 1 of a share: from there on no model would
        miss a limit, and it is refused.
    """

    marker: str
    help: str
    number: str
    sample: Callable[[Asked, Any, Run], tuple[Sampled, str]] | None = None
    questions: Callable[[Asked, Task], Sequence[FloatArray]] | None = None
    error: Callable[..., FloatArray] | None = None
    ignorant: Any = None
    own: tuple[Argument, ...] = ()
    labels: Mapping[str, Severity] = field(default_factory=lambda: _LABELS)
    unit: str = ""
    meaning: str = ""
    advice: str = ""
    sharpen: str = "Set a limit that what knows nothing misses, or ask for what is harder."
    most: float = _LARGEST
    result: ClassVar = Measured
    entry_type: ClassVar = Measured

    def __post_init__(self) -> None:
        """Refuse labels that do not say all, a number that is no name, and nothing to measure."""
        severities = (Severity.GOOD, Severity.UNSURE, Severity.BAD)
        lacking = [severity.name for severity in severities if severity not in self.labels.values()]
        if lacking:
            raise ValueError(
                f"AtMost: labels lacks {' and '.join(lacking)}. Write a label for each of GOOD, "
                f"UNSURE and BAD."
            )
        if not isinstance(self.number, str):
            raise ValueError(f"AtMost: number is {self.number!r}. Write its name.")
        parts = [part is not None for part in (self.sample, self.questions, self.error)]
        if parts not in ([True, False, False], [False, True, True]):
            raise ValueError("AtMost: write sample=, or questions= and error=.")

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the marker takes."""
        limit = between(0, self.most)
        return (
            Argument("task", task_or_name, REQUIRED, help="the name of a task, or a Task"),
            Argument("limit", limit, REQUIRED, help=f"the largest accepted {self.number}"),
            of_option("seed"),
            of_option("confidence"),
            *self.own,
        )

    @property
    def resumes(self) -> Literal[True] | None:
        """Whether what was answered is kept."""
        return True if self.error else None

    def measure(self, spec: Asked, model: Any, run: Run) -> Measured:
        """Return the number with its interval."""
        limit, blind = spec.values["limit"], ""
        run.progress(self.number, 0, 1)
        level = spec.shared(spec.values["confidence"])
        match answer := (self.sample or self.reading)(spec, model, run):
            case Reading():
                reading = answer
            case (sampled, str(size)):
                reading = Reading(sampled, size)
            case _:
                raise KindError(f"{self._fault(answer)}, and has {_WANTED}")
        interval, p_value = self._read(reading, limit, level)
        ignorant, size = reading.ignorant, reading.size
        numbers = {who: number.estimate for who, number in ignorant.items()}
        least = min(numbers, key=lambda who: numbers[who], default="")
        if least and ignorant[least].p_above(limit) > (1 - level) / 2:
            blind = (
                f"{_IGNORANT.get(least, least)} would have passed: its {self.number} is "
                f"{_text(numbers[least])}, and the limit is {limit:g}"
            )
        usual = self.findings(spec, run, (), size=size)
        return self.result(
            limit=limit,
            size=size,
            conditions=self.said(spec, but=("limit", "confidence")),
            found=interval,
            p_value=p_value,
            errors=reading.errors,
            blind=blind,
            check=usual.check,
            ignorant=min(numbers.values(), default=None),
            beside=numbers,
            **reading.more,
            seconds=usual.seconds,
        )

    def blindness(self, result: Measured) -> Blindness | None:
        """Return why a result says nothing of the model, and what to do."""
        blind = super().blindness(result)
        return blind and blind._replace(advice=self.sharpen)

    def criteria(self, result: Measured) -> list[Criterion]:
        """Return the one thing that is asked."""
        number, limit = self.number, result.limit
        more: dict[str, Any] = {"needed": f"<={limit:g}", "p_value": result.p_value}
        return [Criterion.of_interval(number, result.found, limit, **more)]

    def shown(self, result: Measured, model: str) -> dict[str, Any]:
        """Return the number beside its limit."""
        interval, limit = result.found, result.limit
        cells = {
            self.number: _text(interval.estimate),
            "CI": f"[{_text(interval.low)}, {_text(interval.high)}]",
            "limit": f"{limit:g}",
        }
        beside = result.beside
        if not beside and result.ignorant is not None:
            beside = {KNOWS_NOTHING: result.ignorant}
        cells |= {who: _text(number) for who, number in beside.items()}
        # A number of numpy's compares to a bool of numpy's, which repeats no tuple.
        is_above = bool(interval.estimate > limit)
        most = min(2 * min(max(interval.high, limit), sys.float_info.max / 2), self.most)
        most = max(most, interval.high)
        axis = (min(0.0, interval.low), most)
        table = Table.of(model, cells, interval, axis=axis)
        title = f"{self.number[:1].upper()}{self.number[1:]}"
        trend = Trend(name=title, text=cells[self.number], bound=interval, axis=axis)
        task = result.conditions.get("task", "")
        return {
            "subject": "" if task == "None" else task,
            "sentence": f"{self.number} {cells[self.number]} {cells['CI']}, limit {limit:g}, "
            f"{result.size}",
            "size": result.size,
            "cells": cells,
            "table": replace(table, below=tuple(result.facts.items())),
            "why": self.meaning * is_above,
            "do": self.advice * is_above,
            "effect": Effect(found=interval, unit=self.unit, is_share=False, margin=limit),
            "trends": (trend,),
            "design": ", ".join(map(" ".join, result.conditions.items())),
            "numbers": numbers_of({self.number.replace(" ", "_").replace("-", "_"): interval}),
        }

    def entry(self, result: Measured) -> Measured:
        """Return the whole result."""
        return result

    def followed(self, entry: Measured) -> str:
        """Return the number."""
        return _text(entry.found.estimate)

    def from_to(self, then: Measured, now: Measured) -> str:
        """Return how the number changed."""
        return f"{self.number} {self.followed(then)} -> {self.followed(now)}"

    def changed(self, then: Measured, now: Measured, result: Measured) -> Drift:
        """Compare question by question, or by intervals that lie apart."""
        worse = worsening((then.found, then.errors), (now.found, now.errors), result.level)
        return Drift(
            label=Label.of(worse.low, worse.high, is_same=then.found == now.found),
            text=self.from_to(then, now),
        )

    def world(self, spec: Asked, run: Run) -> Task:
        """Return what a model is asked about: the task."""
        if spec.task is None:
            raise TypeError(f"{self.marker} has no task")
        return run.task(spec.task)

    def asked(self, spec: Asked, run: Run) -> Questions:
        """Return what a model is asked; a few questions for a smoke test."""
        from pytest_cpg.gates.rows import Questions

        if self.questions is None or self.error is None:
            raise TypeError(f"{self.marker} has no questions")
        world, few = self.world(spec, run), slice(_FEW if spec.is_smoke else None)
        arrays = tuple(np.asarray(array)[few] for array in self.questions(spec, world))
        return Questions(world, self.error, arrays)

    def reading(self, spec: Asked, model: Any, run: Run) -> Reading:
        """Return the mean error of a model, and that of one which knows nothing."""
        asked = self.asked(spec, run)
        errors = self.answers(asked, model, run)
        ignorant = {}
        if self.ignorant is not None:
            others = self.answers(asked, self.ignorant, run)
            ignorant[KNOWS_NOTHING] = self.mean(others, asked, spec)
        number = self.mean(errors, asked, spec)
        return Reading(number, f"{len(errors)} questions", errors, ignorant)

    def answers(self, asked: Questions, model: Any, run: Run) -> FloatArray:
        """Return the errors [N] of a model, or whatever [N, E] its kind makes errors of."""
        from pytest_cpg.gates.rows import answered

        return answered(run, model, asked, what=self.number)

    def mean(self, errors: FloatArray, asked: Questions, spec: Asked) -> Sampled:
        """Return the mean of errors [N]: of right and wrong answers Wilson's, else by resampling.

        What is drawn again are clusters, where questions have them.
        """
        estimate, count = float(errors.mean()), len(errors)
        numbers = np.arange(count) if asked.clusters is None else asked.clusters[:count]
        _, cluster, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
        sums = np.bincount(cluster, errors)
        is_share = np.isin(errors, (0, 1)).all() and len(sums) == count
        if self.most == 1 and (is_share or estimate in (0, 1)):
            return Share(estimate=estimate, size=len(sums))
        rng = np.random.default_rng(spec.values["seed"])
        rows = rng.integers(len(sums), size=(_RESAMPLES, len(sums)))
        resamples = sums[rows].sum(axis=1) / sizes[rows].sum(axis=1)
        return Percentile(estimate=estimate, resamples=resamples)

    def _fault(self, answer: Any) -> str:
        return f"the kind of gate {self.marker!r}: sample() returned {answer!r:.80}"

    def _read(self, reading: Reading, limit: float, level: float) -> tuple[Interval, float]:
        """Return the number's interval and p-value."""
        sampled, fault = reading.number, self._fault(reading[:2])
        # Its class may be a user's.
        try:
            if not math.isfinite(number := sampled.estimate):
                raise WorldModelError(f"the {self.number} of the model is {number}. {CURE}")
            interval, p_value = sampled.interval(level), sampled.p_above(limit)
            is_right = -math.inf < interval.low <= interval.high < math.inf
            is_right = is_right and interval.level == level and 0 <= p_value <= 1
        except WorldModelError:
            raise
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            raise KindError(
                f"{fault}, which cannot be read ({raised}). It has {_WANTED}"
            ) from error
        if is_right:
            return interval, p_value
        raise KindError(
            f"{fault}: its interval({level:g}) is {interval}, its p_above({limit:g}) {p_value}. "
            f"Give finite bounds in order, of that level, and a p-value in [0, 1]."
        )


def _text(value: float) -> str:
    """Return three digits of a number.

    >>> [_text(value) for value in (0.5, 12, 123.4, 12345)]
    ['0.500', '12.0', '123', '1.23e+04']
    """
    return f"{value:#.3g}".removesuffix(".")

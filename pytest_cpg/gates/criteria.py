"""Criteria: kinds of gate that ask some numbers of a model, each beside a limit.

Of a kind's `measure` and `criteria`, `CriteriaKind` makes all that a gate has: ruling, card,
baseline, forecast, smoke test, A/A check and its share in the error rate of all gates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from pytest_cpg.contracts import FloatArray
from pytest_cpg.gates.arguments import REQUIRED, Argument, of_option, task_or_name
from pytest_cpg.gates.card import (
    AA_CHECK,
    SMOKE_TEST,
    Card,
    Effect,
    Note,
    Ruling,
    Severity,
    Table,
    numbers_of,
)
from pytest_cpg.gates.criterion import Blindness, Criterion, Standing, Words, worsening
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kept import read_cost, reading
from pytest_cpg.gates.kind import Alarm, Asked, ForecastLine, MaxVerdict, Run, worst_of
from pytest_cpg.gates.notation import duration, percentage, with_ends
from pytest_cpg.stats import Interval
from pytest_cpg.world_models import AA_MODEL

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What a kind by criteria found, and all that it is judged by; ``size`` is such as "500 steps".

    ``paired`` maps a criterion to one number for each question, larger for worse answers: results
    with the same questions are compared one by one. ``blind`` is why the gate could not have
    failed, in a sentence. ``faults`` are why model or setup are broken: of such a model nothing
    else is said. Results under other ``conditions``, what the marker said, are not compared.
    ``check`` is as of a `Ruling`.
    """

    criteria: tuple[Criterion, ...]
    size: str
    paired: Mapping[str, FloatArray] = field(default_factory=dict)
    blind: str = ""
    faults: tuple[str, ...] = ()
    conditions: Mapping[str, str] = field(default_factory=dict)
    check: str = ""
    level: float = 0.95
    seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept of an accepted result."""

    conditions: Mapping[str, str]
    found: Mapping[str, Interval]
    paired: Mapping[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the last run took, for each of what the gate's size is counted in."""

    seconds: float

    def __post_init__(self) -> None:
        if self.seconds < 0:
            raise ValueError(f"no such cost: {self}")


class CriteriaKind(Generic[R]):
    """A kind of gate by criteria: give it a marker, a help line, `measure`, and `criteria`.

    A result other than `Findings` has its ``faults``, ``check``, ``level`` and ``blind``, too; what
    it keeps and shows may be overridden, as all else. ``own`` are arguments beside the task, the
    seed and the level; ``labels`` stand best first, at least one each GOOD, UNSURE and BAD, and
    ``words`` say what they mean. The unit is what the first criterion is counted in or by, as "of
    states".
    """

    marker: str
    help: str
    own: Sequence[Argument] = ()
    labels: Mapping[str, Severity] = {
        "WITHIN LIMITS": Severity.GOOD,
        "UNCLEAR": Severity.UNSURE,
        "BEYOND LIMITS": Severity.BAD,
        "BROKEN": Severity.BROKEN,
    }
    words: Mapping[str, Words] = {}
    unit = ""
    result: ClassVar[type] = Findings
    entry_type: ClassVar[type] = Kept
    has_smoke_test: Literal[True] | None = True

    @property
    def fixture(self) -> str:
        """Named as the marker is."""
        return self.marker

    @property
    def arguments(self) -> Sequence[Argument]:
        """What the marker takes."""
        task = Argument("task", task_or_name, REQUIRED, help="the name of a task, or a Task")
        return (task, *self.own, of_option("seed"), of_option("confidence"))

    def parse(self, asked: Asked) -> Any:
        """Return the arguments as they are."""
        return asked

    def measure(self, spec: Any, model: Any, run: Run) -> R:
        """Measure a model: a `Findings`, such as `findings` makes."""
        raise NotImplementedError(f"{type(self).__name__} has no measure(spec, model, run)")

    def findings(
        self, asked: Asked, run: Run, criteria: Iterable[Criterion], *, size: str, **more: Any
    ) -> Any:
        """Return what was found of a model, under the conditions that were asked for."""
        is_aa = asked.values["model"] == AA_MODEL
        return Findings(
            criteria=tuple(criteria),
            size=size,
            conditions=self.said(asked, but=("confidence",)),
            check=SMOKE_TEST if asked.is_smoke else AA_CHECK if is_aa else "",
            level=asked.shared(asked.values["confidence"]),
            seconds=run.seconds,
            **more,
        )

    def said(self, asked: Asked, *, but: tuple[str, ...]) -> dict[str, str]:
        """Return what the marker says, as text; of a task its name."""
        values = {**asked.values}
        if not isinstance(values.get("task"), str | None):
            values["task"] = values["task"].name
        names = (argument.name for argument in self.arguments if argument.name not in but)
        return {name: str(values[name]) for name in names}

    def criteria(self, result: R) -> Sequence[Criterion]:
        """Return what is asked of a result, and how it stands to each."""
        criteria: Sequence[Criterion] = getattr(result, "criteria")  # noqa: B009
        return criteria

    def blindness(self, result: Any) -> Blindness | None:
        """Return why a result says nothing of the model; None where it does, or fails anyway."""
        if not result.blind or self.labels[self.label(result)] >= Severity.BLIND:
            return None
        return Blindness(result.blind)

    def doubt(self, result: R) -> str | None:  # noqa: ARG002
        """Return why a verdict that may pass is not sure."""
        return None

    def word(self, severity: Severity) -> str:
        """Return the kind's first label that is as bad."""
        return worst_of(severity, self.labels).label

    def label(self, result: Any) -> str:
        """Return the kind's word for a result; of what is missed, the first says it."""
        if result.faults:
            return self.word(Severity.BROKEN)
        standings = {criterion.standing: criterion for criterion in reversed(self.criteria(result))}
        if Standing.MISSED in standings:
            return standings[Standing.MISSED].label or self.word(Severity.BAD)
        return self.word(Severity.UNSURE if Standing.OPEN in standings else Severity.GOOD)

    def judge(self, result: Any, max_verdict: MaxVerdict | None = None) -> Ruling:
        """Return what a result says to a test that accepts no verdict worse than this one.

        By default one that accepts what is not sure, as a marker does.
        """
        faults, check, label = result.faults, result.check, self.label(result)
        if check and not faults:
            return Ruling(label=self.word(Severity.UNSURE), severity=Severity.GOOD, check=check)
        blind = self.blindness(result)
        severity = Severity.BLIND if blind else self.labels[label]
        is_accepted = max_verdict is not None and severity <= max_verdict.severity
        reason = None if is_accepted or blind is None else blind.reason
        return Ruling(
            label=label,
            severity=severity,
            reason=faults[0] if faults else reason,
            doubt=self.doubt(result),
            check=check,
        )

    def alarm(self, result: Any) -> Alarm:
        """Return what a result brings to the family of all gates.

        The rate is of a model that only just meets one criterion, and the others with room to
        spare.
        """
        p_values = [criterion.p_value for criterion in self.criteria(result)] or [1.0]
        return Alarm(
            p_value=lambda: min(1.0, len(p_values) * min(p_values)),
            rate=(1 - result.level) / 2,
            is_settled=self.label(result) != self.word(Severity.UNSURE),
        )

    def card(
        self,
        result: Any,
        max_verdict: MaxVerdict | None = None,  # noqa: ARG002
        *,
        model: str = "",
    ) -> Card:
        """Return the card of a result; ``model`` is its name, and may be empty."""
        label, blind = self.label(result), self.blindness(result)
        words = self.words.get(label, Words(""))
        shown: dict[str, Any] = {
            "judged": "",
            "why": words.meaning,
            "do": words.advice,
            "gist": words.gist,
        }
        shown |= self.shown(result, model)
        judged, why, advice = (shown.pop(kind) for kind in ("judged", "why", "do"))
        whys = result.faults or (why,)
        if blind is not None:
            # The ruling says why, and no more is known.
            whys, advice = (), blind.advice
        notes = (Note("judged", judged), *(Note("why", text) for text in whys), Note("do", advice))
        return Card(notes=tuple(note for note in notes if note.text), **shown)

    def shown(self, result: Any, model: str) -> dict[str, Any]:
        """Return what the card of a result has beside the words of its label.

        "judged", "why" and "do" are texts of its notes of that kind.
        """
        criteria = self.criteria(result)
        first = criteria[0]
        return {
            "sentence": f"{first.title} {with_ends(first.found)}, needed {first.needed}, "
            f"{result.size}",
            "size": result.size,
            "cells": {criterion.title: f"{criterion.found.estimate:.3g}" for criterion in criteria},
            "table": self.table(result, name=model or "learned", form=".3g"),
            "effect": Effect(found=first.found, unit=self.unit, is_share=False, margin=first.bound),
            "numbers": numbers_of(
                {criterion.title.replace(" ", "_"): criterion.found for criterion in criteria}
            ),
        }

    def table(
        self, result: Any, *, name: str, form: str, number: str = "found", **more: Any
    ) -> Table:
        """Return the table of a result's criteria, numbers in this form and under that heading."""
        columns = (number, f"{percentage(result.level)} CI", "needed", "met")
        rows = (
            *(criterion.row(form) for criterion in self.criteria(result)),
            *more.pop("beside", ()),
        )
        return Table(name=name, columns=columns, rows=rows, **more)

    def entry(self, result: Any) -> Any:
        """Return what is kept of an accepted result."""
        intervals = {criterion.title: criterion.found for criterion in self.criteria(result)}
        return Kept(conditions=result.conditions, found=intervals, paired=result.paired)

    @property
    def read_entry(self) -> Any:
        """What reads an entry from plain values."""
        return reading(self.entry_type)

    def compare(self, accepted: Any, result: Any) -> Drift:
        """Compare a result with the one that was accepted.

        - NEW: there is none.
        - INCOMPARABLE: something else was asked, or nothing is common.
        - UNCHANGED: the same numbers.
        - REGRESSED, IMPROVED: a number differs by more than chance explains, of several each at its
          share of ``1 - level``; worse in one of them is worse.
        - UNRESOLVED: there is a difference, and chance explains it.
        """
        now = self.entry(result)
        if accepted is None:
            return Drift.new(now=self.followed(now))
        differs = tuple(self.differences(accepted, now))
        drift = None if differs else self.changed(accepted, now, result)
        if drift is None:
            why = ", ".join(differs) or "fewer than two common episodes"
            text = f"{self.from_to(accepted, now)}; {why}"
            drift = Drift(label=Label.INCOMPARABLE, text=text, differs=differs)
        return replace(drift, was=self.followed(accepted), now=self.followed(now))

    def differences(self, then: Any, now: Any) -> Iterator[str]:
        """Yield what is not as it was in the accepted run, and not the model."""
        for argument, value in now.conditions.items():
            if then.conditions.get(argument) != value:
                yield f"{argument} {then.conditions.get(argument)} -> {value}"
        if isinstance(now, Kept) and then.found.keys() != now.found.keys():
            yield "other numbers were asked"

    def followed(self, entry: Any) -> str:
        """Return the first number of an entry, as a table has it."""
        first = next(iter(entry.found.values()))
        return f"{first.estimate:.3g}"

    def from_to(self, then: Any, now: Any) -> str:
        """Return how the first number of one entry became that of the other."""
        title = next(iter(now.found))
        return f"{title} {self.followed(then)} -> {self.followed(now)}"

    def changed(self, then: Any, now: Any, result: Any) -> Drift | None:
        """Return what became of numbers that were asked for alike; None where nothing is common.

        Question by question where both have the same ones, else by intervals that lie apart.
        """
        level = 1 - (1 - result.level) / len(now.found)
        worse = []
        for criterion in self.criteria(result):
            old, new = (
                (entry.found[criterion.title], entry.paired.get(criterion.title))
                for entry in (then, now)
            )
            worse.append(worsening(old, new, level, is_floor=criterion.is_floor))
        low, high = max(change.low for change in worse), min(change.high for change in worse)
        is_same = all(
            np.array_equal(then.paired.get(title), errors) for title, errors in now.paired.items()
        )
        is_same &= then.found == now.found
        return Drift(
            label=Label.of(low, high, is_same=is_same),
            text=self.from_to(then, now),
            interval=worse[0],
        )

    def cost(self, result: Any) -> Cost:
        """Return what a forecast needs to know of the last run."""
        return Cost(seconds=result.seconds)

    def forecast(
        self, spec: Any, task: Any, *, cost: Mapping[str, Any] | None, accepted: Any
    ) -> ForecastLine:
        """Return what a gate will ask, and what it costs."""
        last = read_cost(Cost, cost)
        seconds = None if last is None else last.seconds * self.amount(spec, task)
        cells, notes = self.expected(spec, task, accepted)
        return ForecastLine(
            cells={**cells, "time": duration(seconds)}, notes=notes, seconds=seconds
        )

    def amount(self, spec: Any, task: Any) -> int:  # noqa: ARG002
        """Return how much of what `cost` counts a gate asks."""
        return 1

    def expected(
        self,
        spec: Any,
        task: Any,  # noqa: ARG002
        accepted: Any,  # noqa: ARG002
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return the cells of a forecast beside its time, and what a reader has to know of them."""
        unset = [name for name, value in spec.values.items() if value is None]
        return self.said(spec, but=("task", "seed", "confidence", *unset)), ()

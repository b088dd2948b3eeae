"""Gate on one number that may be at most a limit: all of a kind but how the number is measured."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pytest_cpg.contracts.errors import CURE, KindError, WorldModelError
from pytest_cpg.gates.arguments import REQUIRED, Argument, between, name, of_option
from pytest_cpg.gates.card import Card, Effect, Note, Ruling, Severity, Table, numbers_of
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kept import reading
from pytest_cpg.gates.kind import Alarm, Asked, ForecastLine, MaxVerdict, Run, worst_of
from pytest_cpg.stats import Interval, Sampled


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A number, and all that it is judged by.

    Attributes
    ----------
    limit : float
        The largest number that is accepted, above 0.
    size : str
        How much was measured, as "500 steps".
    conditions : mapping
        What the marker said beside; numbers under other conditions are not compared.
    p_value : float
        One-sided, against the claim that the number is at most the limit.
    """

    limit: float
    size: str
    conditions: Mapping[str, str]
    found: Interval
    p_value: float


# Of a float32, in which most models predict.
_LARGEST = 3.4e38
_LABELS = {
    "WITHIN LIMIT": Severity.GOOD,
    "UNCLEAR": Severity.UNSURE,
    "ABOVE LIMIT": Severity.BAD,
}


@dataclass(frozen=True, kw_only=True, eq=False)
class AtMost:
    """A kind of gate on one number, which is smaller for better models.

    It has a baseline, a forecast, and a share in the error rate of all gates.

    Attributes
    ----------
    marker, help : str
        As of any kind; the fixture has the marker's name.
    number : str
        Heads its column, and begins sentences: "one-step error".
    sample : callable
        Measures a model, given what is asked, the model and the run: returns the number as sampled,
        and on how much, as "500 steps".
    own : tuple of Argument
        What the marker takes beside the task, the limit, the seed and the level.
    labels : mapping
        Best first: one for each of GOOD, UNSURE and BAD.
    unit : str
        What it is counted in or by, as "of one step".
    meaning, advice : str
        Why the number is above the limit, and what to do then: one sentence each.
    most : float
        The largest number that a model can have, such as 1 of a share: from there on no model would
        miss a limit, and it is refused.
    """

    marker: str
    help: str
    number: str
    sample: Callable[[Asked, Any, Run], tuple[Sampled, str]]
    own: tuple[Argument, ...] = ()
    labels: Mapping[str, Severity] = field(default_factory=lambda: _LABELS)
    unit: str = ""
    meaning: str = ""
    advice: str = ""
    most: float = _LARGEST
    result: ClassVar = Measured
    read_entry: ClassVar = staticmethod(reading(Measured))

    def __post_init__(self) -> None:
        """Refuse labels that do not say all, and a number that is no name."""
        severities = (Severity.GOOD, Severity.UNSURE, Severity.BAD)
        lacking = [one.name for one in severities if one not in self.labels.values()]
        if lacking:
            raise ValueError(
                f"AtMost: labels lacks {' and '.join(lacking)}. Write a label for each of GOOD, "
                f"UNSURE and BAD."
            )
        if not isinstance(self.number, str):
            raise ValueError(f"AtMost: number is {self.number!r}. Write its name.")

    @property
    def fixture(self) -> str:
        """Named as the marker is."""
        return self.marker

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the marker takes."""
        limit = between(0, self.most)
        return (
            Argument("task", name, REQUIRED, help="the name of a task"),
            Argument("limit", limit, REQUIRED, help=f"the largest accepted {self.number}"),
            of_option("seed"),
            of_option("confidence"),
            *self.own,
        )

    def parse(self, asked: Asked) -> Asked:
        """Return the arguments as they are."""
        return asked

    def measure(self, spec: Asked, model: Any, run: Run) -> Measured:
        """Return the number with its interval."""
        limit = spec.values["limit"]
        run.progress(self.number, 0, 1)
        level = spec.shared(spec.values["confidence"])
        found, p_value, size = self._read(self.sample(spec, model, run), limit, level)
        return Measured(
            limit=limit,
            size=size,
            conditions=self._said(spec, but=("limit", "confidence")),
            found=found,
            p_value=p_value,
        )

    def judge(self, result: Measured, max_verdict: MaxVerdict) -> Ruling:  # noqa: ARG002
        """Return on which side of the limit the whole interval is."""
        severity = Severity.GOOD if result.found.high <= result.limit else Severity.UNSURE
        severity = Severity.BAD if result.found.low > result.limit else severity
        return Ruling(label=worst_of(severity, self.labels).label, severity=severity)

    def card(
        self,
        result: Measured,
        max_verdict: MaxVerdict,  # noqa: ARG002
        *,
        model: str = "",
    ) -> Card:
        """Return the number beside its limit."""
        found, limit = result.found, result.limit
        cells = {
            self.number: _text(found.estimate),
            "CI": f"[{_text(found.low)}, {_text(found.high)}]",
            "limit": f"{limit:g}",
        }
        # A number of numpy's compares to a bool of numpy's, which repeats no tuple.
        is_above = bool(found.estimate > limit)
        most = 2 * min(max(found.high, limit), sys.float_info.max / 2)
        notes = (Note("why", self.meaning), Note("do", self.advice)) if is_above else ()
        return Card(
            sentence=f"{self.number} {cells[self.number]} {cells['CI']}, limit {limit:g}, "
            f"{result.size}",
            size=result.size,
            cells=cells,
            table=Table.of(model, cells, found, axis=(min(0.0, found.low), most)),
            notes=tuple(note for note in notes if note.text),
            effect=Effect(found=found, unit=self.unit, is_share=False, margin=limit),
            numbers=numbers_of({self.number.replace(" ", "_").replace("-", "_"): found}),
        )

    def entry(self, result: Measured) -> Measured:
        """Return the whole result."""
        return result

    def compare(self, accepted: Measured | None, result: Measured) -> Drift:
        """Return how the number stands beside the accepted one."""
        found, now = result.found, _text(result.found.estimate)
        if accepted is None:
            return Drift.new(now=now)
        then, conditions = accepted.found, accepted.conditions
        differs = tuple(
            f"{name} {conditions.get(name)} -> {value}"
            for name, value in result.conditions.items()
            if value != conditions.get(name)
        )
        label = Label.of(found.low - then.high, found.high - then.low, is_same=then == found)
        text = f"{self.number} {_text(then.estimate)} -> {now}"
        return Drift(
            label=Label.INCOMPARABLE if differs else label,
            text="; ".join([text, *differs]),
            was=_text(then.estimate),
            now=now,
            differs=differs,
        )

    def forecast(self, spec: Asked, task: object, **known: object) -> ForecastLine:  # noqa: ARG002
        """Return what the marker says."""
        return ForecastLine(cells=self._said(spec, but=("task", "seed", "confidence")))

    def alarm(self, result: Measured) -> Alarm:
        """Return what the number brings to the family of all gates."""
        rate = (1 - result.found.level) / 2
        return Alarm(p_value=lambda: result.p_value, rate=rate, is_settled=result.p_value <= rate)

    def _read(self, answer: Any, limit: float, level: float) -> tuple[Interval, float, str]:
        """Return the number's interval and p-value, and on how much it was measured."""
        fault = f"the kind of gate {self.marker!r}: sample() returned {answer!r:.80}"
        wanted = 'to return the number as sampled, and on how much: Percentile(...), "500 steps".'
        match answer:
            case (sampled, str(size)):
                pass
            case _:
                raise KindError(f"{fault}, and has {wanted}")
        # Its class may be a user's.
        try:
            if not math.isfinite(number := sampled.estimate):
                raise WorldModelError(f"the {self.number} of the model is {number}. {CURE}")
            found, p_value = sampled.interval(level), sampled.p_above(limit)
            is_right = -math.inf < found.low <= found.high < math.inf
            is_right = is_right and found.level == level and 0 <= p_value <= 1
        except WorldModelError:
            raise
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise KindError(f"{fault}, which cannot be read ({told}). It has {wanted}") from error
        if is_right:
            return found, p_value, size
        raise KindError(
            f"{fault}: its interval({level:g}) is {found}, its p_above({limit:g}) {p_value}. Give "
            f"finite bounds in order, of that level, and a p-value in [0, 1]."
        )

    def _said(self, spec: Asked, *, but: tuple[str, ...]) -> dict[str, str]:
        return {
            one.name: str(spec.values[one.name]) for one in self.arguments if one.name not in but
        }


def _text(value: float) -> str:
    """Return three digits of a number.

    >>> [_text(value) for value in (0.5, 12, 123.4, 12345)]
    ['0.500', '12.0', '123', '1.23e+04']
    """
    return f"{value:#.3g}".removesuffix(".")

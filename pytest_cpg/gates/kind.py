"""Kind of gate: one question about a world model, from its marker to its card.

`plugin` turns markers and options into `Asked` and calls the kind; `report` and `render` know what
it returns, and no kind by name. A user's kind is contributed by the hook ``pytest_cpg_gates``; ours
are in `pytest_cpg.gates.GATES`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pytest_cpg.gates.arguments import Argument
from pytest_cpg.gates.card import Card, Ruling, Severity

if TYPE_CHECKING:
    from pytest_cpg.contracts import PlannerFactory, Task, TaskFactory, WorldModelFactory
    from pytest_cpg.episodes.arms import Execution
    from pytest_cpg.episodes.perturbation_names import PerturbationFactory
    from pytest_cpg.episodes.stage import Stage
    from pytest_cpg.world_models.checkpoints.readers import CheckpointReader

Spec = TypeVar("Spec")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Everything that a marker may name."""

    tasks: Mapping[str, TaskFactory]
    planners: Mapping[str, PlannerFactory]
    world_models: Mapping[str, WorldModelFactory]
    checkpoint_readers: Mapping[str, CheckpointReader] | None = None
    perturbations: Mapping[str, PerturbationFactory] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChoice:
    """A task that a gate names, built with its options when needed, as simulators are slow."""

    name: str
    make: TaskFactory
    options: tuple[tuple[str, Any], ...] = ()

    def build(self) -> Task:
        """Return the task; raise ComponentError unless it is all that a task is."""
        from pytest_cpg.contracts import Task
        from pytest_cpg.contracts.lookup import check_complete
        from pytest_cpg.contracts.task import check_facts

        return check_facts(check_complete("task", self.name, self.make(**dict(self.options)), Task))


def _unchanged(task: Task) -> Task:
    return task


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxVerdict:
    """The worst ruling that a test accepts: a label of its kind, or only how bad it may be."""

    label: str
    severity: Severity

    @property
    def accepts_all(self) -> bool:
        """Whether it accepts every verdict on a model that keeps its contract."""
        return self.severity >= Severity.BAD

    @property
    def exceeded(self) -> str:
        """Why a test fails whose verdict is worse."""
        return f"the verdict is worse than {self.label}"

    def refusal(self, ruling: Ruling) -> str | None:
        """Return why a ruling is not accepted; None where it is."""
        if ruling.reason:
            return ruling.reason
        return self.exceeded if ruling.severity > self.severity else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a test asks of its gate, once its markers and the session's options are merged.

    ``values`` has every argument of the kind, parsed, and ``sources`` where each is from:
    "session", "marker" or "project"; ``options`` those of the session that no marker gives.
    ``family_size`` gates share one error rate. ``is_smoke`` asks only to show that everything runs
    (--cpg-quick).
    """

    values: Mapping[str, Any]
    sources: Mapping[str, str]
    components: Components
    options: Mapping[str, Any] = field(default_factory=dict)
    family_size: int = 1
    is_smoke: bool = False

    def shared(self, level: float) -> float:
        """Return the level of an interval where all gates of the family share one error rate.

        >>> none = Components(tasks={}, planners={}, world_models={})
        >>> Asked(values={}, sources={}, components=none, family_size=5).shared(0.95)
        0.99
        """
        return 1 - (1 - level) / self.family_size

    def written(self, name: str, value: Any, *, beside: str = "") -> str:
        """Return how an argument that is an option, too, is written with another value.

        As it was given, or as the one ``beside`` it was.

        >>> none = Components(tasks={}, planners={}, world_models={})
        >>> asked = Asked(values={}, sources={"stop": "session"}, components=none)
        >>> asked.written("stop", "fixed"), asked.written("episodes", 50)
        ('--cpg-stop=fixed', 'episodes=50')
        """
        if self.sources.get(beside or name) == "session":
            return f"--cpg-{name.replace('_', '-')}={value}"
        return f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"

    @property
    def task(self) -> TaskChoice | None:
        """The task that the argument ``task`` names or is; None for a kind without one.

        Raises ComponentError when there is no such task, with the nearest one that there is.
        """
        from pytest_cpg.tasks import named_task

        task = self.values.get("task")
        if task is None:
            return None
        if isinstance(task, str):
            return TaskChoice(name=task, make=named_task(task, self.components.tasks))
        return TaskChoice(name=task.name, make=partial(_unchanged, task))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a measurement is made with: who runs it, how long it may take, and who watches.

    ``given`` has the values of the fixtures that the kind names; ``task`` returns a gate's task,
    built once a session. ``progress(what, done, total)`` shows how far a measurement is, and breaks
    it off once its time is over: ``what`` names its stage, and the rest of a `Stage` may follow in
    its order.
    """

    given: Mapping[str, Any]
    execution: Execution
    task: Callable[[TaskChoice], Task]
    progress: Callable[..., None]
    begun: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """How long the measurement has taken."""
        return time.monotonic() - self.begun

    def stage(self, name: str, stage: Stage) -> None:
        """Show how far a stage is, as arms tell it."""
        self.progress(name, *stage)


class Measuring(Protocol):
    """How one test measures: each time it is watched, has its time limit, and is judged."""

    def task(self, choice: TaskChoice) -> Task:
        """Return a gate's task, built once a session."""

    def measure(self, model: Any, **given: Any) -> Any:
        """Return the kind's result for a model, judged after the test's body.

        ``given`` stands in for fixtures that the kind names.
        """

    def beside(self) -> AbstractContextManager[Run]:
        """Give what something that is not judged is measured with."""

    def note(self, text: str, *, models: int) -> None:
        """Put something that is not judged into the summary, and say how many models it is of."""


class Lost(NamedTuple):
    """The episodes that a result lost and that can be run again, rising, and how they were lost.

    ``then`` is of the kind's own type, which the codec writes. ``telling`` are those that show
    most, first; empty where none shows more than another.
    """

    episodes: tuple[int, ...]
    then: Any
    telling: tuple[int, ...] = ()


class Alarm(NamedTuple):
    """What a result brings to the family of all gates.

    ``p_value()`` is one-sided, for a model that is no worse than the gate allows, and asked for
    once a family is complete; ``rate`` in (0, 1) is how often such a model fails the gate by
    chance. A settled result would change with no more evidence: the loss is proven, or its absence.
    """

    p_value: Callable[[], float]
    rate: float
    is_settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastLine:
    """What a gate could find before anything is run: its line of --cpg-plan.

    All gates of a kind have the same columns, and notes for their reader, which are said once.
    Seconds are None where nobody knows how long the gate takes.
    """

    cells: Mapping[str, str]
    notes: tuple[str, ...] = ()
    seconds: float | None = None


class GateKind(Protocol[Spec, Result]):
    """One question about a world model.

    What it may have beside, docs/kinds-of-gate.md names.
    """

    @property
    def marker(self) -> str:
        """What a test is marked with."""

    @property
    def fixture(self) -> str:
        """The fixture that measures, and gives the result."""

    @property
    def help(self) -> str:
        """What the marker asks, in one line."""

    @property
    def arguments(self) -> Sequence[Argument]:
        """What the marker may say beside what all kinds have.

        Those are ``max_verdict``, ``drift``, ``timeout``, ``model`` and ``id``.
        """

    @property
    def labels(self) -> Mapping[str, Severity]:
        """The kind's own words for its rulings, best first, and how bad each is."""

    @property
    def result(self) -> type[Result]:
        """The type of results: of frozen dataclasses and plain values, which the codec reads."""

    def parse(self, asked: Asked) -> Spec:
        """Return the arguments, checked, as a frozen value; raise ValueError with what to write.

        Without a ``task``, a `TaskChoice`, on which the model is judged, the gate has none: no
        ``oracle_dynamics``, no films, and only models that are made without a task.
        """

    def measure(self, spec: Spec, model: Any, run: Run) -> Result:
        """Measure a model."""

    def judge(self, result: Result, max_verdict: MaxVerdict) -> Ruling:
        """Return what a result says; it holds all that it is judged by, as it may be read again."""

    def card(self, result: Result, max_verdict: MaxVerdict, *, model: str = "") -> Card:
        """Return the card of a result; ``model`` is the judged model's name, if it has one."""


_RENAMED = {"GOOD PLANS": "NOT EXPLOITED"}


def max_verdict_of(
    given: Any, labels: Mapping[str, Severity], *, is_read: bool = False
) -> MaxVerdict:
    """Return what ``max_verdict`` accepts: a label of the kind in any case, or a severity's name.

    What is read from a report may have an earlier name. Raises ValueError when there is no such
    word; the message names the nearest one.

    >>> max_verdict_of("inaccurate", {"ACCURATE": Severity.GOOD, "INACCURATE": Severity.BAD})
    MaxVerdict(label='INACCURATE', severity=<Severity.BAD: 3>)
    """
    wanted = " ".join(str(given).upper().replace("-", " ").replace("_", " ").split())
    # Nothing accepts a model that broke its contract.
    severities = {one.name: one for one in Severity if one is not Severity.BROKEN}
    labels = {label: one for label, one in labels.items() if one is not Severity.BROKEN}
    now = _RENAMED.get(wanted)
    if now in labels and not is_read:
        raise ValueError(f'the verdict {wanted} is called {now}. Write max_verdict="{now}".')
    wanted = now if now in labels else wanted
    if wanted in labels:
        return MaxVerdict(label=wanted, severity=labels[wanted])
    if wanted in severities:
        return worst_of(severities[wanted], labels)
    from difflib import get_close_matches

    close = get_close_matches(wanted, [*labels, *severities], n=1)
    words = ", ".join([*labels, *severities])
    fix = f"Did you mean {close[0]!r}?" if close else f"Known: {words}."
    raise ValueError(f"no verdict named {given!r}. {fix}")


def worst_of(severity: Severity, labels: Mapping[str, Severity]) -> MaxVerdict:
    """Return a severity in the kind's own word, where it has one."""
    label = next((label for label, one in labels.items() if one is severity), severity.name)
    return MaxVerdict(label=label, severity=severity)


_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """One statement about several gates, or about the baseline.

    One that ``warns`` has to be known before a verdict is believed; one that ``answers`` says that
    what was asked for has been done, which quiet sessions say, too.
    """

    text: str
    fails: bool = False
    warns: bool = False
    answers: bool = False


class Compared(NamedTuple):
    """One comparison of one gate, by its own name, and the worst ruling that its test accepts."""

    gate: str
    name: str
    result: Any
    max_verdict: MaxVerdict
    is_excused: bool = False


def named(names: Sequence[str]) -> str:
    """Return the first few names, and how many more there are."""
    shown = ", ".join(names[:_MOST_NAMED])
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{shown}{more}"

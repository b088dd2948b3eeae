"""Kind of gate: one question about a world model, from its marker to its card.

`plugin` turns markers and options into `Asked` and calls the kind; `report` and `render` know what
it returns, and no kind by name. A kind is contributed by the hook ``pytest_cpg_gates``, the
built-in ones too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from pytest_cpg.gates.arguments import Argument
from pytest_cpg.gates.card import Card, Ruling, Severity

if TYPE_CHECKING:
    from pytest_cpg.contracts import PlannerFactory, Task, TaskFactory, WorldModelFactory
    from pytest_cpg.episodes.arms import Execution
    from pytest_cpg.gates.planning_gap.compare import Comparison

Spec = TypeVar("Spec", bound="OfTask")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Everything that a marker may name."""

    tasks: Mapping[str, TaskFactory]
    planners: Mapping[str, PlannerFactory]
    world_models: Mapping[str, WorldModelFactory]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChoice:
    """A task that a gate names; building it is left until it is needed, as simulators are slow.

    Attributes
    ----------
    name : str
    make : callable
        Builds it, called with the options.
    options : tuple of (name, value)
    """

    name: str
    make: TaskFactory
    options: tuple[tuple[str, Any], ...] = ()


class OfTask(Protocol):
    """What a test's markers ask for, checked and complete: a frozen value of the kind's own."""

    @property
    def task(self) -> TaskChoice:
        """The task, on which the model is judged."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """The worst ruling that a test accepts: a label of its kind, or only how bad it may be."""

    label: str
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a test asks of its gate, once its markers and the session's options are merged.

    Attributes
    ----------
    values : mapping
        Every argument of the kind by name, parsed.
    sources : mapping
        Argument name to where its value is from: ``"session"``, ``"marker"`` or ``"project"``.
    components : Components
        What is in reach of the test.
    accepted : Accepted or None
        From ``max_verdict``; None where the marker does not say.
    options : mapping
        Values of the session's options that no marker gives, by name.
    family_size : int
        Gates that share one error rate, this one included.
    is_smoke : bool
        Whether only to show that everything runs, without a verdict (--cpg-quick).
    """

    values: Mapping[str, Any]
    sources: Mapping[str, str]
    components: Components
    accepted: Accepted | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    family_size: int = 1
    is_smoke: bool = False

    def task(self, given: str) -> TaskChoice:
        """Return the task of this name.

        Raises
        ------
        ComponentError
            When there is none, with the nearest one that there is.
        """
        from pytest_cpg.tasks.families import named_task

        return TaskChoice(name=given, make=named_task(given, self.components.tasks))


class Run(Protocol):
    """What a measurement is made with: who runs it, how long it may take, and who watches."""

    @property
    def given(self) -> Mapping[str, Any]:
        """Values of the fixtures that the kind names."""
        ...

    @property
    def execution(self) -> Execution:
        """Where episodes are run and kept."""
        ...

    def task(self, choice: TaskChoice) -> Task:
        """Return a gate's task, built once a session."""
        ...

    def progress(self, what: str, done: int, count: int) -> None:
        """Show how far a measurement is, and break it off once its time is over."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What is known around a result when its card is made: little, where it comes from a report.

    Attributes
    ----------
    ruling : Ruling
    accepted : Accepted
    reason : str or None
        Why the test fails for this result; None where it does not.
    drift : Comparison or None
        With the baseline.
    model : str
        Name of the learned model; empty where the test brings its own.
    nodeid : str
        The test, as it is typed where pytest was started.
    typed : mapping
        Options that were asked of the session and decide the gate.
    replay : str
        The command that runs lost episodes again; empty for none.
    """

    ruling: Ruling
    accepted: Accepted
    reason: str | None = None
    drift: Comparison | None = None
    model: str = ""
    nodeid: str = ""
    typed: Mapping[str, Any] = field(default_factory=dict)
    replay: str = ""


class Alarm(NamedTuple):
    """What a result brings to the family of all gates.

    Attributes
    ----------
    p_value : float
        One-sided, of a model that is no worse than the gate allows.
    rate : float
        How often such a model fails the gate by chance, in (0, 1).
    is_settled : bool
        Whether more evidence would change nothing: the loss is proven, or its absence.
    """

    p_value: float
    rate: float
    is_settled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a gate could find before anything is run: its line of --cpg-plan.

    Attributes
    ----------
    cells : mapping
        Column to text; all gates of a kind have the same columns.
    notes : tuple of str
        What a reader of the cells has to know; said once for all gates.
    """

    cells: Mapping[str, str]
    notes: tuple[str, ...] = ()


class GateKind(Protocol[Spec, Result]):
    """One question about a world model.

    Optional methods; whoever asks for one that a kind lacks is refused by the option's name:

    - ``entry(result) -> mapping``: what is kept of a result that is accepted, plain values, and
      ``compare(accepted, result) -> Comparison``, of an entry with a new result: the baseline.
    - ``forecast(spec, task, cost, accepted) -> Forecast``: --cpg-plan. ``cost`` is what
      ``cost(result)`` said of the last run, and ``accepted`` the entry of the baseline; each may be
      None.
    - ``replay(spec, lost, model, run) -> lines``, with ``lost(result)``: --cpg-replay.
    - ``alarm(result) -> Alarm``: --cpg-correction, the family of all gates.
    - ``together(results) -> findings``: what several results of the kind say together.

    Attributes
    ----------
    marker, fixture : str
        What a test is marked with, and the fixture that measures and gives the result.
    help : str
        What the marker asks, in one line.
    arguments : sequence of Argument
        Beside ``id``, ``max_verdict``, ``drift``, ``timeout`` and ``model``, which all kinds have.
    labels : mapping
        The kind's own words for its rulings, and how bad each is.
    fixtures : sequence of str
        Fixtures beside ``learned_dynamics`` whose values a measurement needs.
    result : type
        Of results: built of frozen dataclasses and plain values, which the codec reads and writes.
    """

    marker: str
    fixture: str
    help: str
    arguments: Sequence[Argument]
    labels: Mapping[str, Severity]
    fixtures: Sequence[str]
    result: type[Result]

    def parse(self, asked: Asked) -> Spec:
        """Return what is asked for, checked; raise ValueError with what to write instead."""
        ...

    def measure(self, spec: Spec, model: Any, run: Run) -> Result:
        """Measure a model."""
        ...

    def judge(self, result: Result, accepted: Accepted) -> Ruling:
        """Return what a result says; it holds all that it is judged by, as it may be read again."""
        ...

    def card(self, result: Result, context: Context) -> Card:
        """Return what a result looks like."""
        ...

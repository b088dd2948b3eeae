"""Marker: what a test asks of its gate, checked and completed into a frozen value."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pytest_cpg.settings import OPTIONS, Settings, between, whole

if TYPE_CHECKING:
    from pytest_cpg.contracts import Planner, PlannerFactory, Task, TaskFactory, WorldModelFactory
    from pytest_cpg.gates.planning_gap import StartMode
    from pytest_cpg.stats import Verdict

T = TypeVar("T")


class Mark(Protocol):
    """A pytest mark, as far as it is read here."""

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments."""
        ...

    @property
    def kwargs(self) -> Mapping[str, Any]:
        """Keyword arguments."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GateSpec:
    """One test's gate: its markers and the session's settings, checked and complete.

    Attributes
    ----------
    id : str
        The name the gate is counted and reported under.
    task, model : str
        Names for the report; ``model`` is empty when the test brings its own.
    make_task : callable
        Builds the task; deferred, because a simulator takes a while to load.
    make_model : callable or None
        Builds the named world model for a task.
    level : float
        Coverage of the intervals, in (0, 1).
    """

    id: str
    task: str
    budget: int | None
    make_task: TaskFactory
    planner: Planner
    model: str
    make_model: WorldModelFactory | None
    max_verdict: Verdict
    episodes: int
    seed: int
    level: float
    tolerance: float
    starts: StartMode
    min_oracle: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Everything that a marker may name."""

    tasks: Mapping[str, TaskFactory]
    planners: Mapping[str, PlannerFactory]
    world_models: Mapping[str, WorldModelFactory]


_MARKER_ONLY = (
    "task",
    "planner",
    "max_verdict",
    "starts",
    "horizon",
    "budget",
    "min_oracle",
    "model",
    "id",
)


def parse_gate(
    markers: Iterable[Mark], settings: Settings, components: Components, *, nodeid: str
) -> GateSpec:
    """Merge a test's markers, closest first, with the settings, and check every value.

    Raises
    ------
    ValueError, ComponentError
        Naming the value and what to type instead.
    """
    from pytest_cpg.registry import lookup
    from pytest_cpg.stats import parse_verdict

    marked = _merged(markers)
    if "task" not in marked:
        raise ValueError(
            'the marker names no task. Write @pytest.mark.cpg(task="acrobot-swingup").'
        )
    task, make_task = _task(marked["task"], components.tasks)
    if "budget" in marked:
        _checked("budget", whole(1), marked["budget"])
    model = marked.get("model", "")
    values = {
        option.name: _checked(option.name, option.parse, settings.resolve(option.name, marked))
        for option in OPTIONS
    }
    _check_can_fail(values["episodes"], values["confidence"])
    return GateSpec(
        id=_text("id", marked.get("id", nodeid)),
        task=task,
        budget=marked.get("budget"),
        make_task=make_task,
        planner=_planner(marked, components.planners),
        model=_model(model),
        make_model=lookup("world model", model, components.world_models) if model else None,
        max_verdict=parse_verdict(marked.get("max_verdict", "INCONCLUSIVE")),
        episodes=values["episodes"],
        seed=values["seed"],
        level=values["confidence"],
        tolerance=values["tolerance"],
        starts=_starts(marked.get("starts", "sampled")),
        min_oracle=(
            _checked("min_oracle", between(0, 1), marked["min_oracle"])
            if marked.get("min_oracle") is not None
            else None
        ),
    )


def _merged(markers: Iterable[Mark]) -> dict[str, Any]:
    """Return the arguments of all markers; the closest marker that gives one wins."""
    from pytest_cpg.registry import did_you_mean

    known = {*_MARKER_ONLY, *(option.name for option in OPTIONS)}
    marked: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            raise ValueError(
                f"the marker takes keyword arguments only, got {marker.args[0]!r}. "
                f"Write @pytest.mark.cpg(task={marker.args[0]!r})."
            )
        for name, value in marker.kwargs.items():
            if name not in known:
                raise ValueError(
                    f"the marker has no argument {name!r}. {did_you_mean(name, known)}"
                )
            marked.setdefault(name, value)
    return marked


def _checked(name: str, parse: Callable[[Any], Any], value: Any) -> Any:
    try:
        return parse(value)
    except ArgumentTypeError as error:
        raise ValueError(f"{name}: {error}") from None


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name}: need a name, got {value!r}")
    return value


def _model(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError(
            f"model: need the name of a registered world model, got {given!r}. Return the model "
            f"itself from a learned_dynamics fixture."
        )
    return given


def _task(given: Any, tasks: Mapping[str, TaskFactory]) -> tuple[str, TaskFactory]:
    from pytest_cpg.contracts import Task
    from pytest_cpg.registry import lookup

    if isinstance(given, str):
        return given, lookup("task", given, tasks)
    if isinstance(given, Task):
        return given.name, lambda budget=None: _rebudgeted(given, budget)
    raise ValueError(f"task: need the name of a task or a Task, got {given!r}")


def _rebudgeted(task: Task, budget: int | None) -> Task:
    return _replaced("task", task, "budget", budget)


def _planner(marked: Mapping[str, Any], planners: Mapping[str, PlannerFactory]) -> Planner:
    from pytest_cpg.contracts import Planner
    from pytest_cpg.registry import check_complete, lookup

    given = marked.get("planner", "random-shooting")
    horizon = marked.get("horizon")
    if horizon is not None:
        _checked("horizon", whole(1), horizon)
    if isinstance(given, str):
        factory = lookup("planner", given, planners)
        planner = factory() if horizon is None else factory(horizon=horizon)
        return check_complete("planner", given, planner, Planner)
    if isinstance(given, type):
        raise ValueError(f"planner: write {given.__name__}() for an object of {given!r}")
    if not isinstance(given, Planner):
        raise ValueError(f"planner: need the name of a planner or a Planner, got {given!r}")
    return _replaced("planner", given, "horizon", horizon)


def _replaced(kind: str, component: T, name: str, value: Any) -> T:
    """Return a component with one field changed, when there is a change to make."""
    if value is None or getattr(component, name) == value:
        return component
    if is_dataclass(component) and name in {field.name for field in fields(component)}:
        return replace(component, **{name: value})  # type: ignore[type-var]  # checked above
    raise ValueError(f"{name}: set it on the {kind} itself, {component!r} cannot be changed")


def _starts(given: Any) -> StartMode:
    if given == "sampled" or given == "fixed":
        return given  # type: ignore[no-any-return]  # narrowed by the comparison
    raise ValueError(f'starts: need "sampled" or "fixed", got {given!r}')


def _check_can_fail(episodes: int, level: float) -> None:
    from pytest_cpg.stats import smallest_decisive_episodes

    least = smallest_decisive_episodes(level=level)
    if episodes < least:
        raise ValueError(
            f"a gate with {episodes} episode{'s'[: episodes != 1]} per arm can never fail at "
            f"confidence {level:g}: even {episodes}/{episodes} against 0/{episodes} is "
            f"INCONCLUSIVE. Use --cpg-episodes={least} or more; 50 is a good start."
        )

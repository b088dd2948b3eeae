"""Marker: what a test asks of its gate, checked and completed into a frozen value."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Protocol

from pytest_cpg.gates.arguments import between, whole
from pytest_cpg.gates.planning_gap.sizes import Asked, episodes_of, interval_of
from pytest_cpg.plugin.options import OPTIONS
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.contracts import Planner, PlannerFactory, Task, TaskFactory, WorldModelFactory
    from pytest_cpg.episodes.arm import Metric
    from pytest_cpg.episodes.design import StartMode
    from pytest_cpg.episodes.perturbations import Perturbation
    from pytest_cpg.gates.planning_gap.stopping import StopMode
    from pytest_cpg.stats import Verdict


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
    task_options : tuple of pairs
        Names and values that ``make_task`` is called with.
    is_model_typed : bool
        Whether the model was named for the whole session, and so wins over a fixture.
    make_model : callable or None
        Builds the named world model for a task.
    level : float
        Coverage of the intervals, in (0, 1).

    The other fields are those of `Design` and `Criteria`.
    """

    id: str
    task: str
    make_task: TaskFactory
    task_options: tuple[tuple[str, Any], ...]
    planner: Planner
    model: str
    is_model_typed: bool
    make_model: WorldModelFactory | None
    max_verdict: Verdict
    episodes: int
    seed: int
    level: float
    tolerance: float
    starts: StartMode
    min_oracle: float | None
    interval: str
    margin: float | None
    metric: Metric
    stop: StopMode
    oracle_episodes: int | None
    drift: str
    timeout: float
    group: str
    perturbation: Perturbation | None
    family_size: int
    is_smoke: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """Everything that a marker may name."""

    tasks: Mapping[str, TaskFactory]
    planners: Mapping[str, PlannerFactory]
    world_models: Mapping[str, WorldModelFactory]


# What a marker says of its task: how each is checked.
_TASK_OPTIONS: Mapping[str, Callable[[Any], Any]] = {
    "budget": whole(1),
    "action_repeat": whole(1),
    "actions": lambda given: _word("actions", given, "levels", "box"),
    "threshold": between(float("-inf"), float("inf")),
    "least_return": between(float("-inf"), float("inf")),
}
_MARKER_ONLY = (
    "task",
    "planner",
    "max_verdict",
    "starts",
    "horizon",
    *_TASK_OPTIONS,
    "min_oracle",
    "margin",
    "metric",
    "group",
    "perturbation",
    "id",
)
_OF_GATES = tuple(option for option in OPTIONS if option.is_for_one_gate)


_SMOKE_EPISODES = 2
# A planner that no name can stand for.
_POLICY_GUIDED = "policy-guided"


def parse_gate(
    markers: Iterable[Mark],
    settings: Settings,
    components: Components,
    *,
    nodeid: str,
    family_size: int = 1,
) -> GateSpec:
    """Merge a test's markers, closest first, with the settings, and check every value.

    Parameters
    ----------
    family_size : int
        Gates that share one error rate, this one included.

    Raises
    ------
    ValueError, ComponentError
        Naming the value and what to type instead.
    """
    from pytest_cpg.planners.presets import PRESET, completed, preset_planner
    from pytest_cpg.stats import parse_verdict
    from pytest_cpg.world_models.checkpoints.source import factory_of

    marked = _merged(markers)
    if "task" not in marked:
        raise ValueError(
            "the marker names no task. Write "
            '@pytest.mark.cpg(task="reacher-easy", planner="preset").'
        )
    task, make_task = _task(marked["task"], components.tasks)
    marked = completed(marked)
    planners: dict[str, PlannerFactory] = {
        **components.planners,
        PRESET: partial(preset_planner, task),
    }
    task_options = _task_options(marked, task, make_task)
    sources = {option.name: settings.source(option.name, marked) for option in _OF_GATES}
    values = {option.name: settings.resolve(option.name, marked) for option in _OF_GATES}
    for option in _OF_GATES:
        if sources[option.name] == "marker":
            values[option.name] = _checked(option.name, option.parse, values[option.name])
    model = values["model"]
    asked = Asked(values=values, sources=sources)
    metric = _word("metric", marked.get("metric", "success"), "success", "return")
    if metric == "return":
        _check_returns(marked)
        values.update(stop="fixed", interval="auto")
    elif task.startswith("gym:") and task == marked["task"] and not _has_goal(marked):
        raise ValueError(
            f'task {task!r} has no goal of its own. Write metric="return", threshold= with the '
            f"reward of a step that succeeds, or least_return= with the return of such an episode."
        )
    if marked.get("threshold") is not None and marked.get("least_return") is not None:
        raise ValueError(
            "threshold= says which step succeeds, and least_return= which episode does. Leave one "
            "of them out of this marker."
        )
    margin = _margin(marked.get("margin"), metric)
    gap_level = 1 - (1 - values["confidence"]) / family_size
    has_margin = margin is not None and metric == "success"
    interval = interval_of(values["interval"], family_size, has_margin=has_margin)
    episodes = episodes_of(asked, metric, gap_level, interval, has_margin=has_margin)
    # A margin asks for proof, so that what is not proven must not pass.
    strictest = "INCONCLUSIVE" if margin is None else "MODEL AS GOOD AS ORACLE"
    spec = GateSpec(
        id=_id(marked["id"]) if "id" in marked else nodeid,
        task=task,
        make_task=make_task,
        task_options=task_options,
        planner=_planner(marked, planners),
        model=model,
        is_model_typed=bool(model) and settings.source("model", marked) == "session",
        make_model=(
            factory_of(model, components.world_models, trusted=settings.of_session("trust"))
            if model
            else None
        ),
        max_verdict=parse_verdict(marked.get("max_verdict", strictest)),
        episodes=episodes,
        seed=values["seed"],
        level=values["confidence"],
        tolerance=values["tolerance"],
        starts=_word("starts", marked.get("starts", "sampled"), "sampled", "fixed"),
        min_oracle=(
            _checked("min_oracle", between(0, 1), marked["min_oracle"])
            if marked.get("min_oracle") is not None
            else None
        ),
        interval=interval,
        margin=margin,
        metric=metric,
        stop=values["stop"],
        oracle_episodes=values["oracle_episodes"] or None,
        drift=values["drift"],
        timeout=values["timeout"],
        group=_text("group", marked.get("group", "")),
        perturbation=_perturbation(marked.get("perturbation")),
        family_size=family_size,
        is_smoke=False,
    )
    if "quick" not in settings.switches:
        return spec
    return replace(
        spec, episodes=_SMOKE_EPISODES, stop="fixed", oracle_episodes=None, is_smoke=True
    )


def _merged(markers: Iterable[Mark]) -> dict[str, Any]:
    """Return the arguments of all markers; the closest marker that gives one wins."""
    from pytest_cpg.contracts.lookup import did_you_mean

    known = {*_MARKER_ONLY, *(option.name for option in _OF_GATES)}
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
    if re.search(r"[\ud800-\udfff]", value):
        raise ValueError(f"{name}: need a name without lone surrogates, got {value!r}")
    return value


def _id(given: Any) -> str:
    """Return a gate's own name, which must not look like a test's or like a second comparison."""
    name = _text("id", given)
    if not name or "::" in name or re.search(r" #\d+$", name):
        raise ValueError(f"id: need a name without '::' that does not end in ' #2', got {name!r}")
    return name


def _task(given: Any, tasks: Mapping[str, TaskFactory]) -> tuple[str, TaskFactory]:
    from pytest_cpg.contracts import Task
    from pytest_cpg.tasks.families import named_task

    if isinstance(given, str):
        return given, named_task(given, tasks)
    if isinstance(given, Task):
        return given.name, lambda **options: _changed(given, options)
    raise ValueError(f"task: need the name of a task or a Task, got {given!r}")


def _changed(task: Task, options: Mapping[str, Any]) -> Task:
    """Return a task of the user's with some of its fields changed."""
    from pytest_cpg.contracts import BoxActions, FiniteActions
    from pytest_cpg.episodes.design import replaced

    for name, value in options.items():
        changed = replaced("task", task, name, value)
        if not isinstance(changed.actions, (FiniteActions, BoxActions)):
            raise ValueError(f"{name}: set it on the task itself, {task!r} cannot be changed")
        task = changed
    return task


def _task_options(
    marked: Mapping[str, Any], task: str, make_task: TaskFactory
) -> tuple[tuple[str, Any], ...]:
    """Return what a marker says of its task, checked as far as can be without building it."""
    given = {name: marked[name] for name in _TASK_OPTIONS if marked.get(name) is not None}
    for name, value in given.items():
        given[name] = _checked(name, _TASK_OPTIONS[name], value)
        try:
            signature(make_task).bind_partial(**{name: given[name]})
        except TypeError:
            raise ValueError(
                f"{name}: task {task!r} does not know it. Leave it out of this marker."
            ) from None
        # Something that cannot be asked what it takes.
        except ValueError:
            continue
    return tuple(given.items())


def _planner(marked: Mapping[str, Any], planners: Mapping[str, PlannerFactory]) -> Planner:
    from pytest_cpg.contracts import Planner
    from pytest_cpg.contracts.lookup import check_complete, lookup
    from pytest_cpg.episodes.design import replaced

    given = marked.get("planner", "random-shooting")
    horizon = marked.get("horizon")
    if horizon is not None:
        horizon = _checked("horizon", whole(1), horizon)
    if given == _POLICY_GUIDED and given not in planners:
        raise ValueError(
            f"planner: {given!r} has to be given its policy. Write "
            f"planner=PolicyGuided(policy=...), from pytest_cpg.planners."
        )
    if isinstance(given, str):
        factory = lookup("planner", given, planners)
        planner = factory() if horizon is None else factory(horizon=horizon)
        return check_complete("planner", given, planner, Planner)
    if isinstance(given, type):
        raise ValueError(f"planner: write {given.__name__}() for an object of {given!r}")
    if not isinstance(given, Planner):
        raise ValueError(f"planner: need the name of a planner or a Planner, got {given!r}")
    return replaced("planner", given, "horizon", horizon)


def _perturbation(given: Any) -> Perturbation | None:
    from pytest_cpg.episodes.perturbations import parse_perturbation

    try:
        return parse_perturbation(given)
    except ValueError as error:
        raise ValueError(f"perturbation: {error}") from None


def _word(name: str, given: Any, *choices: str) -> Any:
    if given in choices:
        return given
    wanted = " or ".join(f'"{choice}"' for choice in choices)
    raise ValueError(f"{name}: need {wanted}, got {given!r}")


def _margin(given: Any, metric: Metric) -> float | None:
    if given is None:
        return None
    return _checked("margin", between(0, 1 if metric == "success" else float("inf")), given)  # type: ignore[no-any-return]  # what between returns


def _has_goal(marked: Mapping[str, Any]) -> bool:
    """Say whether a marker tells when an episode has succeeded."""
    return any(marked.get(name) is not None for name in ("threshold", "least_return"))


def _check_returns(marked: Mapping[str, Any]) -> None:
    """Refuse what a marker asks of returns in vain; what a session asks is for its other gates."""
    if marked.get("least_return") is not None:
        raise ValueError(
            'least_return= says which returns are a success, and metric="return" compares the '
            "returns themselves. Leave one of them out of this marker."
        )
    if marked.get("stop", "fixed") != "fixed":
        raise ValueError(
            f'stop={marked["stop"]!r} looks at successes early, and metric="return" has no such '
            f"rule. Leave stop= out of this marker."
        )
    if marked.get("interval", "auto") != "auto":
        raise ValueError(
            f'interval={marked["interval"]!r} bounds success rates: metric="return" has its own '
            f"interval (t, on paired differences). Leave interval= out of this marker."
        )

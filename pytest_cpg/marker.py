"""Marker: what a test asks of its gate, checked and completed into a frozen value."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pytest_cpg.options import OPTIONS, between, whole
from pytest_cpg.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.contracts import Planner, PlannerFactory, Task, TaskFactory, WorldModelFactory
    from pytest_cpg.gates.design import Metric, StartMode
    from pytest_cpg.gates.stopping import StopMode
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

    The other fields are those of `Design`.
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
    interval: str
    margin: float | None
    metric: Metric
    stop: StopMode
    oracle_episodes: int | None
    drift: str
    timeout: float
    group: str
    family_size: int
    is_smoke: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is asked of one gate, and where.

    Attributes
    ----------
    values : dict
        Option name to value.
    sources : mapping
        Option name to ``"session"``, ``"marker"`` or ``"project"``.
    """

    values: dict[str, Any]
    sources: Mapping[str, str]

    def is_refused(self, name: str, *, beside: str) -> bool:
        """Say whether an option without effect is a mistake: whoever asks for both can mend it.

        What a session asks of all gates need not fit one that says otherwise in its marker, nor
        what a marker asks a session that says otherwise for once.
        """
        source, other = self.sources[name], self.sources[beside]
        if source == "project" and name == "episodes":
            # It always has a value.
            return False
        return source == other or other == "project"


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
    "margin",
    "metric",
    "group",
    "model",
    "id",
)
_OF_GATES = tuple(option for option in OPTIONS if option.is_for_one_gate)


_SMOKE_EPISODES = 2
# Calibrating a sequential boundary takes 13 s at the first, and no time at the second.
_MOST_CALIBRATED, _QUICK = 1000, 150


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
        for option in _OF_GATES
    }
    asked = _Asked(
        values=values,
        sources={option.name: settings.source(option.name, marked) for option in _OF_GATES},
    )
    metric = _word("metric", marked.get("metric", "success"), "success", "return")
    if metric == "return":
        _check_returns(marked)
        values.update(stop="fixed", interval="auto")
    margin = _margin(marked.get("margin"), metric)
    gap_level = 1 - (1 - values["confidence"]) / family_size
    episodes = _episodes(asked, metric, gap_level, family_size)
    # A margin asks for proof, so that what is not proven must not pass.
    strictest = "INCONCLUSIVE" if margin is None else "MODEL AS GOOD AS ORACLE"
    spec = GateSpec(
        id=_id(marked["id"]) if "id" in marked else nodeid,
        task=task,
        budget=marked.get("budget"),
        make_task=make_task,
        planner=_planner(marked, components.planners),
        model=_model(model),
        make_model=lookup("world model", model, components.world_models) if model else None,
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
        interval=_interval(values["interval"], family_size),
        margin=margin,
        metric=metric,
        stop=values["stop"],
        oracle_episodes=values["oracle_episodes"] or None,
        drift=values["drift"],
        timeout=values["timeout"],
        group=_text("group", marked.get("group", "")),
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
    from pytest_cpg.registry import did_you_mean

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


def _word(name: str, given: Any, *choices: str) -> Any:
    if given in choices:
        return given
    wanted = " or ".join(f'"{choice}"' for choice in choices)
    raise ValueError(f"{name}: need {wanted}, got {given!r}")


def _margin(given: Any, metric: Metric) -> float | None:
    if given is None:
        return None
    return _checked("margin", between(0, 1 if metric == "success" else float("inf")), given)  # type: ignore[no-any-return]  # what between returns


def _interval(given: str, family_size: int) -> str:
    """Return the method meant by "auto".

    At the levels of a family, Agresti and Caffo's interval excludes 0 up to 2.4 times as often as
    it should (docs/statistics.md); Tango's does not.
    """
    if given != "auto":
        return given
    return "agresti-caffo" if family_size == 1 else "tango"


def _check_returns(marked: Mapping[str, Any]) -> None:
    """Refuse what a marker asks of returns in vain; what a session asks is for its other gates."""
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


def _episodes(asked: _Asked, metric: Metric, gap_level: float, family_size: int) -> int:
    """Return the most episodes per arm, once all that goes with their number fits together."""
    values = asked.values
    stop, oracle_episodes = values["stop"], values["oracle_episodes"]
    if stop == "fixed":
        if metric == "success":
            interval = _interval(values["interval"], family_size)
            _check_can_fail(values["episodes"], gap_level, interval)
        elif values["episodes"] < 2:
            raise ValueError('metric="return" needs at least 2 episodes. Use --cpg-episodes=50.')
        if asked.sources["max_episodes"] == asked.sources["stop"] == "marker":
            raise ValueError(
                f"max_episodes={values['max_episodes']} says nothing of a gate that runs all its "
                f'episodes. Use episodes={values["max_episodes"]}, or add stop="sequential".'
            )
        if 0 < oracle_episodes < values["episodes"]:
            if asked.is_refused("oracle_episodes", beside="episodes"):
                raise ValueError(
                    f"the oracle arm is to have {oracle_episodes} episodes, fewer than the "
                    f"{values['episodes']} of the others. Use --cpg-oracle-episodes="
                    f"{values['episodes']} or more, or leave it out."
                )
            values["oracle_episodes"] = 0
        return int(values["episodes"])
    # Whoever gives both limits is ready for either kind of gate.
    is_only_limit = asked.sources["episodes"] != asked.sources["max_episodes"]
    if is_only_limit and asked.is_refused("episodes", beside="stop"):
        raise ValueError(
            f"with stop={stop!r} the limit is max_episodes, and episodes says nothing. Use "
            f"--cpg-max-episodes={values['episodes']}, or max_episodes= in the marker."
        )
    if oracle_episodes and asked.is_refused("oracle_episodes", beside="stop"):
        raise ValueError(
            f"stop={stop!r} compares the arms start by start, and has no use for more oracle "
            f"episodes. Leave --cpg-oracle-episodes out, or use --cpg-stop=fixed."
        )
    if values["interval"] != "auto" and asked.is_refused("interval", beside="stop"):
        raise ValueError(
            f"stop={stop!r} has an interval of its own: leave interval={values['interval']!r} "
            f'out, or use stop="fixed".'
        )
    values.update(oracle_episodes=0, interval="auto")
    _check_first_look(stop, values["max_episodes"], gap_level)
    return int(values["max_episodes"])


def _check_first_look(stop: StopMode, most: int, level: float) -> None:
    from pytest_cpg.stats import (
        anytime_look_sizes,
        look_sizes,
        paired_statistic,
        wang_tsiatis_boundary,
    )

    try:
        if stop == "anytime":
            anytime_look_sizes(most, level=level)
            return
        look_sizes(most)
        if most > _MOST_CALIBRATED:
            raise ValueError(
                f"the boundary of more than {_MOST_CALIBRATED} episodes takes too long to "
                f'calibrate, got {most}; stop="anytime" needs none'
            )
        # Any boundary that takes long to calibrate can be reached.
        boundary = wang_tsiatis_boundary(most, level=level) if most <= _QUICK else None
        if boundary and paired_statistic(wins=most, losses=0, pairs=most) <= boundary.constant:
            raise ValueError(
                f"a gate of {most} episodes can never fail at level {level:g}, got {most}; 50 is a "
                f"good start"
            )
    except ValueError as error:
        raise ValueError(f"--cpg-max-episodes: {error}") from None


def _check_can_fail(episodes: int, level: float, interval: str) -> None:
    from pytest_cpg.stats import smallest_decisive_episodes, smallest_decisive_pairs

    if interval != "agresti-caffo":
        least = smallest_decisive_pairs(level=level, method=interval)
        if episodes < least:
            raise ValueError(
                f"a paired gate with {episodes} episode{'s'[: episodes != 1]} per arm can never "
                f"fail at confidence {level:.10g}, or not without failing equal models too often. "
                f"Use --cpg-episodes={least} or more; 50 is a good start."
            )
        return
    least = smallest_decisive_episodes(level=level)
    if episodes < least:
        raise ValueError(
            f"a gate with {episodes} episode{'s'[: episodes != 1]} per arm can never fail at "
            f"confidence {level:g}: even {episodes}/{episodes} against 0/{episodes} is "
            f"INCONCLUSIVE. Use --cpg-episodes={least} or more; 50 is a good start."
        )

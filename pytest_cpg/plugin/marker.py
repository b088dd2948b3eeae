"""Marker: what a test asks of its gate, its markers and the session's options merged."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.contracts.parts import has
from pytest_cpg.gates.answer import ask, fault_of
from pytest_cpg.gates.arguments import COMMON, REQUIRED, Argument
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.kind import (
    Asked,
    Components,
    GateKind,
    MaxVerdict,
    OfTask,
    TaskChoice,
    max_verdict_of,
    worst_of,
)
from pytest_cpg.gates.parts import Accepts, Example
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.contracts import WorldModelFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One test's gate: its markers and the session's settings, checked and complete.

    Attributes
    ----------
    task : TaskChoice or None
        On which the model is judged; None for a kind that needs none.
    id : str
        The name the gate is counted and reported under.
    drift : "off", "warn" or "fail"
    timeout : float
        Seconds that a measurement may take; 0 for no limit.
    model : str
        Name for the report; empty when the test brings its own.
    is_model_typed : bool
        Whether the model was named for the whole session, and so wins over a fixture.
    make_model : callable or None
        Builds the named world model, for a task where there is one.
    is_smoke : bool
        Whether this is to show that everything runs, and nothing else.
    """

    kind: GateKind[Any, Any]
    spec: Any
    task: TaskChoice | None
    id: str
    max_verdict: MaxVerdict
    drift: str
    timeout: float
    model: str
    is_model_typed: bool
    make_model: WorldModelFactory | None
    is_smoke: bool


def gate_of(
    markers: Iterable[pytest.Mark],
    kind: GateKind[Any, Any],
    settings: Settings,
    components: Components,
    *,
    nodeid: str,
    family_size: int = 1,
) -> Gate:
    """Merge a test's markers, closest first, with the settings, and have the kind check all of it.

    Raises ValueError or ComponentError, naming the value and what to type instead.
    """
    from pytest_cpg.world_models.checkpoints.source import factory_of

    asked = _asked(markers, kind, settings, components, family_size)
    values, given = asked.values, asked.values["max_verdict"]
    usual = worst_of(Severity.UNSURE, kind.labels)
    max_verdict = usual if given is None else max_verdict_of(given, kind.labels)
    spec = ask(kind, "parse", asked)
    task = spec.task if has(spec, OfTask) else None
    if given is None and has(kind, Accepts):
        max_verdict = ask(kind, "accepts", spec)
    model = values["model"]
    return Gate(
        kind=kind,
        spec=spec,
        task=task,
        id=values["id"] or nodeid,
        max_verdict=max_verdict,
        drift=values["drift"],
        timeout=values["timeout"],
        model=model,
        is_model_typed=bool(model) and asked.sources["model"] == "session",
        make_model=(
            factory_of(model, components.world_models, trusted=asked.options["trust"])
            if model
            else None
        ),
        is_smoke=asked.is_smoke,
    )


def _asked(
    markers: Iterable[pytest.Mark],
    kind: GateKind[Any, Any],
    settings: Settings,
    components: Components,
    family_size: int,
) -> Asked:
    arguments = {argument.name: argument for argument in (*kind.arguments, *COMMON)}
    marked = _merged(markers, kind, arguments)
    read = {name: _read(argument, marked, settings, kind) for name, argument in arguments.items()}
    return Asked(
        values={name: value for name, (value, _) in read.items()},
        sources={name: source for name, (_, source) in read.items()},
        components=components,
        options={
            option.name: settings.of_session(option.name)
            for option in settings.options.values()
            if not option.is_for_one_gate
        },
        family_size=family_size,
        is_smoke="quick" in settings.switches,
    )


def _merged(
    markers: Iterable[pytest.Mark], kind: GateKind[Any, Any], arguments: Mapping[str, Argument]
) -> dict[str, Any]:
    """Return the arguments of all markers; the closest marker that gives one wins."""
    from pytest_cpg.contracts.lookup import did_you_mean

    marked: dict[str, Any] = {}
    for marker in markers:
        if marker.args:
            first = next(iter(arguments))
            raise ValueError(
                f"the marker takes keyword arguments only, got {marker.args[0]!r}. "
                f"Write @pytest.mark.{kind.marker}({first}={marker.args[0]!r})."
            )
        for name, value in marker.kwargs.items():
            if name not in arguments:
                raise ValueError(
                    f"the marker has no argument {name!r}. {did_you_mean(name, arguments)}"
                )
            marked.setdefault(name, value)
    # Whoever leaves an argument open may say so.
    return {
        name: value
        for name, value in marked.items()
        if value is not None or not _is_open(arguments[name])
    }


def _is_open(argument: Argument) -> bool:
    return argument.parse is not None and argument.default is None


def _read(
    argument: Argument, marked: Mapping[str, Any], settings: Settings, kind: GateKind[Any, Any]
) -> tuple[Any, str]:
    """Return the value of one argument, and where it is from."""
    name, option = argument.name, settings.options.get(argument.option)
    parse = argument.parse or (option.parse if option else None)
    if option is not None and option.name in settings.typed:
        value = settings.typed[option.name]
        # Parsed as the option's, which may take more than this argument.
        return (_checked(option.flag, argument.parse, value), "session")
    if name in marked:
        value = _checked(name, parse, marked[name])
        # What is typed or set elsewhere is text; here nobody has to guess.
        if isinstance(marked[name], str) and isinstance(value, int | float):
            raise ValueError(
                f"{name}: need a number, got {marked[name]!r}. Write {name}={value!r}."
            )
        return value, "marker"
    default = argument.default
    if option is not None:
        in_project = settings.project[option.name]
        if argument.parse is None or in_project != option.default:
            default = in_project
    if default is REQUIRED:
        raise ValueError(f"the marker names no {name}. Write {example(kind)}.")
    return default, "project"


def _checked(place: str, parse: Any, value: Any) -> Any:
    from pytest_cpg.contracts import ComponentError

    try:
        return value if parse is None else parse(value)
    except ComponentError:
        raise
    except (ArgumentTypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from None
    # The parser may be a user's, and raise anything for a value that it does not expect.
    except Exception as error:
        raise fault_of(f"the parser of {place}, given {value!r:.40},", error) from error


def example(kind: GateKind[Any, Any]) -> str:
    """Return a marker of a kind as it may be written."""
    needed = [one.name for one in kind.arguments if one.default is REQUIRED]
    usual = ", ".join(f"{name}=..." for name in needed)
    return f"@pytest.mark.{kind.marker}({kind.example if has(kind, Example) else usual})"

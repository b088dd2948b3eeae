"""GitHub: a session's report as commands that a workflow's log turns into annotations."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from pytest_cpg.gates.notation import one_line
from pytest_cpg.render.markdown import MARKER, markdown, rows_of
from pytest_cpg.report.outcomes import FAILING
from pytest_cpg.report.shown import ShownOf

_MOST_IN_TITLE, _MOST_IN_LINE, _MOST_LINES = 200, 1000, 10


class Location(NamedTuple):
    """Where a gate's test is written.

    Attributes
    ----------
    file : str
        From the repository's top, with slashes.
    line : int
        Counted from 1; pytest itself counts from 0.
    """

    file: str
    line: int


def annotations(
    document: Mapping[str, Any],
    locations: Mapping[str, Location] | None = None,
    *,
    tests_are_annotated: bool = False,
    shown_of: ShownOf,
) -> list[str]:
    """Return one workflow command for each failing gate and each finding that fails the session.

    Parameters
    ----------
    locations : mapping, optional
        By gate id. A gate without one is annotated on the run as a whole.
    tests_are_annotated : bool
        Whether something else annotates failing tests, as the plugin
        pytest-github-actions-annotate-failures does. What no failing test says is left then: gates
        that did not report, and findings.
    """
    commands = []
    for gate in document["gates"]:
        is_said = tests_are_annotated and gate["outcome"] != "missing"
        if gate["outcome"] in FAILING and not is_said:
            place = (locations or {}).get(gate["id"])
            commands.append(_command(f"cpg: {gate['id']}", _message(gate, shown_of), place))
    failing = [finding["text"] for finding in document["findings"] if finding["fails"]]
    return commands + [_command("cpg", one_line(text, _MOST_IN_LINE), None) for text in failing]


def step_summary(document: Mapping[str, Any], *, shown_of: ShownOf) -> str:
    """Return the text to append to a job's summary, which other steps may have begun."""
    return "\n" + markdown(document, shown_of=shown_of).removeprefix(f"{MARKER}\n")


def _message(gate: Mapping[str, Any], shown_of: ShownOf) -> str:
    """Return a line for each comparison that fails the gate."""
    lines = []
    for row in rows_of(gate, shown_of):
        if row.status in FAILING:
            found = ""
            if row.shown is not None:
                ruling, card = row.shown.ruling, row.shown.card
                found = f"{ruling.label} {card.headline} {card.size}: "
            lines.append(one_line(found + row.why, _MOST_IN_LINE))
    more = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], *([f"and {more} more"] if more > 0 else [])])


def _command(title: str, message: str, place: Location | None) -> str:
    properties = {"title": one_line(title, _MOST_IN_TITLE)}
    if place is not None:
        properties = {
            "file": one_line(place.file, _MOST_IN_LINE),
            "line": str(place.line),
            **properties,
        }
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::error {listed}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

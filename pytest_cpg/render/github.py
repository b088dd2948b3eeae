"""GitHub: a session's report as commands that a workflow's log turns into annotations."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_cpg.gates.notation import one_line
from pytest_cpg.render.markdown import MARKER, markdown
from pytest_cpg.render.words import reasons, sentence
from pytest_cpg.report.session import Row, Session

_MOST_IN_TITLE, _MOST_IN_LINE = 200, 1000
# GitHub shows ten of a step.
_MOST = 10


class Location(NamedTuple):
    """Where a gate's test is written: from the repository's top, and a line counted from 1."""

    file: str
    line: int


class _Annotation(NamedTuple):
    is_error: bool
    title: str
    message: str
    place: Location | None = None

    @property
    def command(self) -> str:
        properties = {"title": one_line(self.title, _MOST_IN_TITLE)}
        if self.place is not None:
            file = one_line(self.place.file, _MOST_IN_LINE)
            properties = {"file": file, "line": str(self.place.line), **properties}
        listed = ",".join(
            f"{name}={_data(value).replace(':', '%3A').replace(',', '%2C')}"
            for name, value in properties.items()
        )
        return f"::{'error' if self.is_error else 'warning'} {listed}::{_data(self.message)}"


def annotations(
    session: Session,
    locations: Mapping[str, Location] | None = None,
    *,
    tests_are_annotated: bool = False,
) -> list[str]:
    """Return a workflow command for each gate that fails or is unsure, and each failing finding.

    Ten at most, worst first; an eleventh counts the rest. A gate without a location is annotated on
    the run as a whole. Where something else annotates failing tests, as the plugin
    pytest-github-actions-annotate-failures does, what they say is left out.
    """
    listed, names = [], session.names
    for gate in session.worst_first:
        rows = gate.rows
        place = (locations or {}).get(gate.id)
        is_said = tests_are_annotated and gate.outcome != "missing"
        failing = [row for row in rows if row.fails]
        if failing and not is_said:
            listed.append(_of(failing, names, place, is_error=True))
        # What passed may have been measured under another condition than what was accepted.
        unsure = [
            row
            for row in rows
            if row.state == "inconclusive"
            or (row.state == "passed" and row.drift is not None and row.drift.differs)
        ]
        if unsure and not failing:
            listed.append(_of(unsure, names, place, is_error=False))
    listed += [
        _Annotation(is_error=True, title="cpg", message=one_line(finding.text, _MOST_IN_LINE))
        for finding in session.findings
        if finding.fails
    ]
    # Sorting is stable: gates stay worst first.
    listed.sort(key=lambda annotation: not annotation.is_error)
    rest = listed[_MOST:]
    if rest:
        text = f"{len(rest)} more: the job's summary and the page have them all"
        listed[_MOST:] = [_Annotation(rest[0].is_error, "cpg", text)]
    return [annotation.command for annotation in listed]


def step_summary(session: Session, *, page: str = "") -> str:
    """Return the text to append to a job's summary, which other steps may have begun."""
    return "\n" + markdown(session, page=page).removeprefix(f"{MARKER}\n")


def _of(
    rows: Sequence[Row], names: Mapping[str, str], place: Location | None, *, is_error: bool
) -> _Annotation:
    """Return the annotation of a gate: of its worst comparison, and how many others there are."""
    worst = min(rows, key=lambda row: row.badness)
    lines = [one_line(line, _MOST_IN_LINE) for line in _lines(worst)]
    more = len(rows) - 1
    if more:
        lines.append(f"And {more} more comparison{'s'[: more != 1]} of this test.")
    label, _, text = sentence(worst).partition(": ")
    lines[:0] = [one_line(f"{text[:1].upper()}{text[1:]}", _MOST_IN_LINE)]
    return _Annotation(is_error, f"{label}: {names[worst.name]}", "\n".join(lines), place)


def _lines(row: Row) -> Iterator[str]:
    """Yield what became of the accepted result, why, and what to type."""
    judgement = row.judgement
    if judgement is None:
        return
    drift = judgement.drift
    if drift is not None and drift.is_news and drift.was:
        yield drift.sentence
    if judgement.reason is not None:
        yield from (f"{name}: {text}" for name, text in reasons(judgement) if name == "Why")
    elif row.fails:
        yield row.why()
    yield from (
        f"{command.what.partition(' ')[0]}: {command.text}" for command in judgement.commands[-1:]
    )


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")

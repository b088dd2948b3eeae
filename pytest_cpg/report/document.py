"""Document: what the gates of a session found, as one versioned document that machines read.

``report.schema.json`` beside this module describes the document. ``.cpg/history`` has the sessions
of a project, one line of JSON each; a report (--cpg-json) is one session of a history, too.
"""

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from pytest_cpg.contracts import CpgError, KindError
from pytest_cpg.contracts.codec import decode, encode, loads
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import Command, Strip
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.kept import FIRST_KIND
from pytest_cpg.gates.kind import Finding, max_verdict_of
from pytest_cpg.machine.files import FileError, FileKind, ignore_in_git, locked, write_text
from pytest_cpg.machine.provenance import Provenance
from pytest_cpg.report import history
from pytest_cpg.report.history import Found, History
from pytest_cpg.report.ledger import Entry, Judgement, Kinds, Outcome
from pytest_cpg.report.session import Comparison, Gate, Session, SessionEnd

SCHEMA = 1
_FILE = FileKind(
    name="the report", schema=SCHEMA, cure="Write a report: pytest --cpg-json=report.json"
)


# A line has a few hundred bytes for each gate, and the whole file is written each time.
MOST_SESSIONS = 50
_HISTORY = FileKind(
    name="the history", schema=SCHEMA, cure="Move it away: a session writes it anew."
)


class UnknownKindError(ValueError):
    """A report of a kind of gate that neither this package nor a plugin contributes."""


# What a document has to hold before anything in it is rendered.
class _Generator(TypedDict):
    name: str
    version: str | None


class _Session(TypedDict):
    outcome: str
    exit_code: int
    failed_tests: int
    uncollected: dict[str, str]
    # Reports from before they were recorded have none, here and of a gate.
    seconds: NotRequired[float | None]


class _Comparison(TypedDict):
    name: str
    reason: str | None
    max_verdict: str
    attempt: int
    drift: Drift | None
    result: Any
    # Reports from when there was one kind of gate have none of these.
    kind: NotRequired[str]
    label: NotRequired[str]
    severity: NotRequired[Literal["good", "unsure", "blind", "bad", "broken"]]
    # Nor reports from before the page had any.
    commands: NotRequired[list[Command]]
    strip: NotRequired[Strip | None]


class _Gate(TypedDict):
    id: str
    outcome: Literal[Outcome, "missing"]
    detail: str
    earlier: list[str]
    comparisons: list[_Comparison]
    measurements: list[str]
    seconds: NotRequired[float | None]
    resumed: NotRequired[list[str]]


class _Finding(TypedDict):
    text: str
    fails: bool


class _Document(TypedDict):
    generator: _Generator
    provenance: Provenance
    session: _Session
    gates: list[_Gate]
    deselected: list[str]
    findings: list[_Finding]


def document(session: Session) -> dict[str, Any]:
    """Return the report of a session: plain values, the gates in its order."""
    end = session.end
    return {
        "schema": SCHEMA,
        "generator": {"name": "pytest-cpg", "version": session.version},
        "provenance": encode(session.provenance),
        "session": {
            "outcome": session.outcome,
            "exit_code": end.exit_code,
            "failed_tests": end.failed_tests,
            "uncollected": dict(end.uncollected),
            "seconds": end.seconds,
        },
        "gates": [_gate(gate) for gate in session.gates],
        "deselected": list(session.deselected),
        "findings": encode(session.findings),
    }


def report(session: Session, **_: str) -> str:
    """Return the document of a session as one line of JSON."""
    return f"{json.dumps(document(session), allow_nan=False, sort_keys=True)}\n"


def read(path: Path, kinds: Kinds) -> Session:
    """Return the session whose report is in a file."""
    text = _FILE.text_in(path)
    if text is None:
        raise FileError(f"there is no report {path}. Write one: pytest --cpg-json={path}")
    values = _FILE.values_of(path, text)
    if isinstance(values, list):
        _FILE.refuse(path, "it is an array, as a baseline is, and a report is an object")
    _FILE.check_schema(path, values.get("schema") if isinstance(values, dict) else None)
    try:
        return session_in(values, kinds)
    except UnknownKindError as error:
        _FILE.refuse(path, str(error), "Name the conftest.py or module that does: -p conftest.py")
    except ValueError as error:
        _FILE.refuse(path, str(error))


def session_in(values: Any, kinds: Kinds) -> Session:
    """Return the session of a report's plain values; ValueError names the place of a wrong one."""
    read = decode(_Document, values)
    ended = read["session"]
    return Session(
        gates=tuple(_read_gate(gate, at, kinds) for at, gate in enumerate(read["gates"])),
        findings=decode(tuple[Finding, ...], values["findings"], at="findings"),
        deselected=tuple(read["deselected"]),
        end=SessionEnd(
            exit_code=ended["exit_code"],
            failed_tests=ended["failed_tests"],
            uncollected=ended["uncollected"],
            seconds=ended.get("seconds"),
        ),
        provenance=read["provenance"],
        version=read["generator"]["version"],
    )


def _gate(gate: Gate) -> dict[str, Any]:
    entry = gate.entry
    return {
        "id": gate.id,
        "outcome": gate.outcome,
        "detail": entry.detail,
        "earlier": list(entry.earlier),
        "comparisons": [_comparison(row) for row in gate.comparisons],
        "measurements": list(entry.measurements),
        "seconds": gate.seconds,
        "resumed": list(entry.resumed),
    }


def _comparison(row: Comparison) -> dict[str, Any]:
    judgement = row.judgement
    return {
        "name": row.name,
        "attempt": row.entry.attempt,
        "kind": judgement.kind.marker,
        "label": judgement.ruling.label,
        "severity": judgement.ruling.severity.name.lower(),
        "reason": judgement.reason,
        "max_verdict": judgement.max_verdict.label,
        "drift": encode(judgement.drift),
        "strip": encode(judgement.strip),
        "commands": encode(judgement.commands),
        "result": encode(judgement.result),
    }


def _read_gate(gate: _Gate, at: int, kinds: Kinds) -> Gate:
    comparisons, outcome = gate["comparisons"], gate["outcome"]
    entry = Entry(
        outcome="error" if outcome == "missing" else outcome,
        judgements=tuple(
            _read_judgement(one, kinds, at=f"gates[{at}].comparisons[{number}]")
            for number, one in enumerate(comparisons)
        ),
        measurements=tuple(gate["measurements"]),
        resumed=tuple(gate.get("resumed", ())),
        detail=gate["detail"],
        attempt=max([row["attempt"] for row in comparisons], default=1),
        earlier=tuple(gate["earlier"]),
    )
    return Gate.of(gate["id"], at + 1, outcome, entry, gate.get("seconds"))


def _read_judgement(comparison: _Comparison, kinds: Kinds, *, at: str) -> Judgement:
    marker = comparison.get("kind", FIRST_KIND)
    if marker not in kinds:
        raise UnknownKindError(f"{at}.kind is {marker!r}, and nobody here contributes it")
    kind, drift, reason = kinds[marker], comparison["drift"], comparison["reason"]
    result = decode(kind.result, comparison["result"], at=f"{at}.result")
    try:
        max_verdict = max_verdict_of(comparison["max_verdict"], kind.labels, is_read=True)
    except ValueError as error:
        raise ValueError(f"{at}.max_verdict: {error}") from None
    try:
        ruling = ask(kind, "judge", result, max_verdict)
        # What follows from numbers that no measurement gives has no card, either.
        card = ask(kind, "card", result, max_verdict)
    except KindError as error:
        # A kind that answers with something else is at fault itself.
        if error.__cause__ is None:
            raise
        raise ValueError(f"{at}.result is damaged: {error.__cause__}") from None
    return Judgement(
        kind=kind,
        result=result,
        ruling=ruling,
        max_verdict=max_verdict,
        reason=reason,
        drift=drift,
        drift_fails=drift is not None and reason == drift.text,
        strip=comparison.get("strip"),
        commands=tuple(comparison.get("commands", ())),
        shown=card,
    )


def found_in(session: Session, *, commit: str, date: str) -> history.Session:
    """Return what a session adds: comparisons that judged a model, and gates that failed before."""
    judged = {
        row.name: Found.of(row.judgement.ruling, row.judgement.card)
        for row in session.comparisons
        if not row.judgement.ruling.check
    }
    failed = {
        gate.id: Found.nothing(gate.outcome)
        for gate in session.gates
        if gate.outcome in ("failed", "error")
        and not (gate.entry.judgements or gate.entry.measurements)
    }
    return history.Session(commit=commit, date=date, comparisons=judged | failed)


def append(path: Path, session: history.Session) -> None:
    """Add a session to a history file; the oldest of too many go, and lines that nobody can read.

    `read_history` names those. Whoever appends at the same time waits, so that no session is lost.
    Raises FileError.
    """
    line = json.dumps({"schema": SCHEMA, **encode(session)}, allow_nan=False, sort_keys=True)
    with locked(path, what=_HISTORY.name):
        earlier = filter(_is_some_session, _lines(path))
        lines = [*earlier, line][-MOST_SESSIONS:]
        write_text(path, "".join(f"{line}\n" for line in lines), what=_HISTORY.name)
        ignore_in_git(path.parent, "/.gitignore", f"/{path.name}", f"/{path.name}.lock")


def read_history(paths: Iterable[Path], kinds: Kinds) -> tuple[History, list[str]]:
    """Return the sessions in these histories or reports, and what was left out of each file."""
    sessions, faults = [], []
    for path in paths:
        try:
            lines = _lines(path)
        except FileError as error:
            faults.append(str(error))
            continue
        # A report may have more than one line.
        with suppress(ValueError):
            loads("\n".join(lines))
            lines = ["\n".join(lines)]
        wrong = []
        for number, line in enumerate(lines, 1):
            try:
                sessions.append(_session(line, kinds))
            except (ValueError, CpgError) as error:
                wrong.append(f"line {number}: {error}")
        if wrong:
            more = f" (and {len(wrong) - 1} more)" * (len(wrong) > 1)
            faults.append(f"cannot use a session of the history {path}: {wrong[0]}{more}")
    return History(tuple(sessions)), faults


def _lines(path: Path) -> list[str]:
    """Return a history's lines; bytes that are no UTF-8 spoil their own line alone."""
    text = _HISTORY.text_in(path, errors="surrogateescape") or ""
    return [line for line in text.split("\n") if line.strip()]


def _is_some_session(line: str) -> bool:
    """Say whether a line may be a session, be it for a newer pytest-cpg."""
    try:
        return not {"schema", "gates"}.isdisjoint(_row(line))
    except ValueError:
        return False


def _session(text: str, kinds: Kinds) -> history.Session:
    row = _row(text)
    if "gates" in row:
        session = session_in(row, kinds)
        # No report has a date.
        return found_in(session, commit=session.commit, date="")
    schema = row.pop("schema", None)
    if schema != SCHEMA:
        raise ValueError(f"it has schema {schema!r:.40}, and this pytest-cpg reads {SCHEMA}")
    return decode(history.Session, row)


def _row(text: str) -> dict[str, Any]:
    if not text.isascii() and re.search("[\ud800-\udfff]", text):
        raise ValueError("it is no UTF-8")
    row = loads(text)
    if not isinstance(row, dict):
        raise ValueError("it is no session of pytest-cpg")
    return row

"""History file: the sessions of a project, one line of JSON each, in ``.cpg/history``.

A report (--cpg-json) is one session of a history, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.codec import decode, encode, loads
from pytest_cpg.machine.files import FileError, FileKind, ignore_in_git, locked, write_text
from pytest_cpg.report import session as report
from pytest_cpg.report.document import session_in
from pytest_cpg.report.history import Found, History, Session
from pytest_cpg.report.ledger import Kinds

SCHEMA = 1
# A line has a few hundred bytes for each gate, and the whole file is written each time.
MOST_SESSIONS = 50
_FILE = FileKind(name="the history", schema=SCHEMA, cure="Move it away: a session writes it anew.")


def found_in(session: report.Session, *, commit: str, date: str) -> Session:
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
    return Session(commit=commit, date=date, comparisons=judged | failed)


def append(path: Path, session: Session) -> None:
    """Add a session to a history file; the oldest of too many go, and lines that nobody can read.

    `read` names those. Whoever appends at the same time waits, so that no session is lost. Raises
    FileError.
    """
    line = json.dumps({"schema": SCHEMA, **encode(session)}, allow_nan=False, sort_keys=True)
    with locked(path, what=_FILE.name):
        earlier = (one for one in _lines(_text_in(path)) if _is_some_session(one))
        lines = [*earlier, line][-MOST_SESSIONS:]
        write_text(path, "".join(f"{one}\n" for one in lines), what=_FILE.name)
        ignore_in_git(path.parent, "/.gitignore", f"/{path.name}", f"/{path.name}.lock")


def read(paths: Iterable[Path], kinds: Kinds) -> tuple[History, list[str]]:
    """Return the sessions in these files, in their order, and what was left out of each file.

    A file is a history, or a report (--cpg-json), which is one session.
    """
    sessions, faults = [], []
    for path in paths:
        try:
            rows = _rows(_text_in(path))
        except FileError as error:
            faults.append(str(error))
            continue
        wrong = []
        for number, row in enumerate(rows, 1):
            try:
                sessions.append(_session(row, kinds))
            except (ValueError, CpgError) as error:
                wrong.append(f"line {number}: {error}")
        if wrong:
            more = f" (and {len(wrong) - 1} more)" * (len(wrong) > 1)
            faults.append(f"cannot use a session of the history {path}: {wrong[0]}{more}")
    return History(tuple(sessions)), faults


def _text_in(path: Path) -> str:
    """Return a file's text; bytes that are no UTF-8 spoil their own line alone."""
    return _FILE.text_in(path, errors="surrogateescape") or ""


def _rows(text: str) -> list[str]:
    """Return what may be a session each: a report may have more than one line."""
    try:
        loads(text)
    except ValueError:
        return _lines(text)
    return [text]


def _lines(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip()]


def _is_some_session(line: str) -> bool:
    """Say whether a line may be a session, be it for a newer pytest-cpg."""
    try:
        return not {"schema", "gates"}.isdisjoint(_row(line))
    except ValueError:
        return False


def _session(text: str, kinds: Kinds) -> Session:
    row = _row(text)
    if "gates" in row:
        session = session_in(row, kinds)
        # No report has a date.
        return found_in(session, commit=session.commit, date="")
    schema = row.pop("schema", None)
    if schema != SCHEMA:
        raise ValueError(f"it has schema {schema!r:.40}, and this pytest-cpg reads {SCHEMA}")
    return decode(Session, row)


def _row(text: str) -> dict[str, Any]:
    if not text.isascii() and re.search("[\ud800-\udfff]", text):
        raise ValueError("it is no UTF-8")
    row = loads(text)
    if not isinstance(row, dict):
        raise ValueError("it is no session of pytest-cpg")
    return row

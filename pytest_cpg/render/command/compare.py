"""Compare: what became of each gate between two reports, or since a baseline."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_cpg.contracts.parts import has
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kept import KeptResult, drift_of
from pytest_cpg.gates.parts import Baselined
from pytest_cpg.machine.files import FileError
from pytest_cpg.render.command import width
from pytest_cpg.render.command.contributed import declare_plugins, kinds_of
from pytest_cpg.render.command.project import project_here
from pytest_cpg.render.line import wrapped
from pytest_cpg.report import baseline
from pytest_cpg.report.document import read
from pytest_cpg.report.ledger import Kinds
from pytest_cpg.report.session import Comparison, Session

# What needs an eye stands next to the prompt.
_WORSE = (Label.MISSING, Label.INCOMPARABLE, Label.REGRESSED)
_ORDER = (Label.UNCHANGED, Label.UNRESOLVED, Label.IMPROVED, Label.NEW, *_WORSE)
_MEASURE = "pytest --cpg-json=report.json"


class _Change(NamedTuple):
    gate: str
    label: Label
    text: str


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "before",
        type=Path,
        nargs="?",
        help="a report of pytest --cpg-json=PATH, or a baseline file (default: the baseline of "
        "this project)",
    )
    parser.add_argument("after", type=Path, help="a report")
    declare_plugins(parser)


def run(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return the lines to print, and the exit code."""
    kinds = kinds_of(arguments)
    before: Path = arguments.before or project_here().baseline
    if arguments.before is None and not before.exists():
        raise FileError(f"there is no baseline {before}. Write one: pytest-cpg accept REPORT")
    commit, accepted = _accepted(before, kinds)
    session = read(arguments.after, kinds)
    changes = [
        _Change(row.name, drift.label, drift.text)
        for row in session.comparisons
        if (drift := _drift(row, accepted)) is not None
    ]
    compared = {change.gate for change in changes}
    changes += [
        _Change(name, Label.MISSING, _why_missing(name, session))
        for name in baseline.missing(
            baseline.Baseline(gates=accepted), {*session.deselected, *compared}, measured=compared
        )
    ]
    if not changes:
        raise FileError(f"{arguments.after} has no gate to compare. Measure some: {_MEASURE}")
    changes.sort(key=lambda change: _ORDER.index(change.label))
    is_worse = any(change.label in _WORSE for change in changes)
    return _lines(changes, commit, session.commit), int(is_worse)


def _why_missing(name: str, session: Session) -> str:
    gate = next((gate for gate in session.gates if gate.id == name), None)
    if gate is None:
        return "not in the later report"
    is_missing = gate.outcome == "missing"
    return "did not report" if is_missing else f"made no comparison: {gate.entry.found}"


def _accepted(path: Path, kinds: Kinds) -> tuple[str, Mapping[str, KeptResult]]:
    """Return the commit of a report, and what a baseline would keep of it; or a baseline's own."""
    if _is_baseline(path):
        accepted = baseline.load(path, kinds)
        return f"the baseline {path}", {} if accepted is None else accepted.gates
    session = read(path, kinds)
    commit = session.commit
    kept = {
        row.name: KeptResult.of(
            row.name,
            row.judgement.kind,
            ask(row.judgement.kind, "entry", row.judgement.result),
            commit=commit,
        )
        for row in session.comparisons
        if _is_compared(row)
    }
    return commit, kept


def _is_baseline(path: Path) -> bool:
    """Say whether a file is an array, as a baseline is; a report is an object."""
    try:
        with path.open("rb") as file:
            return file.read(1) == b"["
    # Whoever reads it says what is wrong with it.
    except OSError:
        return False


def _is_compared(one: Comparison) -> bool:
    return has(one.judgement.kind, Baselined) and not one.judgement.ruling.check


def _drift(one: Comparison, accepted: Mapping[str, KeptResult]) -> Drift | None:
    if not _is_compared(one):
        return None
    try:
        return drift_of(one.judgement.kind, accepted.get(one.name), one.judgement.result)
    except ValueError as error:
        raise FileError(f"what was accepted of {one.name} cannot be read: {error}") from None


def _lines(changes: Sequence[_Change], before: str, after: str) -> list[str]:
    counts = Counter(change.label for change in changes)
    counted = [f"{counts[label]} {label}" for label in reversed(_ORDER) if counts[label]]
    lines = [
        f"cpg: {len(changes)} gate{'s'[: len(changes) != 1]}: {', '.join(counted)}",
        f" from {before or 'an unknown commit'} to {after or 'an unknown commit'}",
    ]
    for change in changes:
        lines.append(f" {change.label:13s} {change.gate}")
        # What is new says how to accept it in a session, and there is none.
        if change.label not in (Label.UNCHANGED, Label.NEW):
            lines += wrapped(change.text, width(), " " * 15)
    return lines

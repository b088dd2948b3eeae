"""Changes: what became of each gate between two reports, since a baseline, or over a history."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.contracts.parts import has
from pytest_cpg.gates import HISTORY
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.drift import Label
from pytest_cpg.gates.kept import KeptResult, drift_of
from pytest_cpg.gates.notation import fitted_names
from pytest_cpg.gates.parts import Baselined
from pytest_cpg.machine.files import FileError
from pytest_cpg.render.command import UNUSABLE, width
from pytest_cpg.render.command.project import declare_plugins, kinds_of, project_here
from pytest_cpg.render.line import has_blocks, listed, sparkline, wrapped
from pytest_cpg.report import baseline
from pytest_cpg.report.document import read, read_history
from pytest_cpg.report.history import History, Point
from pytest_cpg.report.ledger import Kinds
from pytest_cpg.report.session import Comparison, Session

# What needs an eye stands next to the prompt.
_WORSE = (Label.MISSING, Label.INCOMPARABLE, Label.REGRESSED)
_ORDER = (Label.UNCHANGED, Label.UNRESOLVED, Label.IMPROVED, Label.NEW, *_WORSE)
_BETWEEN = "  "


def declare_compare(parser: argparse.ArgumentParser) -> None:
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


def compare(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return what became of each gate; the exit code is 1 where one got worse or is missing."""
    kinds = kinds_of(arguments)
    before: Path = arguments.before or project_here().baseline
    if arguments.before is None and not before.exists():
        raise FileError(f"there is no baseline {before}. Write one: pytest-cpg accept REPORT")
    since, accepted = _accepted(before, kinds)
    session = read(arguments.after, kinds)
    compared = [row for row in session.comparisons if _is_compared(row)]
    drifts = {row.name: _drift(row, accepted) for row in compared}
    changes = [(name, *drift) for name, drift in drifts.items() if drift is not None]
    names = {name for name, *_ in changes}
    gone = baseline.missing(
        baseline.Baseline(gates=accepted), {*session.deselected, *names}, measured=names
    )
    changes += [(name, Label.MISSING, _why_missing(name, session)) for name in gone]
    if not changes:
        raise FileError(
            f"{arguments.after} has no gate to compare. Measure some: pytest --cpg-json=report.json"
        )
    changes.sort(key=lambda change: _ORDER.index(change[1]))
    counts = Counter(label for _, label, _ in changes)
    counted = [f"{counts[label]} {label}" for label in reversed(_ORDER) if counts[label]]
    unknown = "an unknown commit"
    lines = [
        f"cpg: {len(changes)} gate{'s'[: len(changes) != 1]}: {', '.join(counted)}",
        f" from {since or unknown} to {session.commit or unknown}",
    ]
    for name, label, text in changes:
        lines.append(f" {label:13s} {name}")
        # What is new says how to accept it in a session, and there is none.
        if label not in (Label.UNCHANGED, Label.NEW):
            lines += wrapped(text, width(), " " * 15)
    return lines, int(any(label in _WORSE for label in counts))


def _why_missing(name: str, session: Session) -> str:
    gate = next((gate for gate in session.gates if gate.id == name), None)
    if gate is None:
        return "not in the later report"
    is_missing = gate.outcome == "missing"
    return "did not report" if is_missing else f"made no comparison: {gate.entry.found}"


def _accepted(path: Path, kinds: Kinds) -> tuple[str, Mapping[str, KeptResult]]:
    """Return the commit of a report, and what a baseline would keep of it; or a baseline's own."""
    # A baseline is an array, and a report an object; who reads it says what is wrong with it.
    try:
        with path.open("rb") as file:
            is_baseline = file.read(1) == b"["
    except OSError:
        is_baseline = False
    if is_baseline:
        accepted = baseline.load(path, kinds)
        return f"the baseline {path}", {} if accepted is None else accepted.gates
    session = read(path, kinds)
    kept = {}
    for row in filter(_is_compared, session.comparisons):
        kind, result = row.judgement.kind, row.judgement.result
        entry = ask(kind, "entry", result)
        kept[row.name] = KeptResult.of(row.name, kind, entry, commit=session.commit)
    return session.commit, kept


def _is_compared(row: Comparison) -> bool:
    return has(row.judgement.kind, Baselined) and not row.judgement.ruling.check


def _drift(row: Comparison, accepted: Mapping[str, KeptResult]) -> tuple[Label, str] | None:
    try:
        drift = drift_of(row.judgement.kind, accepted.get(row.name), row.judgement.result)
    except ValueError as error:
        raise FileError(f"what was accepted of {row.name} cannot be read: {error}") from None
    return None if drift is None else (drift.label, drift.text)


def declare_history(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files",
        type=Path,
        nargs="*",
        help="histories, and reports of pytest --cpg-json=PATH, oldest first (default: the "
        f"{HISTORY} of this project)",
    )
    parser.add_argument("-g", "--gate", metavar="GATE", help="each session of the gates so named")
    declare_plugins(parser)


def history(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return what became of each gate over the sessions of a project."""
    files: list[Path] = arguments.files or [project_here().history]
    for path in files:
        if not path.exists():
            raise FileError(f"there is no history {path}. Each session adds to one: pytest")
    history, faults = read_history(files, kinds_of(arguments))
    names = list(dict.fromkeys(name for past in history.sessions for name in past.comparisons))
    if arguments.gate is None:
        read_from = str(files[0]) if len(files) == 1 else f"{len(files)} files"
        lines = [*_all_gates(history, names, read_from)]
    else:
        # The name does without its file, as it is printed.
        gates = [name for name in names if f"::{name}".endswith(f"::{arguments.gate}")]
        if not gates:
            close = did_you_mean(arguments.gate, names)
            raise CpgError(f"no gate named {arguments.gate!r}. {close}")
        lines = []
        for name in gates:
            rows = listed([_in_words(point) for point in history.attempts(name)])
            lines += [name, *(f" {row}" for row in rows)]
    return [*faults, *lines], UNUSABLE if faults else 0


def _all_gates(history: History, names: list[str], read_from: str) -> Iterator[str]:
    """Yield a line for each gate: its trend, what it last found, and its name."""
    count = len(history.sessions)
    counted = f"{count} session{'s'[: count != 1]}, {len(names)} gate{'s'[: len(names) != 1]}"
    yield f"cpg: {counted} in {read_from}"
    rows = []
    for name in names:
        # Up to the last session that made this comparison.
        last = max(at for at, past in enumerate(history.sessions) if name in past.comparisons)
        past = History(history.sessions[: last + 1])
        heights = sparkline(past.heights(name), is_ascii=not has_blocks(sys.stdout.encoding))
        found = past.attempts(name)[-1].found
        trend, text = next(((trend.name, trend.text) for trend in found.trends), ("", ""))
        rows.append((heights, trend, text, found.label, name))
    lines = listed(
        [(heights, f"{trend} {text}".strip(), *more) for heights, trend, text, *more in rows]
    )
    if max(map(len, lines), default=0) >= width():
        lines = [*_narrow(rows)]
    yield from (f" {line}" for line in lines)


def _narrow(rows: Sequence[tuple[str, str, str, str, str]]) -> Iterator[str]:
    """Yield rows that are too wide: what all begin with once, and a long name on its own line."""
    *_, names = zip(*rows, strict=True)
    trends = {trend for _, trend, *_ in rows}
    shown = listed(
        [(heights, *[trend] * (len(trends) > 1), *more) for heights, trend, *more, _ in rows]
    )
    widest = max(map(len, shown))
    fitted = fitted_names(names, width() - widest - len(f" {_BETWEEN}"))
    yield ", ".join(filter(None, (*(trends if len(trends) == 1 else ()), fitted.shared)))
    for line, name in zip(shown, names, strict=True):
        short = fitted.of[name]
        if widest + len(f" {_BETWEEN}{short}") > width():
            yield from (line, f"{_BETWEEN}{short}")
        else:
            yield f"{line:{widest}s}{_BETWEEN}{short}"


def _in_words(point: Point) -> tuple[str, ...]:
    numbers = ", ".join(f"{trend.name} {trend.text}" for trend in point.found.trends)
    label = point.found.label + ", other design" * point.is_other_design
    return (point.date[:16].replace("T", " "), point.commit or "-", numbers, label)

"""Changes: what became of gates between two reports, and over the sessions of a history."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.codec import encode
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates import HISTORY
from pytest_cpg.gates.answer import ask
from pytest_cpg.gates.card import Severity, Strip
from pytest_cpg.gates.drift import Drift, Label, revision
from pytest_cpg.gates.kept import KeptResult, drift_of
from pytest_cpg.gates.notation import fitted_names
from pytest_cpg.gates.parts import offers
from pytest_cpg.machine.files import FileError
from pytest_cpg.render.command import UNUSABLE, width
from pytest_cpg.render.command.project import declare_plugins, kinds_of, project_here
from pytest_cpg.render.command.reports import check_page, write_page
from pytest_cpg.render.line import listed, sparkline
from pytest_cpg.render.line import wrapped as wrapped_at
from pytest_cpg.report import baseline
from pytest_cpg.report.document import read, read_history
from pytest_cpg.report.history import Found, History, Point
from pytest_cpg.report.ledger import Kinds
from pytest_cpg.report.session import Comparison, Gate, Session

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
    parser.add_argument(
        "--html",
        type=Path,
        nargs="?",
        const=Path("cpg.html"),
        metavar="PAGE",
        help="write the later report's page, with what became of each gate (default cpg.html)",
    )
    declare_plugins(parser)


def compare(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return what became of each gate; the exit code is 1 where one got worse or is missing."""
    kinds = kinds_of(arguments)
    if arguments.html is not None:
        check_page(arguments.html, "--html")
    before: Path = arguments.before or project_here().baseline
    if arguments.before is None and not before.exists():
        raise FileError(f"there is no baseline {before}. Write one: pytest-cpg accept REPORT")
    since, accepted, earlier = _accepted(before, kinds)
    session = read(arguments.after, kinds)
    compared = [row for row in session.comparisons if _is_compared(row)]
    drifts = {row.name: _drift(row, accepted) for row in compared}
    changes = [
        (name, drift.label, drift.text) for name, drift in drifts.items() if drift is not None
    ]
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
            lines += wrapped_at(text, width(), " " * 15)
    if arguments.html is not None:
        reports = [before] * (earlier is not None)
        past, _ = read_history([*reports, arguments.after], kinds)
        strips = {row.name: row.judgement.strip for row in (earlier.comparisons if earlier else ())}
        write_page(_beside(session, drifts, strips, since), past, arguments.html)
        lines.append(f" written: {arguments.html}")
    return lines, int(any(label in _WORSE for label in counts))


def _beside(
    session: Session,
    drifts: Mapping[str, Drift | None],
    strips: Mapping[str, Strip | None],
    since: str,
) -> Session:
    """Return a session whose comparisons and films stand beside others than its baseline's."""

    def beside(gate: Gate) -> Gate:
        judgements = tuple(
            replace(
                row.judgement,
                drift=drifts.get(row.name),
                strip=_both(row.judgement.strip, strips.get(row.name), since),
            )
            for row in gate.comparisons
        )
        entry = replace(gate.entry, judgements=judgements)
        return Gate.of(gate.id, gate.place, gate.outcome, entry, gate.seconds)

    return replace(session, gates=tuple(map(beside, session.gates)))


def _both(strip: Strip | None, earlier: Strip | None, since: str) -> Strip | None:
    """Return a film with the earlier one below it; of the same episode with its model alone."""
    if strip is None or earlier is None:
        return strip
    is_same = strip.episode == earlier.episode
    lead = f"at {revision(since)}" if since else "before"
    lead += f", episode {earlier.episode}" * (not is_same)
    reels = earlier.reels[is_same:]
    below = tuple(replace(reel, arm=f"{lead}, {reel.arm}") for reel in reels)
    return replace(strip, reels=(*strip.reels, *below))


def _why_missing(name: str, session: Session) -> str:
    gate = next((gate for gate in session.gates if gate.id == name), None)
    if gate is None:
        return "not in the later report"
    is_missing = gate.outcome == "missing"
    return "did not report" if is_missing else f"made no comparison: {gate.entry.found}"


def _accepted(path: Path, kinds: Kinds) -> tuple[str, Mapping[str, KeptResult], Session | None]:
    """Return the commit of a report, what a baseline would keep of it, and its session.

    Of a baseline what it keeps; it is no session.
    """
    # A baseline is an array, and a report an object; who reads it says what is wrong with it.
    try:
        with path.open("rb") as file:
            is_baseline = file.read(1) == b"["
    except OSError:
        is_baseline = False
    if is_baseline:
        accepted = baseline.load(path, kinds)
        return f"the baseline {path}", {} if accepted is None else accepted.gates, None
    session = read(path, kinds)
    kept = {}
    for row in filter(_is_compared, session.comparisons):
        kind, result = row.judgement.kind, row.judgement.result
        entry = ask(kind, "entry", result)
        kept[row.name] = KeptResult.of(row.name, kind, entry, commit=session.commit)
    return session.commit, kept, session


def _is_compared(row: Comparison) -> bool:
    return offers(row.judgement.kind, "compare") and not row.judgement.ruling.check


def _drift(row: Comparison, accepted: Mapping[str, KeptResult]) -> Drift | None:
    try:
        return drift_of(row.judgement.kind, accepted.get(row.name), row.judgement.result)
    except ValueError as error:
        raise FileError(f"what was accepted of {row.name} cannot be read: {error}") from None


def declare_history(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "files",
        type=Path,
        nargs="*",
        help="histories, and reports of pytest --cpg-json=PATH, oldest first (default: the "
        f"{HISTORY} of this project)",
    )
    gates = "each session of the gates whose name has this in it, as pytest -k has it"
    parser.add_argument("-g", "--gate", metavar="GATE", default="", help=gates)
    parser.add_argument("--json", action="store_true", help="print every session of each as JSON")
    declare_plugins(parser)


def history(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return what became of each gate over the sessions of a project."""
    files: list[Path] = arguments.files or [project_here().history]
    for path in files:
        if not path.exists():
            raise FileError(f"there is no history {path}. Each session adds to one: pytest")
    kinds = kinds_of(arguments)
    history, faults = read_history(files, kinds)
    names = dict.fromkeys(name for past in history.sessions for name in past.comparisons)
    part = arguments.gate.lower()
    gates = [name for name in names if part in name.lower()]
    if part and not gates:
        shown = fitted_names(tuple(names), sys.maxsize, shares=False).of.values()
        meant = did_you_mean(arguments.gate, names if "::" in part else shown)
        raise CpgError(f"no gate named {arguments.gate!r}. {meant}")
    if arguments.json:
        rows = [{"gate": name, "sessions": encode([*history.attempts(name)])} for name in gates]
        # Whoever reads it takes no line for a fault.
        sys.stderr.writelines(f"{fault}\n" for fault in faults)
        return json.dumps(rows, indent=1).splitlines(), UNUSABLE if faults else 0
    if part:
        lines = []
        for name in gates:
            words = listed([_in_words(point) for point in history.attempts(name)])
            lines += [name, *(f" {row}" for row in words)]
    else:
        read_from = str(files[0]) if len(files) == 1 else f"{len(files)} files"
        accepted = baseline.load(project_here().baseline, kinds) or baseline.Baseline()
        commits = {name: entry.commit for name, entry in accepted.gates.items() if entry.commit}
        lines = [*_all_gates(history, gates, read_from, commits)]
    return [*faults, *lines], UNUSABLE if faults else 0


def _all_gates(
    history: History, names: list[str], read_from: str, accepted: Mapping[str, str]
) -> Iterator[str]:
    """Yield a line for each gate, the worst first: its trend, what was accepted and last found."""
    count = len(history.sessions)
    counted = f"{count} session{'s'[: count != 1]}, {len(names)} gate{'s'[: len(names) != 1]}"
    yield f"cpg: {counted} in {read_from}"
    judged = []
    for name in names:
        # Up to the last session that made this comparison.
        end = max(at for at, past in enumerate(history.sessions) if name in past.comparisons)
        past = History(history.sessions[: end + 1])
        last = history.attempts(name)[-1].found
        then = [point.found for point in past.points(name) if point.commit == accepted.get(name)]
        trend, text = _first_trend(last)
        was = _first_trend(then[-1])[1] if then else ""
        text = f"{was} -> {text}" if was and text else text
        row = (sparkline(past.heights(name)), trend, text, last.label, name)
        judged.append((_badness(last, then), row))
    rows = [row for _, row in sorted(judged, key=itemgetter(0))]
    lines = listed(
        [(heights, f"{trend} {text}".strip(), *more) for heights, trend, text, *more in rows]
    )
    if max(map(len, lines), default=0) >= width():
        lines = [*_narrow(rows)]
    yield from (f" {line}" for line in lines)


def _first_trend(found: Found) -> tuple[str, str]:
    return next(((trend.name, trend.text) for trend in found.trends), ("", ""))


def _badness(last: Found, accepted: Sequence[Found]) -> tuple[float, ...]:
    """Return what puts the worst first, as a session's reports do: an error is behind a verdict."""
    severity = Severity.__members__.get(last.severity.upper(), Severity.BROKEN)
    is_bad = severity >= Severity.BLIND
    moved = 0.0
    if accepted and accepted[-1].trends and last.trends:
        moved = abs(accepted[-1].trends[0].bound.estimate - last.trends[0].bound.estimate)
    return (not is_bad, last.is_nothing, -moved * is_bad, -severity)


def _narrow(rows: Sequence[tuple[str, str, str, str, str]]) -> Iterator[str]:
    """Yield rows that are too wide: what all begin with once, and a long name on its own line."""
    *_, names = zip(*rows, strict=True)
    trends = {trend for _, trend, *_ in rows}
    shown = listed(
        [(heights, *[trend] * (len(trends) > 1), *more) for heights, trend, *more, _ in rows]
    )
    widest = max(map(len, shown))
    fitted = fitted_names(names, width() - widest - len(f" {_BETWEEN}"))
    shared = ", ".join(filter(None, (*(trends if len(trends) == 1 else ()), fitted.shared)))
    yield from [shared] * bool(shared)
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

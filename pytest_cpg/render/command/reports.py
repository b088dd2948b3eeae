"""Reports: what is made of one, of two, or of a history."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pytest_cpg.gates.kind import Finding, named
from pytest_cpg.gates.notation import wrapped
from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.machine.provenance import GitState, is_in_ci
from pytest_cpg.render.badge import badge as badge_of
from pytest_cpg.render.command import UNUSABLE, width
from pytest_cpg.render.command.project import declare_plugins, kinds_of, project_here
from pytest_cpg.render.formats import FORMATS, is_free
from pytest_cpg.render.section import section
from pytest_cpg.render.summary import summary_lines, title
from pytest_cpg.report import baseline
from pytest_cpg.report.document import read, read_history
from pytest_cpg.report.history import History
from pytest_cpg.report.session import WORDS, Session

_REPORT = "a report, of pytest --cpg-json=PATH"


def declare_show(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("report", type=Path, help=_REPORT)
    parser.add_argument("-v", "--verbose", action="count", default=0, help="show all facts, too")
    parser.add_argument("-q", "--quiet", action="count", default=0, help="only what is not green")
    declare_plugins(parser)


def show(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return a report's failing sections and summary, as the terminal of its session had them."""
    session = read(arguments.report, kinds_of(arguments))
    lines = lines_of(session, width=width(), verbosity=arguments.verbose - arguments.quiet)
    return [*lines], 0


def lines_of(session: Session, *, width: int, verbosity: int = 0) -> Iterator[str]:
    """Yield what a session's terminal says of it, from the first failing section on."""
    for gate in session.gates:
        if gate.outcome not in ("failed", "error"):
            continue
        judgements = gate.entry.judgements
        yield f" {gate.id} ".center(width, "_")
        # What a comparison failed for is in its section.
        yield from wrapped(gate.entry.detail).splitlines()
        for judgement in [one for one in judgements if one.reason is not None] or judgements:
            yield from (line.text for line in section(judgement, verbosity=verbosity, width=width))
        yield ""
    yield f" {title(session, seconds=session.end.seconds)} ".center(width, "-")
    yield from (line.text for line in summary_lines(session, width=width, verbosity=verbosity))
    yield from (f" {text}" for text in session.end.besides_gates)


def declare_html(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "reports",
        type=Path,
        nargs="+",
        metavar="report",
        help="histories and reports of pytest --cpg-json=PATH, oldest first; the page is of the "
        "last report",
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("cpg.html"), help="the page (default cpg.html)"
    )
    declare_plugins(parser)


def html(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Write the page of a report, with earlier sessions as its history."""
    output: Path = arguments.output
    check_page(output, "-o")
    kinds = kinds_of(arguments)
    last = read(arguments.reports[-1], kinds)
    history, faults = read_history(arguments.reports, kinds)
    *_, own = history.sessions
    # Two reports are two sessions, however alike; only the line of a history has a date.
    if any(line.date and replace(line, date="") == own for line in history.sessions[-2:-1]):
        history = History(history.sessions[:-1])
    write_page(last, history, output)
    return [*faults, f"written: {output}"], UNUSABLE if faults else 0


def check_page(output: Path, option: str) -> None:
    """Raise FileError where a page would take the place of something else."""
    if output.suffix == ".py" or not is_free(output, "html"):
        raise FileError(f"the page would take the place of {output}. Type: {option} cpg.html")


def write_page(session: Session, history: History, output: Path) -> None:
    """Write the page of a session and those before it."""
    text = FORMATS["html"].text(replace(session, history=history))
    write_text(output, text, what="the report")


def declare_badge(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("report", type=Path, help=_REPORT)
    declare_plugins(parser)


def badge(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return a badge that says how many gates pass."""
    return [badge_of(read(arguments.report, kinds_of(arguments)))], 0


def declare_accept(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Put the results of a report into the baseline: what was measured by CI, on its machine, "
        "needs no second measurement. What pytest --cpg-update-baseline refuses is refused here, "
        "too: gates that did not pass, a tree with changes that were not committed, and CI itself."
    )
    parser.add_argument("report", type=Path, help=_REPORT)
    parser.add_argument(
        "--baseline",
        type=Path,
        metavar="PATH",
        help="the baseline file (default: that of the sessions of this project)",
    )
    parser.add_argument(
        "--force",
        dest="is_forced",
        action="store_true",
        help="accept although a gate failed, the tree was dirty, or this is CI",
    )
    declare_plugins(parser)


def accept(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Put the results of a report into the baseline, as if they had been measured here."""
    kinds = kinds_of(arguments)
    session = read(arguments.report, kinds)
    if not session.gates:
        raise FileError(
            f"{arguments.report} has no gate to accept. Measure some: pytest --cpg-json=report.json"
        )
    is_dirty, fails = bool(session.provenance.dirty), not arguments.is_forced
    findings = baseline.accept(
        session,
        arguments.baseline or project_here().baseline,
        kinds,
        root=Path.cwd(),
        state=GitState(
            session.commit,
            dirty=("changes in the tree that was measured",) if is_dirty else (),
            note="the report names no commit",
        ),
        is_forced=arguments.is_forced,
        in_ci=is_in_ci(),
    )
    ended = dict.fromkeys(session.missing, "missing") | {
        gate.id: gate.outcome
        for gate in session.gates
        if not gate.comparisons and (gate.outcome != "passed" or gate.entry.is_hidden)
    }
    if ended:
        gates = named([f"{gate} ({WORDS[outcome]})" for gate, outcome in ended.items()])
        findings.append(Finding(f"baseline: {gates} not accepted: no result", fails=fails))
    if session.end.is_cut_short:
        text = f"baseline: the session ended early ({session.outcome}), so gates may be missing"
        findings.append(Finding(text, fails=fails))
    wrap = textwrap.TextWrapper(width(), break_long_words=False, break_on_hyphens=False)
    lines = [line for finding in findings for line in wrap.wrap(finding.text)]
    return lines, int(any(finding.fails for finding in findings))

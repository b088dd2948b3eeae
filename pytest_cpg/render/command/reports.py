"""Reports: what is made of one, of two, or of a history."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from pathlib import Path

from pytest_cpg.gates.kind import Finding, named
from pytest_cpg.gates.notation import wrapped
from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.machine.provenance import GitState, is_in_ci
from pytest_cpg.render.command import UNUSABLE, width
from pytest_cpg.render.command.project import declare_plugins, kinds_of, project_here
from pytest_cpg.render.formats import FORMATS, is_free
from pytest_cpg.render.section import section
from pytest_cpg.render.summary import summary_lines, title
from pytest_cpg.report import baseline
from pytest_cpg.report.document import read, read_history
from pytest_cpg.report.history import History
from pytest_cpg.report.session import FAILING, WORDS, Session

_REPORT = "a report, of pytest --cpg-json=PATH"
# Of a badge.
_LABEL = "planning gates"
# Of white letters on each, the contrast is at least 4.5.
_COLOURS = {"pass": "#1a7f37", "fail": "#b35900", "open": "#6e7781"}
# Pixels: of a letter on average, of the space around a text, and of the badge.
_LETTER, _SPACE, _HEIGHT = 6.0, 6, 20


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
    return [_drawn(read(arguments.report, kinds_of(arguments)))], 0


def _drawn(session: Session) -> str:
    """Return an SVG that says how many gates pass; the same session gives the same text."""
    text, colour = _message(session)
    left, right = (round(_LETTER * len(words)) + 2 * _SPACE for words in (_LABEL, text))
    parts = (
        f'<rect x="{x}" width="{wide}" height="{_HEIGHT}" fill="{fill}"/>'
        f'<text x="{x + wide / 2:g}" y="14" textLength="{wide - 2 * _SPACE}">{escape(words)}</text>'
        for x, wide, fill, words in ((0, left, "#424a53", _LABEL), (left, right, colour, text))
    )
    name = escape(f"{_LABEL}: {text}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" '
        f'role="img" aria-label="{name}"><title>{name}</title>'
        f'<clipPath id="round"><rect width="{left + right}" height="{_HEIGHT}" rx="3"/></clipPath>'
        f'<g clip-path="url(#round)" fill="#fff" text-anchor="middle" font-size="11" '
        f'font-family="Verdana,DejaVu Sans,sans-serif">{"".join(parts)}</g></svg>'
    )


def _message(session: Session) -> tuple[str, str]:
    """Return what the badge says, and its colour."""
    states, count = session.states, len(session.gates)
    checks = session.checks - {""}
    if checks:
        return f"no verdict: {' and '.join(sorted(checks))}", _COLOURS["open"]
    failing = sum(states[state] for state in FAILING)
    if failing:
        return f"{failing} of {count} fail", _COLOURS["fail"]
    if session.outcome != "passed":
        return session.outcome, _COLOURS["fail" if session.outcome == "failed" else "open"]
    unsure = states["inconclusive"]
    if unsure:
        return f"{unsure} of {count} inconclusive", _COLOURS["open"]
    passed = states["passed"]
    return f"{passed} of {count} pass", _COLOURS["pass" if passed == count else "open"]


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

"""Show: a report's failing sections and summary, as the terminal of its session had them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_cpg.gates.notation import wrapped
from pytest_cpg.render.bars import in_ascii
from pytest_cpg.render.command import width
from pytest_cpg.render.command.contributed import declare_plugins, kinds_of
from pytest_cpg.render.line import has_blocks
from pytest_cpg.render.section import section, text_of
from pytest_cpg.render.summary import summary_lines, title
from pytest_cpg.report.document import read
from pytest_cpg.report.ledger import Judgement
from pytest_cpg.report.session import Session


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("report", type=Path, help="a report, of pytest --cpg-json=PATH")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="show all facts, too")
    parser.add_argument("-q", "--quiet", action="count", default=0, help="only what is not green")
    declare_plugins(parser)


def run(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return the lines to print, and the exit code."""
    kinds = kinds_of(arguments)
    session = read(arguments.report, kinds)
    verbosity = arguments.verbose - arguments.quiet
    lines = list(_sections(session, verbosity))
    lines += [_heading("-", title(session, seconds=session.end.seconds))]
    lines += [line.text for line in summary_lines(session, width=width(), verbosity=verbosity)]
    lines += [f" {text}" for text in session.end.besides_gates]
    return lines, 0


def _sections(session: Session, verbosity: int) -> Iterator[str]:
    for gate in session.gates:
        entry = gate.entry
        if gate.outcome not in ("failed", "error"):
            continue
        shown = [one for one in entry.judgements if one.reason is not None] or entry.judgements
        yield _heading("_", gate.id)
        # What a comparison failed for is in its section.
        yield from filter(None, [wrapped(entry.detail)])
        for judgement in shown:
            yield _section(judgement, verbosity)
        yield ""


def _section(judgement: Judgement, verbosity: int) -> str:
    text = text_of(section(judgement, verbosity=verbosity, width=width()))
    return text if has_blocks(sys.stdout.encoding) else in_ascii(text)


def _heading(sign: str, text: str) -> str:
    return f" {text} ".center(width(), sign)

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
from pytest_cpg.render.section import section
from pytest_cpg.render.summary import summary_lines, title
from pytest_cpg.report.document import read
from pytest_cpg.report.session import Session


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("report", type=Path, help="a report, of pytest --cpg-json=PATH")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="show all facts, too")
    parser.add_argument("-q", "--quiet", action="count", default=0, help="only what is not green")
    declare_plugins(parser)


def run(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return the lines to print, and the exit code."""
    session = read(arguments.report, kinds_of(arguments))
    lines = lines_of(session, width=width(), verbosity=arguments.verbose - arguments.quiet)
    is_ascii = not has_blocks(sys.stdout.encoding)
    return [in_ascii(line) for line in lines] if is_ascii else list(lines), 0


def lines_of(session: Session, *, width: int, verbosity: int = 0) -> Iterator[str]:
    """Yield what a session's terminal says of it, from the first failing section on."""
    for gate in session.gates:
        if gate.outcome not in ("failed", "error"):
            continue
        judgements = gate.entry.judgements
        yield _heading("_", gate.id, width)
        # What a comparison failed for is in its section.
        yield from wrapped(gate.entry.detail).splitlines()
        for judgement in [one for one in judgements if one.reason is not None] or judgements:
            yield from (line.text for line in section(judgement, verbosity=verbosity, width=width))
        yield ""
    yield _heading("-", title(session, seconds=session.end.seconds), width)
    yield from (line.text for line in summary_lines(session, width=width, verbosity=verbosity))
    yield from (f" {text}" for text in session.end.besides_gates)


def _heading(sign: str, text: str, width: int) -> str:
    return f" {text} ".center(width, sign)

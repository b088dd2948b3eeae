"""Page: the page of a report, with earlier sessions as its history."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.render.command import UNUSABLE
from pytest_cpg.render.command.contributed import declare_plugins, kinds_of
from pytest_cpg.render.command.project import project_here
from pytest_cpg.render.formats import FORMATS, is_free
from pytest_cpg.report.document import read
from pytest_cpg.report.history import History
from pytest_cpg.report.history_file import read as read_history


def declare(parser: argparse.ArgumentParser) -> None:
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


def run(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return the lines to print, and the exit code."""
    output: Path = arguments.output
    if output.suffix == ".py" or not is_free(output, "html"):
        raise FileError(f"the page would take the place of {output}. Type: -o cpg.html")
    kinds = kinds_of(arguments)
    last = read(arguments.reports[-1], kinds)
    history, faults = read_history(arguments.reports, kinds)
    session = replace(last, history=_without_repetition(history))
    text = FORMATS["html"].text(session, output, project_here().root)
    write_text(output, text, what="the report")
    return [*faults, f"written: {output}"], UNUSABLE if faults else 0


def _without_repetition(history: History) -> History:
    """Return the history without the report's session where its own line is there already."""
    if len(history.sessions) < 2:
        return history
    line, own = history.sessions[-2:]
    is_alike = (line.commit, line.comparisons) == (own.commit, own.comparisons)
    # Two reports are two sessions, however alike; only the line of a history has a date.
    return History(history.sessions[:-1]) if line.date and is_alike else history

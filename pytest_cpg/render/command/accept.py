"""Accept: the results of a report into the baseline, as if they had been measured here."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path

from pytest_cpg.gates.finding import Finding, named
from pytest_cpg.machine.ci import is_in_ci
from pytest_cpg.machine.files import FileError
from pytest_cpg.machine.git import GitState
from pytest_cpg.render.command import width
from pytest_cpg.render.command.contributed import declare_plugins, kinds_of
from pytest_cpg.render.command.project import project_here
from pytest_cpg.report.baseline_findings import accept
from pytest_cpg.report.document import read
from pytest_cpg.report.session import WORDS, Session


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Put the results of a report into the baseline: what was measured by CI, on its machine, "
        "needs no second measurement. What pytest --cpg-update-baseline refuses is refused here, "
        "too: gates that did not pass, a tree with changes that were not committed, and CI itself."
    )
    parser.add_argument("report", type=Path, help="a report, of pytest --cpg-json=PATH")
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


def run(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return the lines to print, and the exit code."""
    kinds = kinds_of(arguments)
    session = read(arguments.report, kinds)
    is_dirty = bool(session.provenance.dirty)
    if not session.gates:
        raise FileError(
            f"{arguments.report} has no gate to accept. Measure some: pytest --cpg-json=report.json"
        )
    findings = accept(
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
    findings += _unmeasured(session, is_forced=arguments.is_forced)
    if session.end.is_cut_short:
        text = f"baseline: the session ended early ({session.outcome}), so gates may be missing"
        findings.append(Finding(text, fails=not arguments.is_forced))
    lines = [
        line
        for finding in findings
        for line in textwrap.wrap(
            finding.text, width(), break_long_words=False, break_on_hyphens=False
        )
    ]
    return lines, int(any(finding.fails for finding in findings))


def _unmeasured(session: Session, *, is_forced: bool) -> Iterator[Finding]:
    """Yield which gates did not pass and have no result, so that there is none to accept."""
    ended = dict.fromkeys(session.missing, "missing") | {
        gate.id: gate.outcome
        for gate in session.gates
        if not gate.comparisons and (gate.outcome != "passed" or gate.entry.is_hidden)
    }
    if ended:
        gates = named([f"{gate} ({WORDS[outcome]})" for gate, outcome in ended.items()])
        yield Finding(f"baseline: {gates} not accepted: no result", fails=not is_forced)

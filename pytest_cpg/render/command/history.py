"""History: what became of each gate over the sessions of a project."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates import HISTORY
from pytest_cpg.gates.notation import fitted_names
from pytest_cpg.machine.files import FileError
from pytest_cpg.render.command import UNUSABLE, width
from pytest_cpg.render.command.contributed import declare_plugins, kinds_of
from pytest_cpg.render.command.project import project_here
from pytest_cpg.render.line import has_blocks, listed, sparkline
from pytest_cpg.report.history import History, Point
from pytest_cpg.report.history_file import read


def declare(parser: argparse.ArgumentParser) -> None:
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


def run(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return the lines to print, and the exit code."""
    files: list[Path] = arguments.files or [project_here().history]
    for path in files:
        if not path.exists():
            raise FileError(f"there is no history {path}. Each session adds to one: pytest")
    history, faults = read(files, kinds_of(arguments))
    code = UNUSABLE if faults else 0
    names = list(
        dict.fromkeys(name for session in history.sessions for name in session.comparisons)
    )
    if arguments.gate is None:
        read_from = str(files[0]) if len(files) == 1 else f"{len(files)} files"
        return [*faults, *_all_gates(history, names, read_from)], code
    # The name does without its file, as it is printed.
    gates = [name for name in names if f"::{name}".endswith(f"::{arguments.gate}")]
    if not gates:
        raise CpgError(f"no gate named {arguments.gate!r}. {did_you_mean(arguments.gate, names)}")
    return [*faults, *(line for name in gates for line in _one_gate(history, name))], code


def _all_gates(history: History, names: list[str], read_from: str) -> Iterator[str]:
    """Yield a line for each gate: its trend, what it last found, and its name."""
    count = len(history.sessions)
    counted = f"{count} session{'s'[: count != 1]}, {len(names)} gate{'s'[: len(names) != 1]}"
    yield f"cpg: {counted} in {read_from}"
    rows = []
    for name in names:
        past = _until(history, name)
        heights = sparkline(past.heights(name), is_ascii=not has_blocks(sys.stdout.encoding))
        last = past.attempts(name)[-1]
        trend, text = next(((one.name, one.text) for one in last.found.trends), ("", ""))
        rows.append((heights, trend, text, last.found.label, name))
    told = ((heights, f"{trend} {text}".strip(), *more) for heights, trend, text, *more in rows)
    lines = listed([*told])
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
    fitted = fitted_names(names, width() - widest - len("   "))
    yield ", ".join(filter(None, (*(trends if len(trends) == 1 else ()), fitted.shared)))
    for line, name in zip(shown, names, strict=True):
        short = fitted.of[name]
        if widest + len("   ") + len(short) > width():
            yield from (line, f"  {short}")
        else:
            yield f"{line:{widest}s}  {short}"


def _one_gate(history: History, name: str) -> Iterator[str]:
    yield name
    rows = [_told(point) for point in history.attempts(name)]
    yield from (f" {line}" for line in listed(rows))


def _told(point: Point) -> tuple[str, ...]:
    finding = point.found
    numbers = ", ".join(f"{trend.name} {trend.text}" for trend in finding.trends)
    label = finding.label + ", other design" * point.is_other_design
    return (point.date[:16].replace("T", " "), point.commit or "-", numbers, label)


def _until(history: History, name: str) -> History:
    """Return the history up to the last session that made this comparison."""
    last = max(place for place, one in enumerate(history.sessions) if name in one.comparisons)
    return History(history.sessions[: last + 1])

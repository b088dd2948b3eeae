"""Command: pytest-cpg, which works on files that sessions have written, and runs no gate.

A subcommand is a row of `_COMMANDS`, and two functions of a module here: ``declare_NAME`` adds its
arguments to a parser, and ``NAME`` returns the lines to print and the exit code. None imports
pytest.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from importlib import import_module, metadata
from typing import NoReturn

from pytest_cpg.contracts import CpgError
from pytest_cpg.contracts.lookup import did_you_mean
from pytest_cpg.gates.notation import visible

# By name: the module, and what it does in one line.
_COMMANDS = {
    "show": ("reports", "print a report as the terminal did"),
    "compare": ("changes", "say what became of each gate between two reports"),
    "history": ("changes", "show the trend of each gate over the sessions of a project"),
    "html": ("reports", "write the page of a report"),
    "badge": ("reports", "print a badge of a report, an SVG for a README"),
    "accept": ("reports", "put the results of a report into the baseline"),
    "init": ("project", "write a gate, a model, a workflow and settings that run at once"),
    "tasks": ("tasks", "list tasks, or say what one observes and how it is solved"),
}
_EXIT_CODES = (
    "Exit codes: 0 done; 1 compare found a gate that got worse or is missing, or accept refused "
    "one; 2 a file or an argument cannot be used."
)
# The exit code where a file or an argument cannot be used.
UNUSABLE = 2


class _Parser(argparse.ArgumentParser):
    """Says what to type where a report is missing, too."""

    def error(self, message: str) -> NoReturn:
        """Leave with a message."""
        if message.endswith("required: report"):
            message += f". Write one, and name it: pytest --cpg-json=r.json; {self.prog} r.json"
        super().error(message)


def main(given: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    try:
        arguments = _parse(sys.argv[1:] if given is None else given)
        module = import_module(f"{__name__}.{_COMMANDS[arguments.command][0]}")
        lines, code = getattr(module, arguments.command)(arguments)
        _write("".join(f"{line}\n" for line in lines))
    except CpgError as error:
        sys.stderr.write(visible(f"pytest-cpg {arguments.command}: {error}\n"))
        return UNUSABLE
    except KeyboardInterrupt:
        sys.stderr.write("pytest-cpg: interrupted. Every file is as it was, or complete.\n")
        # As shells have it.
        return 130
    return int(code)


def width() -> int:
    """Return the columns of the terminal, 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def _parse(given: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(
        prog="pytest-cpg",
        description="Work on the reports of gates on world models (pytest --cpg-json=PATH). "
        "Nothing is measured: pytest does that.",
        epilog=_EXIT_CODES,
    )
    version = f"pytest-cpg {metadata.version('pytest-cpg')}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, text) in _COMMANDS.items():
        # Only the one that is asked for is loaded.
        command = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name in given[:1]:
            getattr(import_module(f"{__name__}.{module}"), f"declare_{name}")(command)
    if given and not given[0].startswith("-") and given[0] not in _COMMANDS:
        parser.error(f"no command named {given[0]!r}. {did_you_mean(given[0], _COMMANDS)}")
    return parser.parse_args(given)


def _write(text: str) -> None:
    # Reports and histories are files that anybody may have written.
    from pytest_cpg.render.line import shown_in

    encoding = sys.stdout.encoding or "utf-8"
    text = shown_in(encoding, visible(text))
    try:
        sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read it has seen enough; nothing may be written at the end, either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

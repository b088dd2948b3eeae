"""Terminal: where a running gate shows its progress, past pytest's capture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pytest

from pytest_cpg.gates.notation import for_log, one_line
from pytest_cpg.render.line import Line, shown_in
from pytest_cpg.render.progress import LiveLine, LogLines, Watch, can_wipe, write_live


def write_lines(lines: Sequence[Line], terminal: Any) -> None:
    """Write lines in their colours, in signs that the terminal has."""
    encoding = getattr(sys.__stdout__, "encoding", None)
    for line in lines:
        for text, markup in line.parts:
            terminal.write(shown_in(encoding, text), **markup)
        terminal.write("\n")


def watch_on(config: pytest.Config, gate: str, note: Callable[[str], None]) -> Watch:
    """Return what shows a running gate: live on a terminal, line by line in a log."""
    show: LiveLine | LogLines | None = None
    name, reporter = one_line(gate), config.pluginmanager.getplugin("terminalreporter")
    is_watched = reporter is not None and reporter.isatty and config.get_verbosity() >= 0
    if hasattr(config, "workerinput"):
        show = LogLines(partial(_write_past, config), name=name, has_ends=False)
    elif is_watched and can_wipe():
        writer = config.get_terminal_writer()
        show = LiveLine(
            partial(_write_raw, config),
            lambda: writer.fullwidth - writer.width_of_current_line - 1,
            is_plain=not writer.hasmarkup,
        )
    elif reporter is not None:
        is_told = config.get_verbosity() > 0
        write = partial(write_line, config)
        show = LogLines(write, name="" if is_told else name, has_ends=is_told)
    return Watch(note, show)


def _write_past(config: pytest.Config, text: str) -> None:
    # All that a worker of pytest-xdist shares with the terminal.
    with _uncaptured(config):
        sys.stderr.write(f"{for_log(text)}\n")
        sys.stderr.flush()


def _write_raw(config: pytest.Config, text: str) -> None:
    # Past the terminal writer, which would count escape codes as columns.
    with _uncaptured(config):
        write_live(sys.stdout, text)


def write_line(config: pytest.Config, text: str) -> None:
    """Print a line past pytest's capture, at once: whatever is left would be captured, or lost."""
    if not config.pluginmanager.hasplugin("terminalreporter"):
        # There is none before a session is configured.
        _write_past(config, text)
        return
    with _uncaptured(config):
        config.get_terminal_writer().line(for_log(text))
        config.get_terminal_writer().flush()


def _uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    capture = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else nullcontext()

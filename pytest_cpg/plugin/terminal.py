"""Terminal: where a running gate shows its progress, past pytest's capture."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from pytest_cpg.gates.notation import duration, for_log, one_line
from pytest_cpg.render.progress import LiveLine, LogLines, Watch

# Seconds from which on the time of an arm is foretold, and the room for a gate's name.
_LONG, _NAME = 60, 34


def watch_on(config: pytest.Config, note: Callable[[str], None]) -> Watch:
    """Return what shows a running gate: live on a terminal, line by line in a verbose log."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    show: LiveLine | LogLines | None = None
    if reporter is not None and reporter.isatty and config.get_verbosity() >= 0:
        show = LiveLine(lambda text: _write_raw(config, text), lambda: _free_columns(config))
    elif reporter is not None and config.get_verbosity() > 0:
        show = LogLines(lambda text: write_line(config, text))
    return Watch(note, show)


def _write_raw(config: pytest.Config, text: str) -> None:
    # Past the terminal writer, which would count escape codes as columns.
    with _uncaptured(config):
        sys.stdout.write(text)
        sys.stdout.flush()


def write_line(config: pytest.Config, text: str) -> None:
    """Print a line past pytest's capture, at once: whatever is left would be captured, or lost."""
    with _uncaptured(config):
        config.get_terminal_writer().line(for_log(text))
        config.get_terminal_writer().flush()


def foretold(config: pytest.Config, gate: str, arm: str, seconds: float) -> None:
    """Say at once that an arm of a gate takes long, if it does, however quiet the session is."""
    if seconds < _LONG:
        return
    name = one_line(gate.rpartition("::")[2], _NAME)
    text = for_log(f"  cpg: {name}: the {arm} arm takes up to {duration(seconds)}")
    if hasattr(config, "workerinput"):
        # All that a worker of pytest-xdist shares with the terminal.
        with _uncaptured(config):
            sys.stderr.write(f"\n{text}\n")
            sys.stderr.flush()
    elif config.pluginmanager.hasplugin("terminalreporter"):
        write_line(config, f"\n{text}")


def _free_columns(config: pytest.Config) -> int:
    terminal = config.get_terminal_writer()
    return terminal.fullwidth - terminal.width_of_current_line - 1


def _uncaptured(config: pytest.Config) -> AbstractContextManager[None]:
    capture = config.pluginmanager.getplugin("capturemanager")
    return capture.global_and_fixture_disabled() if capture else nullcontext()

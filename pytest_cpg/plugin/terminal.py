"""Terminal: how wide it is, and where gates show their progress, past pytest's capture."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import pytest

from pytest_cpg.gates.notation import for_log, one_line
from pytest_cpg.render.bars import in_ascii
from pytest_cpg.render.line import Line, has_blocks
from pytest_cpg.render.live import LiveText, WorkersLine, can_wipe, write_live
from pytest_cpg.render.progress import LiveLine, LogLines, SentLine, Watch

WIDTH = "pytest_cpg_width"
"""What a worker's input calls the columns of its controller's terminal."""
LIVE = "pytest_cpg_live"
"""What a worker's input calls the channel by which it says how far it is."""


def width_of(config: pytest.Config) -> int:
    """Return the columns of the terminal, for a worker those of its controller's."""
    given = getattr(config, "workerinput", {}).get(WIDTH)
    reporter = config.pluginmanager.hasplugin("terminalreporter")
    columns = config.get_terminal_writer().fullwidth if given is None and reporter else given
    return columns or 80


def free_columns(config: pytest.Config) -> int:
    """Return how many columns are left behind what pytest has printed on its line."""
    terminal = config.get_terminal_writer()
    return terminal.fullwidth - terminal.width_of_current_line - 1


def is_live(config: pytest.Config) -> bool:
    """Say whether somebody watches a terminal on which what was shown can be wiped."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    is_watched = reporter is not None and reporter.isatty and config.get_verbosity() >= 0
    return is_watched and can_wipe()


def is_ascii() -> bool:
    """Say whether the terminal has no signs beyond ASCII, whatever is captured."""
    return not has_blocks(getattr(sys.__stdout__, "encoding", None))


def write_lines(lines: Sequence[Line], terminal: Any) -> None:
    """Write lines in their colours, in signs that the terminal has."""
    has_ascii_alone = is_ascii()
    for line in lines:
        for text, markup in line.parts:
            terminal.write(in_ascii(text) if has_ascii_alone else text, **markup)
        terminal.write("\n")


def watch_on(config: pytest.Config, gate: str, note: Callable[[str], None]) -> Watch:
    """Return what shows a running gate: live on a terminal, line by line in a log."""
    show: LiveLine | SentLine | LogLines | None = None
    name = one_line(gate)
    if hasattr(config, "workerinput"):
        channel = config.workerinput.get(LIVE)
        past = partial(_write_past, config)
        is_log = channel is None
        show = LogLines(past, name=name, has_ends=False) if is_log else SentLine(channel.send)
    elif is_live(config):
        shown = LiveText(
            partial(_write_raw, config),
            partial(free_columns, config),
            is_plain=not config.get_terminal_writer().hasmarkup,
        )
        show = LiveLine(shown, is_ascii=is_ascii())
    elif config.pluginmanager.hasplugin("terminalreporter"):
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


class LiveWorkers:
    """Shows how far workers are, and wipes it before pytest prints."""

    def __init__(self, config: pytest.Config) -> None:
        is_plain = not config.get_terminal_writer().hasmarkup
        # The controller captures nothing while workers run.
        write, room = partial(write_live, sys.stdout), partial(free_columns, config)
        self._line = WorkersLine(LiveText(write, room, is_plain=is_plain))

    def follow(self, node: Any) -> None:
        """Give a worker what it says by how far it is; one that dies is at work no more."""
        channel = node.gateway.newchannel()
        # Called in a thread of execnet's.
        channel.setcallback(partial(self._line.take, node.gateway.id), endmarker=None)
        node.workerinput[LIVE] = channel

    @pytest.hookimpl(wrapper=True, tryfirst=True, optionalhook=True)
    def pytest_runtest_logreport(self) -> Generator[None, object, object]:
        """Leave the line to whoever prints."""
        with self._line.wiped():
            return (yield)

    pytest_testnodedown = pytest_testnodeready = pytest_runtest_logreport
    pytest_sessionfinish = pytest_runtest_logreport

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self) -> Generator[None, object, object]:
        """Give the line back: quick tests would otherwise leave no time for it."""
        with self._line.wiped():
            result = yield
        self._line.show()
        return result

    pytest_runtest_logfinish = pytest_runtest_logstart

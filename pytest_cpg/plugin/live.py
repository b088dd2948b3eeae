"""Live: how wide a session's terminal is, and the line that shows how far all its workers are."""

from __future__ import annotations

import sys
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

from pytest_cpg.render.live import LiveText, WorkersLine, can_wipe, write_live

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

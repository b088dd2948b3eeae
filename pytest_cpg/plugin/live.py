"""Live: the one line that shows how far all workers of pytest-xdist are."""

from __future__ import annotations

import sys
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

from pytest_cpg.plugin.width import free_columns
from pytest_cpg.render.live import LiveText, WorkersLine, write_live

LIVE = "pytest_cpg_live"
"""What a worker's input calls the channel by which it says how far it is."""


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

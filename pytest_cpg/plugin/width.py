"""Width: how many columns a session's output has, in its workers, too, and what is free of them."""

from __future__ import annotations

import pytest

from pytest_cpg.render.live import can_wipe

WIDTH = "pytest_cpg_width"
"""What a worker's input calls the columns of its controller's terminal."""


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

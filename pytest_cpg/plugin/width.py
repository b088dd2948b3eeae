"""Width: how many columns a session's output has, in its workers, too."""

from __future__ import annotations

import pytest

WIDTH = "pytest_cpg_width"
"""What a worker's input calls the columns of its controller's terminal."""


def width_of(config: pytest.Config) -> int:
    """Return the columns of the terminal, for a worker those of its controller's."""
    given = getattr(config, "workerinput", {}).get(WIDTH)
    reporter = config.pluginmanager.hasplugin("terminalreporter")
    columns = config.get_terminal_writer().fullwidth if given is None and reporter else given
    return columns or 80

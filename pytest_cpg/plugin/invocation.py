"""Invocation: how this session was started, and what is typed there to start another like it."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser
from pathlib import Path

import pytest

PROGRAM = "pytest_cpg_program"
"""What a worker's input calls how its controller's user types pytest."""
WIDTH = "pytest_cpg_width"
"""What it calls the columns of its controller's terminal."""

# Options of pytest that say which project it is, and how its files are loaded and configured.
_OF_PROJECT = (
    ("-c", "--config-file"),
    ("--rootdir",),
    ("--confcutdir",),
    ("--import-mode",),
    ("-p",),
    ("-o", "--override-ini"),
)


def program_of(config: pytest.Config) -> str:
    """Return how pytest is typed for the same project: with what this session typed of it.

    What addopts and PYTEST_ADDOPTS say need not be said again, nor which plugins were left out.
    """
    given: str | None = getattr(config, "workerinput", {}).get(PROGRAM)
    if given is not None:
        return given
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    for spellings in _OF_PROJECT:
        parser.add_argument(*spellings, dest=spellings[-1], action="append", default=[])
    typed, _ = parser.parse_known_args([str(word) for word in config.invocation_params.args])
    words = [
        word
        for spelling, values in vars(typed).items()
        for value in values
        if not value.startswith("no:")
        for word in ([f"{spelling}={value}"] if spelling.startswith("--") else [spelling, value])
    ]
    return shlex.join(["pytest", *words])


def width_of(config: pytest.Config) -> int:
    """Return the columns of the terminal, for a worker those of its controller's."""
    given = getattr(config, "workerinput", {}).get(WIDTH)
    reporter = config.pluginmanager.hasplugin("terminalreporter")
    columns = config.get_terminal_writer().fullwidth if given is None and reporter else given
    return columns or 80


def lead_to(config: pytest.Config, nodeid: str) -> str:
    """Return what leads pytest from here to the project of a test: from outside, a path within."""
    here = config.invocation_params.dir
    if config.rootpath in (here, *here.parents):
        return ""
    return f"{shlex.quote(node_from_here(config, nodeid))} "


def path_from_here(config: pytest.Config, path: Path) -> str:
    """Return a path as it is typed where pytest was started."""
    try:
        return Path(os.path.relpath(path, config.invocation_params.dir)).as_posix()
    # On Windows, from one drive to another.
    except ValueError:
        return str(path)


def node_from_here(config: pytest.Config, nodeid: str) -> str:
    """Return a node id as it is typed where pytest was started: pytest's own is from the root."""
    file, colons, name = nodeid.partition("::")
    return f"{path_from_here(config, config.rootpath / file)}{colons}{name}"

"""Init: the files of a repository whose gate runs at once, to put a model of one's own into."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from pytest_cpg.gates import BASELINE
from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.render.command.project import project_in

_FILES = {
    "tests/world_model/conftest.py": "the model: put yours here",
    "tests/world_model/test_planning_gap.py": "the gate",
    ".github/workflows/world-model.yml": "the job; make it a required check",
}
_INI = "pytest.ini"
_NEEDED = ("dm_control", "torch", "jinja2")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.description = (
        "Write a gate on reacher-easy, an example of a model, a GitHub workflow and pytest.ini. "
        "No file is ever replaced."
    )
    parser.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=Path(),
        help="top of the repository (default: here)",
    )


def run(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Return the lines to print, and the exit code."""
    folder: Path = arguments.folder
    # Those that a pytest.ini would hide.
    settings = project_in(folder).settings_file
    wanted = {**_FILES, **({} if settings else {_INI: "the plugin is required"})}
    for name in wanted:
        is_inside = Path(os.path.realpath(folder / name)).is_relative_to(os.path.realpath(folder))
        if os.path.lexists(folder / name) or not is_inside:
            why = "is there already" if is_inside else "is behind a link out of this folder"
            raise FileError(
                f"{folder / name} {why}, and no file is replaced. Type: pytest-cpg init "
                f"FOLDER, and take from FOLDER what you need"
            )
    for name in wanted:
        source = files(__package__) / "repository" / f"{Path(name).name}.txt"
        write_text(folder / name, source.read_text(encoding="utf-8"), what="the file")
    widest = max(map(len, wanted))
    lines = ["written:", *(f"  {name:{widest}s}  {what}" for name, what in wanted.items())]
    if settings:
        name = '["pytest-cpg"]' if settings.endswith(".toml") else "pytest-cpg"
        lines.append(f"{settings} has pytest's settings: add required_plugins = {name} there")
    return [*lines, "", *_next(folder)], 0


def _next(folder: Path) -> Iterator[str]:
    yield "Type next:"
    if folder != Path():
        yield f"  cd {shlex.quote(str(folder))}"
    if not all(map(find_spec, _NEEDED)):
        yield '  pip install "pytest-cpg[control,torch,html]"'
    yield "  pytest                                 # trains the example, and judges it"
    yield "  pytest-cpg tasks                       # other tasks, and what they observe"
    yield "Once your model is in, commit it, and accept what it does as the baseline:"
    yield f"  pytest --cpg-update-baseline && git add {BASELINE}"

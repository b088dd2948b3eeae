"""Project: the root that pytest would find from here, its settings, its plugins, and a new one."""

from __future__ import annotations

import argparse
import configparser
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_cpg.gates import BASELINE, GATES, HISTORY, PREFIX
from pytest_cpg.gates.answer import fault_of
from pytest_cpg.machine.exits import refuse_success
from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.report.ledger import Kinds

# Where pytest looks for its settings, in its order, and in which part of a file. The first four are
# taken without any.
_OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_PROJECT = "pyproject.toml"
# What `init` writes.
_FILES = {
    "tests/world_model/conftest.py": "the model: put yours here",
    "tests/world_model/test_planning_gap.py": "the gate",
    ".github/workflows/world-model.yml": "the job; make it a required check",
}
_INI = "pytest.ini"
# What the workflow installs, and where else it may come from.
_RELEASE = '"pytest-cpg[$control,torch,html]"'
_ADDRESS = re.compile(r"[\w.:/@+~#=&%-]+", re.ASCII)
_NEEDED = ("dm_control", "torch", "jinja2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project, as pytest finds it; paths in its settings are relative to its root."""

    root: Path
    settings_file: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def baseline(self) -> Path:
        """The baseline file of sessions, as it is called from the current folder."""
        typed = os.environ.get(f"{PREFIX}BASELINE")
        return self._from_here(typed or str(self.settings.get("cpg_baseline") or BASELINE))

    @property
    def history(self) -> Path:
        """The history file that sessions add to, as it is called from the current folder."""
        return self._from_here(HISTORY)

    def _from_here(self, path: str) -> Path:
        return Path(path if os.path.isabs(path) else os.path.relpath(self.root / path))


def project_here() -> Project:
    """Return the project that pytest finds when it is started here without arguments."""
    above = (Path.cwd(), *Path.cwd().parents)
    projects = (project for project in map(_project_in, above) if project.settings_file)
    marks = (folder / name for name in (_PROJECT, "setup.py") for folder in above)
    roots = (mark.parent for mark in marks if mark.is_file())
    return next(projects, None) or Project(root=next(roots, above[0]))


def _project_in(folder: Path) -> Project:
    """Return the project of this folder, with pytest's settings where it has some."""
    for name in (*_OWN, _PROJECT, "tox.ini", "setup.cfg"):
        path = folder / name
        try:
            settings = _settings_in(path) if path.is_file() else None
        except (ValueError, configparser.Error, OSError) as error:
            raise FileError(f"cannot read pytest's settings in {path}: {error}") from None
        if settings is not None:
            return Project(root=folder, settings_file=name, settings=settings)
    return Project(root=folder)


def _settings_in(path: Path) -> Mapping[str, Any] | None:
    """Return the settings of pytest in a file; None where it has none."""
    nothing: Mapping[str, Any] | None = {} if path.name in _OWN else None
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".toml":
        parsed = configparser.RawConfigParser(strict=False)
        parsed.read_string(text)
        section = "tool:pytest" if path.suffix == ".cfg" else "pytest"
        return dict(parsed[section]) if parsed.has_section(section) else nothing
    tables: dict[str, Any] = tomllib.loads(text)
    if path.name != _PROJECT:
        settings: Mapping[str, Any] | None = tables.get("pytest", nothing)
    else:
        table = tables.get("tool", {}).get("pytest", {})
        settings = table.get("ini_options", table or nothing)
    return settings


def declare_plugins(parser: argparse.ArgumentParser) -> None:
    """Declare the option that names whoever contributes kinds of gate or tasks."""
    parser.add_argument(
        "-p",
        dest="plugins",
        metavar="PLUGIN",
        action="append",
        default=[],
        help="module, or path of a conftest.py, whose hooks contribute kinds of gate or tasks",
    )


def kinds_of(arguments: argparse.Namespace) -> Kinds:
    """Return the kinds of gate by their markers: ours, and those that plugins bring."""
    return {**GATES, **from_hook("pytest_cpg_gates", arguments)}


def from_hook(hook: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what plugins contribute by one of our hooks. A CpgError names one that cannot."""
    contributed: dict[str, Any] = {}
    if arguments.plugins:
        # For good: libraries also end the process at exit.
        refuse_success(lambda: True, sys.stderr.write)
    for name in arguments.plugins:
        try:
            contributed |= getattr(_loaded(name), hook, dict)() or {}
        except FileError:
            raise
        # A user's code may raise anything, and an exit would say that all is well.
        except (Exception, SystemExit) as error:
            raise fault_of(f"-p {name}", error) from error
    return contributed


def _loaded(name: str) -> ModuleType:
    if not name.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            # What the module itself imports is another matter.
            if not f"{name}.".startswith(f"{error.name}."):
                raise
            raise FileError(
                f"-p {name}: there is no module {error.name!r}, here or among what is installed. "
                f"Name a module, or the path of a conftest.py"
            ) from None
    path = Path(name).resolve()
    # As pytest does for a conftest.py without an __init__.py beside it.
    sys.path.insert(0, str(path.parent))
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileError(f"-p {name}: there is no such file. Name a module or a conftest.py")
    module = module_from_spec(spec)
    # A dataclass whose annotations are strings looks for its module there.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def declare_init(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument(
        "--from",
        dest="source",
        metavar="ADDRESS",
        type=_address,
        help="where pip gets pytest-cpg from in the workflow, such as a commit of it, "
        "git+https://HOST/OWNER/pytest-cpg@COMMIT (default: its release)",
    )


def _address(text: str) -> str:
    # It stands in quotes, in a line that a shell reads.
    if "://" not in text or not _ADDRESS.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"need an address as pip takes it, got {text!r}. Write "
            f"git+https://HOST/OWNER/pytest-cpg"
        )
    return text


def init(arguments: argparse.Namespace) -> tuple[list[str], int]:
    """Write the files of a repository whose gate runs at once, to put one's own model into."""
    folder: Path = arguments.folder
    # Those that a pytest.ini would hide.
    settings = _project_in(folder).settings_file
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
        text = source.read_text(encoding="utf-8")
        if arguments.source:
            text = text.replace(_RELEASE, f'{_RELEASE[:-1]} @ {arguments.source}"')
        write_text(folder / name, text, what="the file")
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

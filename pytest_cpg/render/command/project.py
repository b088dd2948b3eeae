"""Project: the root directory that pytest would find from here, and its settings."""

from __future__ import annotations

import configparser
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_cpg.gates import BASELINE, HISTORY, PREFIX
from pytest_cpg.machine.files import FileError

# Where pytest looks for its settings, in its order, and in which part of a file. The first four are
# taken without any.
_OWN = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")
_PROJECT = "pyproject.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project, as pytest finds it.

    Attributes
    ----------
    root : Path
        The root directory, to which paths in settings are relative.
    settings_file : str
        The name of the file with pytest's settings; empty where there is none.
    settings : mapping
        Values by key, such as ``cpg_baseline``.
    """

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
    """Return the project that pytest finds when it is started here without arguments.

    Raises FileError for settings that cannot be read.
    """
    here = Path.cwd()
    above = (here, *here.parents)
    for folder in above:
        found = project_in(folder)
        if found.settings_file:
            return found
    for name in (_PROJECT, "setup.py"):
        for folder in above:
            if (folder / name).is_file():
                return Project(root=folder)
    return Project(root=here)


def project_in(folder: Path) -> Project:
    """Return the project of this folder, with pytest's settings where it has some.

    Raises FileError for settings that cannot be read.
    """
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
    nothing: dict[str, Any] | None = {} if path.name in _OWN else None
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        tables: dict[str, Any] = tomllib.loads(text)
        if path.name == _PROJECT:
            table = tables.get("tool", {}).get("pytest", {})
            found: dict[str, Any] | None = table.get("ini_options", table or nothing)
        else:
            found = tables.get("pytest", nothing)
        return found
    parsed = configparser.RawConfigParser(strict=False)
    parsed.read_string(text)
    section = "tool:pytest" if path.suffix == ".cfg" else "pytest"
    return dict(parsed[section]) if parsed.has_section(section) else nothing

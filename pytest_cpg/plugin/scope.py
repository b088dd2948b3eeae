"""Session scope: what a session was asked to run, and how many gates it owes for that."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from pytest_cpg.machine.ci import is_in_ci
from pytest_cpg.plugin.checks import check_is_typed
from pytest_cpg.plugin.settings import Settings

# Options of pytest that run no test, as they are typed.
_RUNS_NOTHING = {
    "collectonly": ("--collect-only", "--collectonly", "--co"),
    "showfixtures": ("--fixtures", "--funcargs"),
    "show_fixtures_per_test": ("--fixtures-per-test",),
    "setupplan": ("--setup-plan", "--setupplan"),
    # The one above sets it as well.
    "setuponly": ("--setup-only", "--setuponly", "--setup-plan", "--setupplan"),
}


def check_will_run(config: pytest.Config, settings: Settings) -> None:
    """Refuse in CI what runs no gate and is not typed there."""
    for name, spellings in _RUNS_NOTHING.items():
        # The plugin of the last two may be left out.
        if getattr(config.option, name, False):
            check_is_typed(config, *spellings, require=settings.of_session("require"))


class SessionScope:
    """What one session was asked to run.

    Where no xdist worker said what it had collected, "silent" is among the uncollected.
    """

    def __init__(self, config: pytest.Config, settings: Settings, uncollected: set[str]) -> None:
        self._config, self._settings = config, settings
        self.uncollected = uncollected
        self.is_in_ci = is_in_ci()

    @property
    def has_run(self) -> bool:
        """Whether tests are run, and not only collected or set up."""
        return not any(getattr(self._config.option, name, False) for name in _RUNS_NOTHING)

    @property
    def required(self) -> str:
        """How many gates have to be judged, ``"all"`` or a number; empty for none."""
        required = self._settings.of_session("require")
        if "require" not in self._settings.typed:
            if "replay" in self._settings.typed or "quick" in self._settings.switches:
                return ""
            if self.is_in_ci:
                required = required or "all"
            elif self.asked is not None or self.ignores:
                return ""
        return "" if required == "0" else str(required)

    @property
    def asked(self) -> tuple[Path, ...] | None:
        """Files and folders that pytest was asked to collect; None for the whole project."""
        config, option = self._config, self._config.option
        is_cut = option.pyargs or getattr(option, "lf", False)
        if is_cut or {"failed", "silent"} & self.uncollected:
            return ()
        if config.args_source is pytest.Config.ArgsSource.ARGS:
            arguments = (arg for arg in config.args if "::" not in arg)
            paths = tuple((config.invocation_params.dir / one).resolve() for one in arguments)
        elif config.args_source is pytest.Config.ArgsSource.INVOCATION_DIR:
            paths = (config.invocation_params.dir,)
        else:
            return None
        return None if config.rootpath in paths else paths

    @property
    def ignores(self) -> bool:
        """Whether pytest was told to leave out files or folders."""
        return bool(self._config.option.ignore or self._config.option.ignore_glob)

    def is_ignored(self, path: Path) -> bool:
        """Say whether pytest was told to leave out a file, or a folder that it is in."""
        option, folder = self._config.option, self._config.invocation_params.dir
        ignored = {os.path.abspath(folder / folder_name) for folder_name in option.ignore or []}
        patterns = [
            os.path.abspath(folder / folder_name) for folder_name in option.ignore_glob or []
        ]
        places = [str(place) for place in (path, *path.parents)]
        return not ignored.isdisjoint(places) or any(
            fnmatch(place, pattern) for place in places for pattern in patterns
        )

    @property
    def leaves_passed_out(self) -> bool:
        """Whether --lf leaves out what passed; without a failure before, it leaves out nothing."""
        cache: Any = getattr(self._config, "cache", None)
        is_asked = getattr(self._config.option, "lf", False)
        return bool(is_asked and cache.get("cache/lastfailed", {}))

    def owes_gates(self, *, had_gates: bool) -> bool:
        """Say whether a session without any gate may have to have some."""
        if not self.has_run:
            return False
        if "silent" in self.uncollected:
            return had_gates or self.required != ""
        if self.leaves_passed_out:
            had_gates = had_gates or "require" in self._settings.typed
        return had_gates if self.required == "all" else self.required != ""

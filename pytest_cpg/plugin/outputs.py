"""Session outputs: what a session writes besides the terminal, and where."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cpg.plugin.settings import Settings
from pytest_cpg.render.formats import FORMATS, is_free, lacking, write_reports

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import Finding
    from pytest_cpg.render.github import Location
    from pytest_cpg.report.session import Session

_ANNOTATES_TOO = "pytest_github_actions_annotate_failures"


class SessionOutputs:
    """The files and annotations of one session, written by the process that prints the summary."""

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config, self._settings = config, settings
        self.locations: dict[str, tuple[str, int | None, str]] = {}
        self.annotations: list[str] = []

    def is_asked(self, *, with_gates: bool) -> bool:
        """Say whether there is anything to write, by a session with gates or without any."""
        if hasattr(self._config, "workeroutput"):
            return False
        return any(map(self._path, FORMATS)) or (with_gates and self._is_in_github)

    def write(self, session: Session) -> tuple[Finding, ...]:
        """Write everything, and say where it is, or why it is not."""
        from pytest_cpg.render.github import annotations, step_summary

        # Where GitHub lists what this run has uploaded.
        run = session.provenance.ci_run if self._is_in_github else ""
        page = f"{run}#artifacts" if run else ""
        findings = write_reports(
            session,
            {name: self._path(name) for name in FORMATS},
            folder=self._config.invocation_params.dir,
            page=page,
        )
        if self._is_in_github:
            summary = os.environ.get("GITHUB_STEP_SUMMARY")
            if summary and session.gates:
                findings += _added(Path(summary), step_summary(session, page=page))
            is_said = self._config.pluginmanager.hasplugin(_ANNOTATES_TOO)
            self.annotations = annotations(session, self._places(), tests_are_annotated=is_said)
        return tuple(findings)

    def check(self) -> None:
        """Refuse what lacks an extra, or would replace a file that is no report of the form."""
        baseline = self._config.rootpath / self._settings.of_session("baseline")
        # By what is there already: two names of one file are found, too.
        taken = {os.path.realpath(baseline): "--cpg-baseline"}
        for name in FORMATS:
            path = self._path(name)
            if path is None:
                continue
            if missing := lacking(name):
                raise pytest.UsageError(missing)
            option, own = f"--cpg-{name}", f"--cpg-{name}=cpg.{name}"
            if path.suffix == ".py":
                raise pytest.UsageError(
                    f"{option}={path.name} would put a report in the place of a Python file. Its "
                    f"path goes first: {own} {path.name}"
                )
            other = taken.setdefault(os.path.realpath(path), option)
            if other != option:
                raise pytest.UsageError(
                    f"{option} and {other} name the same file, {path}. Give the report one of its "
                    f"own: {own}"
                )
            if not is_free(path, name):
                what = "a folder" if path.is_dir() else "no such report"
                raise pytest.UsageError(
                    f"{option}={path.name} would put a report in the place of {path}, which is "
                    f"{what}. Give the report a path of its own: {own}"
                )

    def _places(self) -> dict[str, Location]:
        """Return where every gate's test is written, from the repository's top."""
        from pytest_cpg.render.github import Location

        root = self._config.rootpath
        top = Path(os.environ.get("GITHUB_WORKSPACE") or root)
        places = {}
        for gate, (file, line, _) in self.locations.items():
            path = Path(os.path.normpath(root / file))
            seen = path.relative_to(top) if path.is_relative_to(top) else Path(file)
            places[gate] = Location(seen.as_posix(), (line or 0) + 1)
        return places

    def _path(self, name: str) -> Path | None:
        return path_of(self._config, self._settings, name)

    @property
    def _is_in_github(self) -> bool:
        return os.environ.get("GITHUB_ACTIONS") == "true"


def _added(summary: Path, text: str) -> list[Finding]:
    """Add to a job's summary, and return why that cannot be done."""
    from pytest_cpg.gates.kind import Finding

    try:
        with summary.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        text = f"cannot write the job's summary {summary}: {error.strerror}"
        return [Finding(text, fails=True)]
    return []


def path_of(config: pytest.Config, settings: Settings, name: str) -> Path | None:
    """Return an option's path: what is typed is from where it is typed, the rest from the root."""
    value = settings.of_session(name)
    folder = config.invocation_params.dir if name in settings.typed else config.rootpath
    return folder / value if value else None

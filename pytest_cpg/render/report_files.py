"""Report files: a session's report as JSON, page and Markdown, each where it was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pytest_cpg.gates.finding import Finding
from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.render.github import step_summary
from pytest_cpg.render.markdown import markdown
from pytest_cpg.report.document import document, write
from pytest_cpg.report.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFiles:
    """Where a session's report goes; None for nowhere.

    Attributes
    ----------
    json, md, html : Path or None
        The report, a comment for a pull request, and a page with figures.
    step_summary : Path or None
        The summary of a job in GitHub Actions, which is added to.
    page : str
        Where the page can be found, for comment and summary; empty where that is not known.
    root : Path
        The root directory, where the page finds films.
    """

    json: Path | None = None
    md: Path | None = None
    html: Path | None = None
    step_summary: Path | None = None
    page: str = ""
    root: Path = field(default_factory=Path)


def write_files(session: Session, files: ReportFiles, *, folder: Path) -> list[Finding]:
    """Write what was asked for, and say where it is; what cannot be written fails the session."""
    writers: tuple[tuple[Path | None, Callable[[Path], None]], ...] = (
        (files.html, lambda path: write_page(path, session, files)),
        (files.json, lambda path: write(path, document(session))),
        (files.md, lambda path: _write_comment(path, session, files)),
        (files.step_summary, lambda path: _add_summary(path, session, files)),
    )
    found = []
    for path, make in writers:
        if path is None:
            continue
        try:
            make(path)
        except FileError as error:
            found.append(Finding(str(error), fails=True))
        except Exception as error:
            # A page that cannot be drawn must cost neither the other files nor the summary.
            found.append(
                Finding(f"cannot write {path}: {type(error).__name__}: {error}", fails=True)
            )
        else:
            if path != files.step_summary:
                shown = path.relative_to(folder) if path.is_relative_to(folder) else path
                found.append(Finding(f"written: {shown}"))
    return found


def write_page(path: Path, session: Session, files: ReportFiles) -> None:
    """Write a session's page, with its history."""
    from pytest_cpg.render.html_page import html_page

    root = f"{Path(os.path.relpath(files.root, path.parent)).as_posix()}/"
    text = html_page(session, root=root)
    write_text(path, text, what="the report")


def _write_comment(path: Path, session: Session, files: ReportFiles) -> None:
    text = markdown(session, page=files.page)
    write_text(path, f"{text}\n", what="the report")


def _add_summary(path: Path, session: Session, files: ReportFiles) -> None:
    text = step_summary(session, page=files.page)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise FileError(f"cannot write the job's summary {path}: {error.strerror}") from None

"""Report files: a session's report as JSON, page and Markdown, each where it was asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pytest_cpg.gates.finding import Finding
from pytest_cpg.machine.files import FileError, write_text
from pytest_cpg.render.github import step_summary
from pytest_cpg.render.markdown import MARKER, markdown
from pytest_cpg.report.document import document, write
from pytest_cpg.report.session import Session

# What every report of a form has in it, in lower case.
_SIGNS = {
    "html": b"<!doctype html>",
    "json": b'"pytest-cpg"',
    "md": MARKER.encode(),
}


def write_files(
    session: Session, paths: Mapping[str, Path | None], *, folder: Path, root: Path, page: str = ""
) -> list[Finding]:
    """Write what was asked for, and say where it is; what cannot be written fails the session.

    Parameters
    ----------
    paths : mapping
        Of "html", a page with figures; of "json", the report; of "md", a comment for a pull
        request; of "summary", that of a job in GitHub Actions, which is added to. None for nowhere.
    folder, root : Path
        What paths are shown from, and the root directory, where the page finds films.
    page : str
        Where the page can be found, for comment and summary; empty where that is not known.
    """
    makers: dict[str, Callable[[Path], None]] = {
        "html": partial(write_page, session=session, root=root),
        "json": lambda path: write(path, document(session)),
        "md": lambda path: write_text(path, f"{markdown(session, page=page)}\n", what="the report"),
        "summary": lambda path: _add_summary(path, step_summary(session, page=page)),
    }
    found = []
    for name, make in makers.items():
        path = paths.get(name)
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
            if name != "summary":
                shown = path.relative_to(folder) if path.is_relative_to(folder) else path
                found.append(Finding(f"written: {shown}"))
    return found


def is_free(path: Path, form: str) -> bool:
    """Say whether a report may be written there: it replaces an empty file or a report alone.

    Parameters
    ----------
    form : str
        "html", "json" or "md".
    """
    # What is written to a pipe or a device replaces nothing, wherever its output goes.
    if not path.is_file() or path.parts[:2] == ("/", "dev"):
        return True
    try:
        text = path.read_bytes()
    except OSError:
        # Whoever writes it says why that cannot be done.
        return True
    return not text or _SIGNS[form] in text.lower()


def write_page(path: Path, session: Session, root: Path) -> None:
    """Write a session's page, with its history and links to films from the root directory."""
    from pytest_cpg.render.html_page import html_page

    way = f"{Path(os.path.relpath(root, path.parent)).as_posix()}/"
    write_text(path, html_page(session, root=way), what="the report")


def _add_summary(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as error:
        raise FileError(f"cannot write the job's summary {path}: {error.strerror}") from None

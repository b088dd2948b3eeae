"""Formats: every form of report that a session writes, in one table.

Options, checks and files follow from a row. Its module has a function
``report(session, *, page) -> str``: ``page`` is where the HTML page can be found, or empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pytest_cpg.gates.kind import Finding
    from pytest_cpg.report.session import Session


class Format(NamedTuple):
    """A form of report: the module of its ``report``, and what its option does.

    Every such report has its ``sign`` in it, in lower case. It ``needs`` a module, empty for none,
    that an ``extra`` installs.
    """

    module: str
    help: str
    sign: str
    needs: str = ""
    extra: str = ""

    def text(self, session: Session, page: str = "") -> str:
        """Return a session's report."""
        return str(import_module(self.module).report(session, page=page))


# By the name of the option, which is the suffix of files as well.
FORMATS: Mapping[str, Format] = {
    "html": Format(
        module="pytest_cpg.render.html_page",
        help="write one page with figures of every gate, which needs no network (extra html)",
        sign="<!doctype html>",
        needs="jinja2",
        extra="html",
    ),
    "json": Format(
        module="pytest_cpg.report.document",
        help="write the result of every gate, with every episode, as JSON; "
        "pytest_cpg/report/report.schema.json describes it",
        sign='"pytest-cpg"',
    ),
    "md": Format(
        module="pytest_cpg.render.markdown",
        help="write a comment for a pull request, as Markdown",
        sign="<!-- pytest-cpg report -->",
    ),
}


def write_reports(
    session: Session, paths: Mapping[str, Path | None], *, folder: Path, page: str = ""
) -> list[Finding]:
    """Write the forms of report that have a path; one that fails does not cost the others."""
    # They load numpy.
    from pytest_cpg.gates.kind import Finding
    from pytest_cpg.machine.files import FileError, write_text

    findings = []
    for name, form in FORMATS.items():
        path = paths.get(name)
        if path is None:
            continue
        try:
            write_text(path, form.text(session, page), what="the report")
        except FileError as error:
            findings.append(Finding(str(error), fails=True))
        except Exception as error:
            text = f"cannot write {path}: {type(error).__name__}: {error}"
            findings.append(Finding(text, fails=True))
        else:
            shown = path.relative_to(folder) if path.is_relative_to(folder) else path
            findings.append(Finding(f"written: {shown}"))
    return findings


def lacking(name: str) -> str:
    """Return what to install for a form of report; empty where that is there."""
    form = FORMATS[name]
    if not form.needs or find_spec(form.needs) is not None:
        return ""
    return f'--cpg-{name} needs the extra {form.extra}: pip install "pytest-cpg[{form.extra}]"'


def is_free(path: Path, name: str) -> bool:
    """Say whether a report of this form may be written there: it replaces nothing but its like."""
    if path.is_dir():
        return False
    # What is written to a pipe or a device replaces nothing, wherever its output goes.
    if not path.is_file() or path.parts[:2] == ("/", "dev"):
        return True
    try:
        text = path.read_bytes()
    except OSError:
        # Whoever writes it says why that cannot be done.
        return True
    return not text or FORMATS[name].sign.encode() in text.lower()

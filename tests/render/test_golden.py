"""Every reader of a session, whole: the snapshots are what a reviewer looks at.

A change that is meant writes them anew: ``pytest tests/render/test_golden.py --force-regen``.
"""

from html.parser import HTMLParser

import pytest
from golden import SESSIONS, recorded

from pytest_cpg.render.command.reports import lines_of
from pytest_cpg.render.formats import FORMATS, Format, is_free, lacking, write_reports
from pytest_cpg.render.github import annotations
from pytest_cpg.render.html_page import report as html_page
from pytest_cpg.render.markdown import markdown
from pytest_cpg.render.summary import summary_lines

pytest.importorskip("pytest_regressions")


class _Words(HTMLParser):
    """What a page says, a line for each element that stands alone."""

    ALONE = ("p", "dt", "li", "tr", "h1", "h2", "h3", "summary", "details", "figure", "section")

    def __init__(self, text):
        super().__init__()
        self.lines, self.is_text = [""], True
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.is_text = tag not in ("style", "script")
        if tag in self.ALONE:
            self.lines.append("> " * (("open", None) in attributes))
        elif tag not in ("b", "code", "span"):
            self.handle_data(" ")

    def handle_endtag(self, tag):
        self.is_text = True

    def handle_data(self, data):
        if self.is_text:
            self.lines[-1] += data


def words_of(page):
    lines = (" ".join(line.split()) for line in _Words(page).lines)
    return "\n".join(line for line in lines if line and not line.isdigit())


READERS = {
    "terminal": lambda session: "\n".join(lines_of(session, width=80)),
    "quiet": lambda session: "\n".join(
        line.text for line in summary_lines(session, width=80, verbosity=-1)
    ),
    "comment": markdown,
    "log": lambda session: "\n".join(annotations(session)),
    "page": lambda session: words_of(html_page(session)),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_is_read(name, reader, file_regression):
    shown = READERS[reader](recorded(name))
    file_regression.check(f"{shown}\n", basename=f"{name}-{reader}")


def report(session, *, page):
    """Return what a form of report that somebody added says of a session."""
    return f"{len(session.gates)} gates, {page}"


def test_a_form_of_report_is_a_file_and_a_row(tmp_path, monkeypatch):
    form = Format(module=__name__, help="write how many", sign="gates", needs="nowhere", extra="a")
    monkeypatch.setitem(FORMATS, "count", form)
    path = tmp_path / "out" / "a.count"
    paths = {"count": path, "md": tmp_path, "html": None}
    said = write_reports(recorded("green"), paths, folder=tmp_path, page="there")
    assert path.read_text() == "2 gates, there"
    assert [(one.fails, one.text.partition(" ")[0]) for one in said] == [
        *((True, "cannot"), (False, "written:")),
    ]
    assert lacking("count") == '--cpg-count needs the extra a: pip install "pytest-cpg[a]"'
    assert is_free(path, "count")
    assert not is_free(path, "md")

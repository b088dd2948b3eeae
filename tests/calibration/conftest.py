"""Calibration writes what it measured into docs/statistics.md, one section per table."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
INTRODUCTION = """\
# Statistics

What the intervals, tests and stopping rules of pytest-cpg do, measured. `make calibrate` writes
this page: every table is computed by a test of `tests/calibration`, by exact enumeration where
nothing else is said, and the test asserts the bounds that matter.
"""


class Page:
    """Sections by title: a run replaces the sections that it measured and keeps the others."""

    def __init__(self):
        self.sections = {}

    def table(self, title, columns, rows, *, note):
        """Set a section: a note that says what was measured and how, and a table.

        ``rows`` are sequences of text or numbers; give numbers as text to choose their digits.
        """
        lines = [columns, ["---"] * len(columns), *rows]
        body = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
        self.sections[title] = f"\n{note}\n\n{body}\n"
        print(f"\n{title}\n{note}\n{body}")

    def merged_into(self, text):
        _, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
        before = {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}
        sections = {**before, **self.sections}
        parts = [INTRODUCTION, *(f"## {title}\n{body}" for title, body in sections.items())]
        return "\n".join(part.strip("\n") + "\n" for part in parts)


@pytest.fixture(scope="session")
def statistics_page():
    page = Page()
    yield page
    # Read at the end, when another run may have written its own sections.
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(page.merged_into(text), encoding="utf-8")

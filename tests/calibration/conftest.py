"""Calibration writes what it measured into docs/statistics.md, one section per table."""

import pytest
from statistics_page import PAGE, Page


@pytest.fixture(scope="session")
def statistics_page():
    page = Page()
    yield page
    # Read at the end, when another run may have written its own sections.
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    PAGE.write_text(page.merged_into(text), encoding="utf-8")
